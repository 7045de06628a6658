"""Reports of brokers, put together from single values, and what they say of an interval.

A broker sends all values of one report with one time, in many records over a few seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeVar

from core.load.sources.metrics import BrokerMetrics, Metrics

_K = TypeVar("_K")

SETTLED_MS = 10_000
"""How old a report is when all of it has come: producers linger for a second."""
MAX_AGE_MS = 180_000
"""A broker that has reported nothing for so long counts as silent: three usual intervals."""
MAX_AHEAD_MS = 60_000
"""How far a broker's clock may be ahead."""


class BadValueError(ValueError):
    """A record is none of the format; its text is a short reason that names what is wrong."""


class Kind(StrEnum):
    """What a value is of: rates by topic or partition in bytes/s, the size of a log in bytes."""

    TOPIC_IN = "topic_in"
    TOPIC_OUT = "topic_out"
    PARTITION_IN = "partition_in"
    PARTITION_OUT = "partition_out"
    SIZE = "size"


class ReportedValue(NamedTuple):
    """One value of a broker's report; `partition` is -1 where it is of a topic."""

    kind: Kind
    broker: int
    at_ms: int
    topic: str
    partition: int
    value: float


Decoder = Callable[[bytes], Iterable[ReportedValue]]
"""Returns what a record says, nothing for what is of no use; raises BadValueError."""


def check_value(value: float) -> float:
    """Return a rate or size; raises BadValueError when it can be none."""
    if not 0 <= value < float("inf"):
        raise BadValueError("value")
    return value


@dataclass(slots=True)
class _Report:
    topics: dict[Kind, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    partitions: dict[Kind, dict[str, dict[int, float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )

    def add(self, value: ReportedValue, topic: str) -> None:
        if value.partition < 0:
            self.topics[value.kind][topic] = value.value
            return
        of_topic = self.partitions[value.kind][topic]
        # While a replica moves between log dirs both logs are reported: the larger one is whole.
        of_topic[value.partition] = max(value.value, of_topic.get(value.partition, 0.0))


class Reports:
    """The reports of all brokers, as far as they are needed."""

    def __init__(self) -> None:
        self._reports: dict[int, dict[int, _Report]] = defaultdict(dict)
        self._used_at: dict[int, int] = {}
        """By broker, the time of its newest report when `take` was last called."""

    def add(self, value: ReportedValue, topic: str) -> None:
        """Take a value of this topic in; one older than the report in use is let go."""
        if value.at_ms < self._used_at.get(value.broker, 0):
            return
        reports = self._reports[value.broker]
        report = reports.get(value.at_ms)
        if report is None:
            report = reports[value.at_ms] = _Report()
        report.add(value, topic)

    def take(self, now_ms: int) -> Metrics:
        """Return what each broker has reported since the last call, or else reported last."""
        metrics = {}
        for broker, reports in list(self._reports.items()):
            if max(reports) < now_ms - SETTLED_MS - MAX_AGE_MS:
                del self._reports[broker]
                self._used_at.pop(broker, None)
                continue
            settled = sorted(at for at in reports if at <= now_ms - SETTLED_MS)
            if not settled:
                continue
            newest, used = settled[-1], self._used_at.get(broker, 0)
            new = [at for at in settled if at > used] or [newest]
            metrics[broker] = _summed(reports, new, [at for at in settled if at < new[-1]])
            # The next interval begins where this one ends; until it is there, this one is told.
            for at in settled[:-2]:
                del reports[at]
            self._used_at[broker] = newest
        return metrics


def _summed(reports: dict[int, _Report], new: list[int], before: list[int]) -> BrokerMetrics:
    """Return what the reports of times `new` say, with growth since the last of `before`."""
    newest = new[-1]
    since = max((at for at in before if at < new[0]), default=min(before, default=newest))
    new_reports = [reports[at] for at in new]
    return BrokerMetrics(
        topic_in=_mean([report.topics[Kind.TOPIC_IN] for report in new_reports]),
        topic_out=_mean([report.topics[Kind.TOPIC_OUT] for report in new_reports]),
        partition_in=_mean_by_topic(
            [report.partitions[Kind.PARTITION_IN] for report in new_reports]
        ),
        partition_out=_mean_by_topic(
            [report.partitions[Kind.PARTITION_OUT] for report in new_reports]
        ),
        size=reports[newest].partitions[Kind.SIZE],
        growth=_growth(
            reports[since].partitions[Kind.SIZE],
            reports[newest].partitions[Kind.SIZE],
            (newest - since) / 1000,
        ),
    )


def _mean(readings: list[dict[_K, float]]) -> dict[_K, float]:
    if len(readings) == 1:
        return readings[0]
    sums: dict[_K, tuple[float, int]] = {}
    for values in readings:
        for key, value in values.items():
            total, count = sums.get(key, (0.0, 0))
            sums[key] = (total + value, count + 1)
    return {key: total / count for key, (total, count) in sums.items()}


def _mean_by_topic(readings: list[dict[str, dict[int, float]]]) -> dict[str, dict[int, float]]:
    if len(readings) == 1:
        return readings[0]
    topics = {topic for values in readings for topic in values}
    return {topic: _mean([values.get(topic, {}) for values in readings]) for topic in topics}


def _growth(
    before: dict[str, dict[int, float]], after: dict[str, dict[int, float]], seconds: float
) -> dict[str, dict[int, float]]:
    """Return how fast logs grew, bytes/s; of those that shrank, or are new, nothing is known."""
    growth: dict[str, dict[int, float]] = {}
    for topic, sizes in after.items() if seconds > 0 else ():
        earlier = before.get(topic, {})
        growth[topic] = {
            partition: (size - earlier[partition]) / seconds
            for partition, size in sizes.items()
            if earlier.get(partition, float("inf")) <= size
        }
    return growth
