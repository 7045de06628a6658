"""Files that hold a plan, or that one is made from: Kafka's, ours, Cruise Control's."""
