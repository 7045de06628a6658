"""`trimtab collect`, `pipeline` and `snapshot`: load samples in, snapshots out."""
