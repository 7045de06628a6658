"""The Load: rates over time."""
