"""How brokers are reached and signed in to, and why there is no answer."""
