"""What brokers count, from a Prometheus that scrapes them, by the names of jmx_exporter's rules.

Counters are of a topic on a broker, sizes of a replica. Series name the scraped address and no
broker: it is found by its host, or by a label that has its id.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from core.clock import Clock
from core.cluster.state import ClusterState
from core.errors import TrimtabError
from core.load.sources.metrics import BadRecords, BrokerMetrics, Metrics, known_topics
from core.load.sources.prometheus_api import PrometheusApi, Series

BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"
SIZE = "kafka_log_log_size"
INTERVAL_SECONDS = 60.0
"""Holds two scrapes of most."""
STEPS = 4
"""How often a counter is looked at in an interval, so that a restart inside it is seen."""
ID_LABELS = ("broker_id", "broker", "node_id")
HOST_LABELS = ("instance", "pod", "kubernetes_pod_name", "host", "hostname", "nodename")
_NAMES_SHOWN = 3
_MAX_DIGITS = 11
_PORT = re.compile(r":\d+$")
_ADDRESS = re.compile(r"[\d.]+|.*:.*")
"""An IP address: its first part is no name."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which series are this cluster's: a matcher like `cluster="prod"`, and the id's label."""

    match: str = ""
    broker_label: str | None = None


class Prometheus:
    """The series of one cluster's brokers; see MetricsSource."""

    name = "prometheus"

    def __init__(self, api: PrometheusApi, clock: Clock, seconds: float, query: Query) -> None:
        """`seconds` is the time between two polls, of which each call tells."""
        self._api, self._clock = api, clock
        self._seconds = seconds
        self._query = query

    def fetch(self, state: ClusterState) -> Metrics:
        """Return what brokers have counted in the last interval; see MetricsSource."""
        end = self._clock.now().timestamp()
        counted_in = self._series(BYTES_IN, 'topic!=""', end, self._seconds / STEPS)
        counted_out = self._series(BYTES_OUT, 'topic!=""', end, self._seconds / STEPS)
        sizes = self._series(SIZE, "", end, self._seconds)
        # Of all topics together there is one series a broker: when it was scraped, all were.
        scrapes = self._series(BYTES_IN, 'topic=""', end, self._seconds, of="timestamp({})")
        if not counted_in:
            raise TrimtabError(
                f"Prometheus has no {BYTES_IN} by topic.",
                next="Check --match, and whether jmx_exporter's rules in the brokers export it.",
            )
        brokers = _BrokerLookup(state, self._query.broker_label)
        topics = known_topics(state)
        between = {
            broker: points[-1][1] - points[0][1]
            for labels, points in scrapes
            if (broker := brokers.find(labels)) is not None and len(points) > 1
        }
        values_by_broker: dict[int, _BrokerMetricsBuilder] = defaultdict(_BrokerMetricsBuilder)
        for series, into in ((counted_in, "topic_in"), (counted_out, "topic_out")):
            for labels, points in series:
                broker, topic = brokers.find(labels), topics.get(labels.get("topic", ""))
                if broker is None or topic is None:
                    continue
                rate = counter_rate(points, self._seconds, between.get(broker))
                if rate is not None:
                    by_topic: dict[str, float] = getattr(values_by_broker[broker], into)
                    # Two that scrape the same brokers both count all of it.
                    by_topic[topic] = max(rate, by_topic.get(topic, 0.0))
        for labels, points in sizes:
            broker, topic = brokers.find(labels), topics.get(labels.get("topic", ""))
            number = labels.get("partition", "")
            is_number = number.isascii() and number.isdecimal() and len(number) < _MAX_DIGITS
            if broker is not None and topic is not None and points and is_number:
                values_by_broker[broker].add_size(topic, int(number), points)
        if not values_by_broker:
            raise brokers.unknown_error(counted_in)
        return {broker: of.metrics() for broker, of in values_by_broker.items()}

    def take_bad_records(self) -> BadRecords:
        return BadRecords()

    def _series(
        self, name: str, matcher: str, end: float, step: float, of: str = "{}"
    ) -> list[Series]:
        matchers = ",".join(part for part in (matcher, self._query.match) if part)
        query = of.format(f"{name}{{{matchers}}}")
        return self._api.query_range(query, end - self._seconds, end, step)


