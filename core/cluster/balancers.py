"""Who else balances a cluster, told by the topics that balancers keep in it.

`KNOWN_TOPICS` holds those of which the sources are public; a user's own are added for a process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from core.cluster.state import ClusterState

_CRUISE_CONTROL = "Cruise Control"
_CONFLUENT = "Confluent's Self-Balancing"
KNOWN_TOPICS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "__CruiseControlMetrics": _CRUISE_CONTROL,
        "strimzi.cruisecontrol.metrics": _CRUISE_CONTROL,
        "__auto_balancer_metrics": "AutoMQ's auto balancer",
        "_confluent_balancer_api_state": _CONFLUENT,
        "_confluent_balancer_broker_samples": _CONFLUENT,
        "_confluent_balancer_partition_samples": _CONFLUENT,
    }
)
"""Topic → who keeps it, by the defaults of their sources. Confluent's telemetry topic is there
without a balancer, too, so it says nothing."""
CONFIGURED: Final = "a balancer that config.toml names"
_configured: set[str] = set()


@dataclass(frozen=True, slots=True)
class Balancer:
    """One that works on a cluster, and the topic that tells of it."""

    name: str
    topic: str

    def __str__(self) -> str:
        return f"{self.name} reports to this cluster (topic {self.topic})"


def add_topics(topics: Iterable[str]) -> None:
    """Have these topics, of config.toml, tell of a balancer for as long as this process lives."""
    _configured.update(topics)


def find_balancer(state: ClusterState) -> Balancer | None:
    """Return who else balances this cluster, as far as a topic tells; None when none does."""
    for topic in (*KNOWN_TOPICS, *sorted(_configured)):
        if state.topic(topic) is not None:
            return Balancer(KNOWN_TOPICS.get(topic, CONFIGURED), topic)
    return None
