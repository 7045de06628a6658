"""Consumers of a scenario, each a client of its own with its errors, and producers beside them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from core.cluster.kafka.connection.settings import ConnectionSettings

POLL_SECONDS = 0.1
END_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ClientError:
    """An error that librdkafka told a client of, by its name (`_TRANSPORT`)."""

    at: float
    client: str
    name: str
    text: str


@dataclass(slots=True)
class Heard:
    """What clients have told, from their threads; times are monotonic."""

    errors: list[ClientError] = field(default_factory=list)
    report: Callable[[ClientError], None] = lambda error: None

    def error(self, client: str, error: Any) -> None:
        self.errors.append(ClientError(time.monotonic(), client, error.name(), error.str()))
        self.report(self.errors[-1])

    def names(self) -> Counter[str]:
        return Counter(error.name for error in self.errors)


class Reader:
    """One consumer of a group, in a thread of its own from `start` to `stop`."""

    def __init__(
        self,
        settings: ConnectionSettings,
        name: str,
        group: str,
        topic: str,
        heard: Heard,
        *,
        protocol: str = "classic",
    ) -> None:
        self.name = name
        self.read: list[tuple[int, int]] = []
        """Partition and offset of each record, in the order in which it was read."""
        self.assigned: frozenset[int] = frozenset()
        self.read_at = 0.0
        self.assigned_at = 0.0
        self._settings, self._group, self._topic = settings, group, topic
        self._heard, self._protocol = heard, protocol
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, having committed what was read."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(END_SECONDS)
            self._thread = None

    def _work(self) -> None:
        from confluent_kafka import Consumer

        config = self._settings.librdkafka_config()
        logger = config.pop("logger")
        classic = {
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": "range",
        }
        consumer = Consumer(
            {
                **config,
                **(classic if self._protocol == "classic" else {}),
                "group.protocol": self._protocol,
                "client.id": self.name,
                "group.id": self._group,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 1000,
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 1000,
                "error_cb": lambda error: self._heard.error(self.name, error),
            },
            logger=logger,
        )
        consumer.subscribe(
            [self._topic],
            on_assign=lambda _, given: self._have(self.assigned | _numbers(given)),
            on_revoke=lambda _, taken: self._have(self.assigned - _numbers(taken)),
            on_lost=lambda _, taken: self._have(self.assigned - _numbers(taken)),
        )
        try:
            while not self._stop.is_set():
                for message in consumer.consume(num_messages=1000, timeout=POLL_SECONDS):
                    if message.error() is None:
                        self.read.append((message.partition(), message.offset()))
                        self.read_at = time.monotonic()
                    else:
                        self._heard.error(self.name, message.error())
        finally:
            consumer.close()

    def _have(self, partitions: frozenset[int]) -> None:
        self.assigned, self.assigned_at = partitions, time.monotonic()


def _numbers(partitions: Sequence[Any]) -> frozenset[int]:
    return frozenset(tp.partition for tp in partitions)


class How(Enum):
    """How a producer chooses the partition of a record."""

    EXPLICIT = "an explicit partition"
    KEYS = "keys"
    NEITHER = "neither"


def produce(
    settings: ConnectionSettings,
    topic: str,
    count: int,
    how: How,
    *,
    partitions: int,
    names: Sequence[str] = ("p1", "p2"),
) -> Mapping[int, list[str | None]]:
    """Send records by producers in turn; return the keys that each partition has acknowledged."""
    from confluent_kafka import Producer

    keys_by_partition: dict[int, list[str | None]] = {n: [] for n in range(partitions)}

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            key = message.key()
            keys_by_partition[message.partition()].append(None if key is None else key.decode())

    config = settings.librdkafka_config()
    logger = config.pop("logger")
    options = {
        "acks": "all",
        # Else what has no key goes to one partition for as long as a batch may wait.
        "sticky.partitioning.linger.ms": 0,
        "partitioner": "murmur2_random",
    }
    producers = [Producer({**config, **options, "client.id": n}, logger=logger) for n in names]
    # librdkafka leaves out partitions whose leader it has not reached yet, which takes a busy
    # machine a while: the first record to each is told where to go.
    first = len(names) * partitions
    for n in range(count):
        more: dict[str, Any] = {}
        if n == first:
            for producer in producers:
                producer.flush(END_SECONDS)
        if how is How.EXPLICIT:
            more["partition"] = n % partitions
        elif how is How.KEYS:
            # Every key twice, by both: the same key goes to the same partition, whoever sends it.
            more["key"] = f"key-{n // len(names)}"
        elif n < first:
            more["partition"] = n // len(names)
        producer = producers[n % len(producers)]
        producer.produce(topic, b"x" * 100, on_delivery=delivered, **more)
        producer.poll(0)
    for producer in producers:
        producer.flush(END_SECONDS)
    return keys_by_partition
