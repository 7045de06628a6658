"""Situations that must work, on real brokers: set up, played by public commands, and judged."""
