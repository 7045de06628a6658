"""Brokers' state-change logs, merged into one story in the order of time."""
