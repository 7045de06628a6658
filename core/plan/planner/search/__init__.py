"""The planner's search: mandatory moves, then moves, swaps and leader changes that balance."""
