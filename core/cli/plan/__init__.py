"""`trimtab plan`, `estimate` and `verify`."""
