"""What brokers have counted, wherever they report it: what every source tells the collector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from core.cluster.state import ClusterState

ByTopic = Mapping[str, float]
ByPartition = Mapping[str, Mapping[int, float]]
"""By topic and number."""


@dataclass(frozen=True, slots=True)
class BrokerMetrics:
    """What one broker counted: bytes/s of its own clients by topic or partition, sizes in bytes.

    `growth` is how fast the logs of its replicas grow, bytes/s; one that shrank is missing.
    """

    topic_in: ByTopic = field(default_factory=dict)
    topic_out: ByTopic = field(default_factory=dict)
    partition_in: ByPartition = field(default_factory=dict)
    partition_out: ByPartition = field(default_factory=dict)
    size: ByPartition = field(default_factory=dict)
    growth: ByPartition = field(default_factory=dict)


Metrics = Mapping[int, BrokerMetrics]
"""By broker."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that is none of the format, where it lies, and why it is not used."""

    partition: int
    offset: int
    reason: str
    value: bytes


@dataclass(frozen=True, slots=True)
class BadRecords:
    """How many records could not be used, by reason, and the first of them."""

    counts: Mapping[str, int] = field(default_factory=dict)
    first: Sequence[BadRecord] = ()


class MetricsSource(Protocol):
    """Somewhere that brokers report what they have counted."""

    @property
    def name(self) -> str:
        """What samples are marked by."""

    def fetch(self, state: ClusterState) -> Metrics:
        """Return what brokers have counted since the last call, under the names of `state`.

        Raises UnreachableError or AccessDeniedError when nothing could be learned.
        """

    def take_bad_records(self) -> BadRecords:
        """Return what could not be used since the last call."""


def known_topics(state: ClusterState) -> dict[str, str]:
    """Return topics by each name that they are reported under, dots as underscores too.

    Kafka's metrics write `a.b` as `a_b`, and it refuses to create one beside the other. Where both
    exist all the same, `a_b` is missing here: nobody can say whose bytes those are.
    """
    topic_by_name: dict[str, str] = {}
    taken: set[str] = set()
    for topic in state.topics:
        plain = topic.name.replace(".", "_")
        if plain in topic_by_name:
            taken.add(plain)
        topic_by_name[topic.name] = topic_by_name[plain] = topic.name
    return {name: topic for name, topic in topic_by_name.items() if name not in taken}
