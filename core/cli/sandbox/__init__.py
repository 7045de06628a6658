"""`trimtab sandbox` and `demo`: real brokers on this machine, and a simulated cluster."""
