"""Brokers' state-change logs, merged in the order of time."""
