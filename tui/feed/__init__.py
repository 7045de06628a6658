"""The threads that read the cluster and its load, and the events they deliver."""
