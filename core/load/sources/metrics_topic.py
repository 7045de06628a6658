"""Reads what brokers report to a topic of their own cluster: Cruise Control's, or AutoMQ's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from core.clock import Clock
from core.cluster.client import TopicReader
from core.cluster.state import ClusterState
from core.errors import TrimtabError, UnreachableError
from core.load.sources.metrics import BadRecord, BadRecords, Metrics, known_topics
from core.load.sources.reports import (
    MAX_AGE_MS,
    MAX_AHEAD_MS,
    SETTLED_MS,
    BadValueError,
    Decoder,
    Reports,
)

LOOK_BACK = timedelta(milliseconds=MAX_AGE_MS + SETTLED_MS)
"""Where a reading begins that none came before: two reports of each broker lie behind it."""
MAX_BAD_KEPT = 1000
"""Of bad records so many are kept of a reading; all of them are counted."""


@dataclass(frozen=True, slots=True)
class Format:
    """What a reporter sends: its name, the topics it may send to, and how its records are read."""

    name: str
    topics: tuple[str, ...]
    decode: Decoder


class MetricsTopic:
    """The reports in one topic; see MetricsSource."""

    def __init__(
        self, format: Format, open_reader: Callable[[str], TopicReader], clock: Clock
    ) -> None:
        self._format = format
        self._open_reader = open_reader
        self._clock = clock
        self._reader: TopicReader | None = None
        self._topic = ""
        self._reports = Reports()
        self._bad: list[BadRecord] = []
        self._bad_counts: dict[str, int] = {}

    @property
    def name(self) -> str:
        return self._format.name

    def fetch(self, state: ClusterState) -> Metrics:
        """Return what brokers have reported; see MetricsSource."""
        topics = known_topics(state)
        now = self._clock.now()
        now_ms = round(now.timestamp() * 1000)
        reader = self._reader_of(state)
        rows = state.partitions_of(self._topic)
        partitions = state.partition[rows.start : rows.stop].tolist()
        for records in reader.read(partitions, now - LOOK_BACK, now):
            for record in records:
                try:
                    for value in self._format.decode(record.value):
                        if value.at_ms > now_ms + MAX_AHEAD_MS:
                            raise BadValueError("future")
                        # A topic that is gone, or that this user may not see, is no fault.
                        if (topic := topics.get(value.topic)) is not None:
                            self._reports.add(value, topic)
                except BadValueError as error:
                    self._add_bad_record(record.partition, record.offset, str(error), record.value)
        metrics = self._reports.take(now_ms)
        if not metrics:
            raise UnreachableError(
                f"No broker has reported to {self._topic} for {LOOK_BACK.seconds // 60} minutes.",
                next="Check that the metrics reporter runs in the brokers, and their clocks.",
            )
        return metrics

    def take_bad_records(self) -> BadRecords:
        """Return what could not be used since the last call; see MetricsSource."""
        taken = BadRecords(self._bad_counts, self._bad)
        self._bad, self._bad_counts = [], {}
        return taken

    def _reader_of(self, state: ClusterState) -> TopicReader:
        topic = next((name for name in self._format.topics if state.topic(name)), None)
        if topic is None:
            names = " or ".join(self._format.topics)
            raise TrimtabError(
                f"This cluster has no topic {names} that you may see.",
                next="Collect without --from: the brokers themselves are asked.",
            )
        if self._reader is None or topic != self._topic:
            if self._reader is not None:
                self._reader.close()
            self._reader, self._topic = self._open_reader(topic), topic
        return self._reader

    def _add_bad_record(self, partition: int, offset: int, reason: str, value: bytes) -> None:
        self._bad_counts[reason] = self._bad_counts.get(reason, 0) + 1
        if len(self._bad) < MAX_BAD_KEPT:
            self._bad.append(BadRecord(partition, offset, reason, value))
