"""The planner: whole plans that even a cluster out, or empty, fill and repair parts of it. Pure."""
