"""`trimtab autopilot`: set its mode and limits, show its status and decisions."""
