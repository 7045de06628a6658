"""Load as people look at it: the heat map, broker totals and verdicts."""