def counter_rate(
    points: list[tuple[float, float]], seconds: float, scraped_seconds: float | None = None
) -> float | None:
    """Return by how much a counter went up a second; None where that cannot be told.

    A point has the value of the newest scrape before it, so over all `seconds` of the interval it
    went up in the time between two scrapes, if that is known. A counter that goes down has begun at
    0 again, as Prometheus itself takes it: what it had counted since the last scrape is lost.
    """
    if len(points) < 2:
        return None
    span = points[-1][0] - points[0][0]
    if scraped_seconds is not None and abs(span - seconds) < 1:
        span = scraped_seconds
    if span <= 0:
        return None
    values = [value for _, value in points]
    grown = sum(after - before if after >= before else after for before, after in pairwise(values))
    return grown / span


class _BrokerMetricsBuilder:
    """What is found of one broker."""

    def __init__(self) -> None:
        self.topic_in: dict[str, float] = {}
        self.topic_out: dict[str, float] = {}
        self._size: dict[str, dict[int, float]] = defaultdict(dict)
        self._growth: dict[str, dict[int, float]] = defaultdict(dict)

    def add_size(self, topic: str, partition: int, points: list[tuple[float, float]]) -> None:
        (began, first), (ended, last) = points[0], points[-1]
        if last <= self._size[topic].get(partition, -1.0):
            return  # the log that it is moved to, on the same broker, is smaller
        self._size[topic][partition] = last
        if ended > began and last >= first:
            self._growth[topic][partition] = (last - first) / (ended - began)

    def metrics(self) -> BrokerMetrics:
        return BrokerMetrics(
            topic_in=self.topic_in,
            topic_out=self.topic_out,
            size=self._size,
            growth=self._growth,
        )


class _BrokerLookup:
    """Which broker a series is of."""

    def __init__(self, state: ClusterState, label: str | None) -> None:
        self._by_id = {str(broker.id): broker.id for broker in state.brokers}
        self._label = label
        self._known: dict[tuple[str, ...], int | None] = {}
        names: dict[str, set[int]] = defaultdict(set)
        for broker in state.brokers:
            host = broker.host.lower()
            for name in {host, _short_host(host)} - {""}:
                names[name].add(broker.id)
        self._by_name = {name: min(ids) for name, ids in names.items() if len(ids) == 1}

    def find(self, labels: Mapping[str, str]) -> int | None:
        """Return the broker that a series is of, None when that cannot be told."""
        values = self._label_values(labels)
        if values not in self._known:
            self._known[values] = self._find(labels)
        return self._known[values]

    def _label_values(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        names = (self._label,) if self._label is not None else (*ID_LABELS, *HOST_LABELS)
        return tuple(labels.get(label, "") for label in names)

    def _find(self, labels: Mapping[str, str]) -> int | None:
        for label in ID_LABELS if self._label is None else (self._label,):
            if (broker := self._by_id.get(labels.get(label, ""))) is not None:
                return broker
        for label in HOST_LABELS if self._label is None else ():
            host = _PORT.sub("", labels.get(label, "")).lower().strip("[]")
            for name in (host, _short_host(host)):
                if name in self._by_name:
                    return self._by_name[name]
        return None

    def unknown_error(self, series: list[Series]) -> TrimtabError:
        label = self._label or "instance"
        values = sorted({time_series.labels.get(label, f"no {label}") for time_series in series})
        shown = ", ".join(values[:_NAMES_SHOWN]) + (" …" if len(values) > _NAMES_SHOWN else "")
        return TrimtabError(
            f"Which broker a series is of cannot be told: {shown}.",
            next="Name the label that has the brokers' ids with --broker-label.",
        )


def _short_host(host: str) -> str:
    return "" if _ADDRESS.fullmatch(host) else host.partition(".")[0]
