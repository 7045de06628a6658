"""The collector: polls a cluster and measures what its partitions carry."""
