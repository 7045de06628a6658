"""Watching: what happened in a cluster and what happens now. Reads clusters, logs and journals."""
