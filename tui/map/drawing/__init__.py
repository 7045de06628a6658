"""How the map is drawn: cells, totals, panels."""
