"""A run's engine: observe the cluster, choose the next step (pure), carry it out."""
