"""A run's journal: its records, and the run's state, which is their fold."""
