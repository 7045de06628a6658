"""The Timeline: what happened, and the cluster as it was."""
