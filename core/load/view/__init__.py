"""Views of load: the heat map, broker totals and verdicts."""
