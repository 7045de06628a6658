"""Real brokers: `client` is KafkaClient.

`wire` speaks through kafka-python, `admin` through confluent-kafka. `connection` has the settings
of both, and says why nothing answers.
"""
