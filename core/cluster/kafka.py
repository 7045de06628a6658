"""KafkaClient: real brokers behind ClusterClient.

confluent-kafka does all that librdkafka can; kafka-python does the four calls that it lacks:
alter and list reassignments, describe log dirs, alter log dirs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from core.cluster.connection import ConnectionSettings


def quiet_admin(settings: ConnectionSettings) -> Any:
    """Return a confluent-kafka AdminClient that is quick to connect and never prints."""
    from confluent_kafka.admin import AdminClient

    config = settings.confluent()
    logger = config.pop("logger")
    return AdminClient(
        {
            **config,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": -1,
            "log.connection.close": False,
        },
        logger=logger,
    )


def alive_brokers(settings: ConnectionSettings) -> Iterator[frozenset[int]]:
    """Yield again and again which brokers are members of the cluster; none when nobody answers."""
    from confluent_kafka import KafkaException

    admin = quiet_admin(settings)
    while True:
        try:
            yield frozenset(admin.list_topics(timeout=1).brokers)
        except KafkaException:
            yield frozenset()
        time.sleep(0.1)
