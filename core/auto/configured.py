"""What config.toml says of a cluster, whenever it is asked: what brokers carry, and read_only."""

from __future__ import annotations

from dataclasses import dataclass, replace

from core import paths
from core.auto.switch import Switch
from core.cluster.capacity import (
    UNKNOWN_CAPACITY,
    Capacity,
    configured_capacity,
    with_broker_capacity,
)
from core.cluster.state import ClusterState
from core.errors import UsageError
from core.settings import load_settings


@dataclass(frozen=True, slots=True)
class Configured:
    """What is said of one cluster; of others, which of their brokers nothing may change."""

    capacity: Capacity = UNKNOWN_CAPACITY
    read_only: bool = False
    read_only_servers: frozenset[str] = frozenset()
    balancer_topics: frozenset[str] = frozenset()
    unread: str = ""
    """Why the file cannot be read now, in a sentence: it may mark the cluster."""

    def applied_to(self, state: ClusterState) -> ClusterState:
        """Return the same cluster with what brokers carry and which topics tell of balancers."""
        able = with_broker_capacity(state, self.capacity)
        return replace(able, balancer_topics=self.balancer_topics)

    def forbids(self, state: ClusterState) -> bool:
        """Return whether the cluster is marked read_only, by its name or one of its brokers."""
        return self.read_only or state.has_any(self.read_only_servers)


class Configuration:
    """Of one cluster; as it was known last, and `unread`, where the file cannot be read now."""

    def __init__(self, switch: Switch) -> None:
        self._name, self._bootstrap = switch.name, switch.address.bootstrap
        self._known = Configured(switch.address.capacity)
        self._was_there = False

    def read(self) -> Configured:
        path = paths.config_file()
        if path.exists():
            self._was_there = True
        elif self._was_there:  # what it marked is marked still
            return replace(self._known, unread=f"{path} is gone.")
        try:
            settings = load_settings()
        except UsageError as error:  # it is being written, or wrong
            return replace(self._known, unread=error.title)
        about = settings.about(self._name, self._bootstrap).values()
        self._known = Configured(
            configured_capacity(settings, self._name, self._bootstrap),
            any(one.read_only for one in about),
            settings.read_only_servers,
            settings.balancer_topics,
        )
        return self._known
