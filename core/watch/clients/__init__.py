"""What clients of a cluster feel: a probe's waits and errors, broker by broker."""
