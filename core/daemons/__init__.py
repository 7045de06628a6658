"""Background processes: how they are started, supervised, leased and stopped."""
