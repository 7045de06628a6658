"""Real brokers: `client` is KafkaClient.

`wire` speaks through kafka-python (`description`, `log_dirs`, `reassigning`, `cluster_wide`),
`admin` through confluent-kafka. `connection` has the settings of both, `reach` says why nothing
answers.
"""
