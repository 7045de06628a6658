"""`trimtab timeline` and `statelog`: what happened in a cluster."""
