"""The Groups: consumer groups and their lag."""
