"""The planner's model: the problem as arrays, and the placement that a search changes."""
