"""`trimtab apply` and `runs`: start a run, follow it, and ask it for changes."""
