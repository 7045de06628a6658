"""Actions that work on every screen: theme, copy, drills, probe, autopilot, leaving."""
