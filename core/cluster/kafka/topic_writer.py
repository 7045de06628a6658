"""Writes records to a topic: acknowledged by all in-sync replicas, each once, each key in order.

A producer keeps what is not acknowledged in time and goes on trying, as an idempotent one:
whoever wrote need not, and must not, write it again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from core.cluster.client import NewRecord, UnconfirmedError
from core.cluster.kafka.connection.diagnosis import unreachable
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.librdkafka import ClosableClient, to_fault
from core.cluster.kafka.record_clients import open_producer
from core.cluster.kafka_errors import access_denied
from core.errors import TrimtabError
from core.units import counted

ACKNOWLEDGE_SECONDS = 10.0
"""How long it is waited until all of a call is acknowledged."""
RETRY_SECONDS = 300.0
"""For how long it is tried beyond that; then records are given up."""
MAX_QUEUE_KB = 256 * 1024
"""Of records that wait; while there are more, none are taken."""


class KafkaTopicWriter:
    """A producer to one topic, opened at the first writing; see TopicWriter."""

    def __init__(self, settings: ConnectionSettings, topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._producer: ClosableClient | None = None
        self._refusals: list[Any] = []
        """librdkafka's errors for records that were given up."""

    def write(self, records: Iterable[NewRecord]) -> int:
        """Write these records; see TopicWriter."""
        from confluent_kafka import KafkaException

        ends = time.monotonic() + self._settings.scaled_seconds(ACKNOWLEDGE_SECONDS)
        taken = 0
        try:
            producer = self._open()
            for record in records:
                self._enqueue(producer, record, ends)
                taken += 1
            left = producer.flush(max(0.0, ends - time.monotonic()))
        except (KafkaException, BufferError) as error:
            failed = self._explained(error)
            raise failed if taken == 0 else _unconfirmed_error(failed) from error
        refusals, self._refusals = self._refusals, []
        if refusals:
            raise _unconfirmed_error(self._explained(KafkaException(refusals[0])))
        if left:
            raise _unconfirmed_error(
                unreachable(
                    self._settings, f"{self._topic} has {counted(left, 'record')} not acknowledged"
                )
            )
        return taken

    def close(self) -> None:
        """Close the producer; the next writing opens another."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _open(self) -> ClosableClient:
        if self._producer is None:
            self._settings.check_login()
            self._refusals = []
            self._producer = open_producer(
                self._settings,
                {
                    "acks": "all",
                    "enable.idempotence": True,
                    "compression.type": "zstd",
                    "message.timeout.ms": int(RETRY_SECONDS * 1000),
                    "queue.buffering.max.kbytes": MAX_QUEUE_KB,
                    # As Java's clients do: records of a key lie where they would put them.
                    "partitioner": "murmur2_random",
                    "allow.auto.create.topics": False,
                    # Without it, a fatal error would be raised by whatever is called next.
                    "error_cb": lambda _: None,
                    "log.connection.close": False,
                },
            )
        return self._producer

    def _enqueue(self, producer: ClosableClient, record: NewRecord, ends: float) -> None:
        """Hand a record over, once there is room for it; raises BufferError when there is none."""
        while True:
            try:
                producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    headers=list(record.headers.items()),
                    on_delivery=self._on_delivery,
                )
                return
            except BufferError:
                if time.monotonic() >= ends:
                    raise
                producer.poll(0.1)

    def _on_delivery(self, error: Any, _: Any) -> None:
        if error is not None:
            self._refusals.append(error)

    def _explained(self, error: Exception) -> TrimtabError:
        if isinstance(error, BufferError):
            return unreachable(self._settings, f"{self._topic} takes no more records")
        fault = to_fault(error)
        # A producer remembers for minutes what it was denied; after a fatal error it takes nothing.
        if self._producer is not None and (error.args[0].fatal() or not self._producer.flush(0)):
            self.close()
        if "AUTHORIZATION" in fault.name or "AUTHENTICATION" in fault.name:
            return access_denied(
                f"This user may not write to {self._topic}: {fault.name}.",
                f"WRITE on {self._topic}",
            )
        return unreachable(self._settings, f"{self._topic} takes no records, {fault.name}")


def _unconfirmed_error(error: TrimtabError) -> UnconfirmedError:
    return UnconfirmedError(error.title, detail=error.detail, next=error.next)
