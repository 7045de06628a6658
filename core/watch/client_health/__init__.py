"""What a cluster's clients experience: a probe's latencies and errors, per broker."""
