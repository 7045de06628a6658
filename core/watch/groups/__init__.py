"""Consumer groups: lag, rates, and what happens as they rebalance."""
