"""The planner's search: moves that must be, then moves, swaps and leaders that even brokers out."""
