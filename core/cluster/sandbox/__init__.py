"""Real Kafka brokers on this machine, for demos, scenarios and tests."""
