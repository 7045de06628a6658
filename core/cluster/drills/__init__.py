"""Faults made on purpose, for drills: on a sandbox or a simulated cluster, never elsewhere."""
