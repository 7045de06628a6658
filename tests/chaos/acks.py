"""Producers with acks=all while brokers die, and a consumer that counts what was acknowledged."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from core.cluster.kafka.connection.diagnosis import unreachable
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition

EVERY_SECONDS = 0.05
"""Often enough for each moment of a run, and little enough for 27 brokers on two cores."""
VALUE_BYTES = 200


class Acknowledged:
    """One producer that writes numbers to partitions by turns, from `start` to `lost`.

    `besides` are partitions that are written to as well, but whose logs are made shorter or
    deleted meanwhile: they are not counted.
    """

    def __init__(
        self,
        bootstrap: str,
        partitions: Sequence[TopicPartition],
        besides: Sequence[TopicPartition] = (),
    ) -> None:
        self._bootstrap, self._partitions = bootstrap, tuple(partitions)
        self._all = (*partitions, *besides)
        self._acked: dict[TopicPartition, set[int]] = defaultdict(set)
        self.refused = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """Return how many records have been acknowledged so far."""
        return sum(len(self._acked[tp]) for tp in self._partitions)

    def _produce(self) -> None:
        from confluent_kafka import KafkaException, Producer

        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "delivery.timeout.ms": 300_000,
                "linger.ms": 5,
                "log_level": 0,
            },
            error_cb=lambda error: None,
        )
        number = 0
        while not self._ends.is_set():
            tp = self._all[number % len(self._all)]
            value = f"{number}".encode().ljust(VALUE_BYTES)
            with suppress(KafkaException):  # a topic that is gone takes nothing
                producer.produce(
                    tp.topic, value, partition=tp.partition, on_delivery=self._delivered(tp, number)
                )
            number += 1
            producer.poll(EVERY_SECONDS)
            self._ends.wait(EVERY_SECONDS)
        producer.flush(300)

    def _delivered(self, tp: TopicPartition, number: int) -> Any:
        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                self._acked[tp].add(number)
            else:
                self.refused += 1

        return on_delivery

    def stop(self) -> None:
        """Stop producing; returns when every record is acknowledged or refused."""
        self._ends.set()
        self._thread.join()

    def lost(self) -> int:
        """Return how many acknowledged records a consumer does not find any more."""
        self.stop()
        return sum(len(self._acked[tp] - self._read(tp)) for tp in self._partitions)

    def _read(self, tp: TopicPartition) -> set[int]:
        from confluent_kafka import Consumer
        from confluent_kafka import TopicPartition as At

        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "chaos-count",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        try:
            low, _ = consumer.get_watermark_offsets(At(*tp), timeout=30)
            consumer.assign([At(tp.topic, tp.partition, low)])
            numbers: set[int] = set()
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                if message.error():
                    return numbers  # the end of the partition
                if len(message.value()) == VALUE_BYTES:
                    numbers.add(int(message.value()))
            raise unreachable(ConnectionSettings(self._bootstrap), f"{tp} was not read to its end.")
        finally:
            consumer.close()
