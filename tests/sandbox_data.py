"""Topics of real brokers that tests fill with data, and delete."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from confluent_kafka import Producer

from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.workload import run_workload
from core.cluster.sandbox.workload_spec import Workload
from tests.waiting import eventually

BATCH_BYTES = 52_000
"""Twenty fit a fetch of 1 MiB nearly whole: followers fetch the batch that a fetch cuts again, and
both times count against a replication quota."""


def fill(
    settings: ConnectionSettings,
    sizes: Mapping[TopicPartition, int],
    *,
    message_bytes: int = 1_000,
    batch_bytes: int = BATCH_BYTES,
) -> None:
    """Produce at least so many bytes to each of these partitions; the whole ISR acknowledges."""
    options = {"batch.size": batch_bytes, "linger.ms": 20, "acks": "all"}
    config = settings.librdkafka_config() | {"queue.buffering.max.kbytes": 65_536, **options}
    producer = Producer(config)
    payload = random.Random(0).randbytes(message_bytes)
    failures: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    left = {tp: -(-size // message_bytes) for tp, size in sizes.items()}
    while left:
        for tp, count in list(left.items()):
            for _ in range(min(count, 200)):
                while True:
                    try:
                        producer.produce(
                            tp.topic, payload, partition=tp.partition, on_delivery=delivered
                        )
                        break
                    except BufferError:
                        producer.poll(0.1)
                producer.poll(0)
            left[tp] -= 200
        left = {tp: count for tp, count in left.items() if count > 0}
    unacknowledged = producer.flush(120)
    assert not unacknowledged
    assert not failures, failures[0]


def delete_topics(settings: ConnectionSettings, names: Sequence[str]) -> None:
    """Delete topics and return once they are gone; missing ones are no error."""
    with closing(KafkaClient(settings)) as client:
        faults = {fault.name for fault in client.delete_topics(names).values() if fault is not None}
        assert faults <= {"UNKNOWN_TOPIC_OR_PARTITION"}
        eventually(lambda: not any(client.describe_cluster().topic(name) for name in names))


@contextmanager
def produced(settings: ConnectionSettings, workload: Workload) -> Iterator[None]:
    """Produce a load meanwhile."""
    stop = threading.Event()
    producer = threading.Thread(target=run_workload, args=(settings, workload, stop))
    producer.start()
    try:
        yield
    finally:
        stop.set()
        producer.join()
