"""Whether the replicas of a partition hold the same records, and how far behind they are."""
