"""Clusters that a run sees worse than they are: answers that are lost, and reads that are old.

A topic's configs are told by any broker, each so far behind as it happens to be; a broker's own by
that broker, which never goes back in time. What is changed is changed at the controller, at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from random import Random
from typing import Any

from core.cluster.configs import ConfigChange, ConfigOp, ConfigValue, Resource, ResourceKind
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import Reassignment, TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.errors import UnreachableError

LAG_SECONDS = 1.2
"""How far a broker that lags shows the past of the metadata."""
CONFIG_LAG_SECONDS = 0.3
Answer = dict[str, ConfigValue] | Fault


class Remembering:
    """A cluster that knows what its configs were: others edit through this."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._past: defaultdict[Resource, list[tuple[float, Answer]]] = defaultdict(list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        resources = {change.resource for change in changes}
        for resource in resources - self._past.keys():
            self._past[resource].append((-1.0, self._now(resource)))
        answers = self._cluster.alter_configs(changes)
        for resource in resources:
            self._past[resource].append((self._cluster.elapsed_seconds, self._now(resource)))
        return answers

    def as_of(self, resource: Resource, moment: float) -> Answer:
        """Return a resource's configs as they were at a moment; a fault is always of now."""
        now = self._now(resource)
        if isinstance(now, Fault):
            return now
        return next((a for at, a in reversed(self._past[resource]) if at <= moment), now)

    def _now(self, resource: Resource) -> Answer:
        return self._cluster.describe_configs([resource])[resource]


class Stale:
    """A run's view of a cluster whose configs it may read up to `seconds` late.

    `before_reading` is called before each question, where somebody else may act. `hidden` are the
    broker configs that a run set or deleted over an edit which the broker did not show it yet:
    Kafka has no conditional change, so no run can know of those.
    """

    def __init__(
        self,
        cluster: Remembering,
        rng: Random,
        seconds: float,
        before_reading: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster, self._rng, self._seconds = cluster, rng, seconds
        self._before_reading = before_reading
        self._lags: dict[Resource, float] = {}
        self._shown: dict[Resource, tuple[float, float]] = {}
        self.edits: dict[tuple[Resource, str], float] = {}
        """When others last changed a config."""
        self.hidden: set[tuple[Resource, str]] = set()

    def __getattr__(self, name: str) -> Any:
        if name in ("describe_cluster", "fetch_reassignments", "fetch_list_entries"):
            self._before_reading()
        return getattr(self._cluster, name)

    def describe_configs(
        self, resources: Collection[Resource], names: Collection[str] | None = None
    ) -> dict[Resource, Answer]:
        self._before_reading()
        now = self._cluster.elapsed_seconds
        answers: dict[Resource, Answer] = {}
        for resource in resources:
            shows = now - self._lag(resource)
            self._shown[resource] = shows, now
            whole = self._cluster.as_of(resource, shows)
            answers[resource] = (
                whole
                if isinstance(whole, Fault)
                else {n: v for n, v in whole.items() if names is None or n in names}
            )
        return answers

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[Resource, Fault | None]:
        for change in changes:
            edited = self.edits.get((change.resource, change.name), -1.0)
            shows, asked = self._shown.get(change.resource, (0.0, 0.0))
            overwrites = change.op in (ConfigOp.SET, ConfigOp.DELETE)
            of_a_broker = change.resource.kind is ResourceKind.BROKER
            if overwrites and of_a_broker and shows < edited <= asked:
                self.hidden.add((change.resource, change.name))
        return self._cluster.alter_configs(changes)

    def _lag(self, resource: Resource) -> float:
        if resource.kind is ResourceKind.TOPIC:
            return self._rng.uniform(0.0, self._seconds)
        return self._lags.setdefault(resource, self._rng.uniform(0.0, self._seconds))


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
        call = getattr(self._cluster, name)
        lost = ("alter_configs", "alter_reassignments", "cancel_reassignments")
        return partial(self._change, call) if name in lost else call

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

    def _change(self, call: Callable[..., Any], *arguments: Any) -> Any:
        self._lose()
        answer = call(*arguments)
        self._lose()
        return answer

    def _lose(self) -> None:
        if self._rng.random() < self.loses:
            raise UnreachableError("The cluster does not answer.")
