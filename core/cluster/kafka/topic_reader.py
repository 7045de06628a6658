"""Reads a topic of records from where the last reading ended; a member of no group.

Nothing is committed: whoever reads again after its process has ended says from when.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

from core.cluster.client import TopicRecord
from core.cluster.kafka.connection.diagnosis import unreachable
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.librdkafka import ClosableClient
from core.cluster.kafka.record_clients import open_consumer
from core.cluster.kafka_errors import access_denied
from core.errors import TrimtabError, UnreachableError

RECORDS_AT_ONCE = 10_000
ANSWER_SECONDS = 6.0
STILL_SECONDS = 15.0
"""How long records that are there are waited for."""


class KafkaTopicReader:
    """A consumer of one topic, opened at the first reading; see TopicReader."""

    def __init__(self, settings: ConnectionSettings, topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._consumer: ClosableClient | None = None
        self._next: dict[int, int] = {}
        """By partition, the offset of the next record."""
        self._read_at: datetime | None = None

    def read(
        self, partitions: Collection[int], since: datetime, now: datetime
    ) -> Iterator[list[TopicRecord]]:
        """Yield what has come since the last reading; see TopicReader."""
        from confluent_kafka import KafkaException

        try:
            consumer = self._open()
            if self._read_at is None or self._read_at < since:
                self._next.clear()
            ends = self._ends(consumer, partitions)
            self._assign(consumer, ends, since)
            self._read_at = now
            yield from self._until(consumer, ends)
        except KafkaException as error:
            raise self._explained(error.args[0]) from error

    def close(self) -> None:
        """Close the consumer; the next reading opens another."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _open(self) -> ClosableClient:
        if self._consumer is None:
            self._settings.check_login()
            seconds = self._settings.scaled_seconds(ANSWER_SECONDS)
            self._consumer = open_consumer(
                self._settings,
                {
                    "group.id": "trimtab-collect",  # librdkafka wants one; it is never joined
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "earliest",
                    "enable.partition.eof": True,
                    "allow.auto.create.topics": False,
                    "socket.timeout.ms": int(seconds * 1000),
                    "log.connection.close": False,
                },
            )
            self._next.clear()
        return self._consumer

    def _ends(self, consumer: ClosableClient, partitions: Collection[int]) -> dict[int, int]:
        from confluent_kafka import KafkaException, TopicPartition

        seconds = self._settings.scaled_seconds(ANSWER_SECONDS)
        ends: dict[int, int] = {}
        failure: Any = None
        for partition in sorted(partitions):
            try:
                of = TopicPartition(self._topic, partition)
                _, ends[partition] = consumer.get_watermark_offsets(of, timeout=seconds)
            except KafkaException as error:
                failure = error
        if failure is not None and not ends:
            raise failure
        return ends

    def _assign(self, consumer: ClosableClient, ends: dict[int, int], since: datetime) -> None:
        """Read on where each partition has been read to; begin new ones at `since`."""
        from confluent_kafka import TopicPartition

        new = ends.keys() - self._next.keys()
        if not new:
            return
        at = round(since.timestamp() * 1000)
        positions = [TopicPartition(self._topic, partition, at) for partition in sorted(new)]
        seconds = self._settings.scaled_seconds(ANSWER_SECONDS)
        for position in consumer.offsets_for_times(positions, timeout=seconds):
            if position.error is None:
                # Where nothing has come since then it is told of the end by a negative offset.
                is_there = position.offset >= 0
                self._next[position.partition] = (
                    position.offset if is_there else ends[position.partition]
                )
        consumer.assign([TopicPartition(self._topic, p, at) for p, at in self._next.items()])

    def _until(self, consumer: ClosableClient, ends: dict[int, int]) -> Iterator[list[TopicRecord]]:
        from confluent_kafka import KafkaError

        heard = time.monotonic()
        while any(self._next.get(partition, end) < end for partition, end in ends.items()):
            messages = consumer.consume(RECORDS_AT_ONCE, timeout=0.5)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > STILL_SECONDS:
                self.close()
                raise UnreachableError(
                    f"{self._topic} has records that no broker hands out.",
                    next="Check that its leaders are healthy.",
                )
            records = []
            for message in messages:
                error = message.error()
                if error is None:
                    records.append(
                        TopicRecord(message.partition(), message.offset(), message.value() or b"")
                    )
                    self._next[message.partition()] = message.offset() + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._next[message.partition()] = message.offset()
                elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise self._explained(error)
            if records:
                yield records

    def _explained(self, error: Any) -> TrimtabError:
        from confluent_kafka import KafkaError

        self.close()
        # To who may not describe it a topic is unknown.
        if error.code() in (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError._UNKNOWN_TOPIC,
            KafkaError._UNKNOWN_PARTITION,
        ):
            return access_denied(
                f"This user may not read {self._topic}, or it is gone.", f"READ on {self._topic}"
            )
        return unreachable(self._settings, error.str())
