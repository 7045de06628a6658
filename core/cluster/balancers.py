"""Other balancers and editors of topic configs that work on a cluster, known by its topics.

`BALANCER_TOPICS` holds those of which the sources are public; a user's own, which config.toml
names, are in every ClusterState.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from core.cluster.state import ClusterState

_CRUISE_CONTROL = "Cruise Control"
_CONFLUENT = "Confluent's Self-Balancing"
BALANCER_TOPICS: Final[Mapping[str, str]] = MappingProxyType(
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
CONFIGURED_BALANCER: Final = "a balancer that config.toml names"
STRIMZI: Final = "Strimzi's topic operator"
_STRIMZI_TOPICS: Final = ("strimzi.", "__strimzi", "strimzi-")


@dataclass(frozen=True, slots=True)
class Balancer:
    """One that works on a cluster, and the topic that tells of it."""

    name: str
    topic: str

    def __str__(self) -> str:
        return f"{self.name} reports to this cluster (topic {self.topic})"


def find_balancer(state: ClusterState) -> Balancer | None:
    """Return who else balances this cluster, as far as a topic tells; None when none does."""
    for topic in (*BALANCER_TOPICS, *sorted(state.balancer_topics)):
        if state.topic(topic) is not None:
            return Balancer(BALANCER_TOPICS.get(topic, CONFIGURED_BALANCER), topic)
    return None


def likely_config_editor(state: ClusterState) -> str:
    """Return who is likely to put topics' configs back as somebody declared them; "" for nobody."""
    hints = (topic.name.startswith(_STRIMZI_TOPICS) for topic in state.topics)
    return STRIMZI if any(hints) else ""


def editor_in_words(editor: str) -> str:
    return f"somebody, {editor} perhaps," if editor else "somebody"


def editor_remedy(editor: str) -> str:
    """Return in words what keeps an editor off a topic for a while."""
    if editor == STRIMZI:
        return 'pause that KafkaTopic: annotation strimzi.io/pause-reconciliation="true"'
    return "pause what puts these configs back, an operator or a GitOps tool perhaps"
