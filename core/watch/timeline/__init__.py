"""The timeline: every change that was seen of a cluster, kept, and the cluster as it was."""
