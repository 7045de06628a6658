"""Weather: what happens to a cluster while a run works on it, at set moments of its own clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from random import Random
from typing import Any

from chaos.dying import Stuck

from core.cluster.configs import ConfigChange, ConfigValue, Resource
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import Reassignment, TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.errors import UnreachableError

LAG_SECONDS = 1.2
"""How far a broker that lags shows the past of the metadata."""
CONFIG_LAG_SECONDS = 0.3


class Weather:
    """A clock under which events happen as they are due, whoever sleeps."""

    def __init__(self, cluster: SimulatedCluster, seconds: float) -> None:
        self._cluster, self._until = cluster, cluster.elapsed_seconds + seconds
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, seconds: float, happens: Callable[[], None]) -> None:
        """Let something happen so long after the cluster's start."""
        heapq.heappush(self._due, (seconds, len(self._due), happens))

    def later(self, seconds: float, happens: Callable[[], None]) -> None:
        """Let something happen after so long."""
        self.at(self._cluster.elapsed_seconds + seconds, happens)

    def now(self) -> datetime:
        return self._cluster.now

    def monotonic(self) -> float:
        return self._cluster.elapsed_seconds

    def sleep(self, seconds: float) -> None:
        until = self._cluster.elapsed_seconds + seconds
        while self._due and self._due[0][0] <= until:
            moment, _, happens = heapq.heappop(self._due)
            self._cluster.advance(max(0.0, moment - self._cluster.elapsed_seconds))
            happens()
        self._cluster.advance(max(0.0, until - self._cluster.elapsed_seconds))
        if self._cluster.elapsed_seconds > self._until:
            raise Stuck("the run does not end")


class Unsteady:
    """A cluster whose answers are lost now and then, before or after a call took effect, and late.

    While `lags` it shows metadata and configs as they were a moment ago; the list of reassignments
    is the controller's, which does not lag.
    """

    def __init__(self, cluster: SimulatedCluster, rng: Random) -> None:
        self._cluster, self._rng = cluster, rng
        self.loses, self.lags = 0.0, False
        self._state: tuple[float, ClusterState] | None = None
        self._configs: dict[Resource, tuple[float, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def forget(self) -> None:
        """Show everything as it is, at the next look."""
        self._state = None
        self._configs.clear()

    def describe_cluster(self) -> ClusterState:
        self._lose()
        now = self._cluster.elapsed_seconds
        if self._state is None or not self.lags or now - self._state[0] > LAG_SECONDS:
            self._state = now, self._cluster.describe_cluster()
        return self._state[1]

    def fetch_reassignments(self) -> dict[TopicPartition, Reassignment]:
        self._lose()
        return self._cluster.fetch_reassignments()

    def describe_configs(
        self, resources: Collection[Resource], names: Collection[str] | None = None
    ) -> dict[Resource, dict[str, ConfigValue] | Fault]:
        self._lose()
        now = self._cluster.elapsed_seconds
        answers: dict[Resource, dict[str, ConfigValue] | Fault] = {}
        for resource in resources:
            at, whole = self._configs.get(resource, (-1.0, None))
            if whole is None or not self.lags or now - at > CONFIG_LAG_SECONDS:
                whole = self._cluster.describe_configs([resource])[resource]
                self._configs[resource] = now, whole
            if isinstance(whole, Fault):
                answers[resource] = whole
            else:
                answers[resource] = {n: v for n, v in whole.items() if names is None or n in names}
        return answers

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        return self._change(lambda: self._cluster.alter_configs(changes))

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...]]
    ) -> dict[TopicPartition, Fault | None]:
        return self._change(lambda: self._cluster.alter_reassignments(targets))

    def cancel_reassignments(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Fault | None]:
        return self._change(lambda: self._cluster.cancel_reassignments(partitions))

    def _change(self, call: Callable[[], dict[Any, Fault | None]]) -> dict[Any, Fault | None]:
        self._lose()
        answer = call()
        self._lose()
        return answer

    def _lose(self) -> None:
        if self._rng.random() < self.loses:
            raise UnreachableError("The cluster does not answer.")
