"""How fast: which throttles a run wants, and how they are written and put back exactly. Pure."""
