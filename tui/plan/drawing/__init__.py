"""The Plan as lines."""
