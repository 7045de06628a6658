"""The autopilot: balance that keeps itself, decided by rules and carried out by safe runs."""
