"""Sources of load beside the cluster's own answers: bytes that brokers have counted."""
