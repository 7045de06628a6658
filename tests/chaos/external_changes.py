"""Other people on the same cluster, and what they want to find there in the end.

Every change of theirs goes through `ExternalChanges`, which remembers what it left: a run may add
to it and must take away again no more than it added.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    Resource,
    ResourceKind,
)
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster

EVERY_BROKER = Resource(ResourceKind.BROKER, "")
LISTS = (LEADER_LIST, FOLLOWER_LIST)
RATES = (LEADER_RATE, FOLLOWER_RATE)
_OWN = (ConfigSource.TOPIC, ConfigSource.BROKER)


class ExternalChanges:
    """What others have done to a cluster so far: `touched` partitions are theirs to explain."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.touched: set[TopicPartition] = set()
        self.targets: dict[TopicPartition, tuple[int, ...]] = {}
        self.edited: set[tuple[Resource, str]] = set()
        self.left = own_configs(cluster)
        self.done: list[str] = []

    # -- what they do ---------------------------------------------------------------------------

    def move(self, tp: TopicPartition, target: tuple[int, ...]) -> None:
        """Submit a reassignment, whoever may have one in flight there."""
        if self._cluster.alter_reassignments({tp: target})[tp] is None:
            self.touched.add(tp)
            self.targets[tp] = target
            self._did(f"moved {tp} to {target}")

    def cancel(self, tp: TopicPartition) -> None:
        if self._cluster.cancel_reassignments([tp])[tp] is None:
            self.touched.add(tp)
            self.targets.pop(tp, None)
            self._did(f"cancelled {tp}")

    def delete(self, topic: str) -> None:
        self._cluster.delete_topic(topic)
        for key in [key for key in self.left if key[0] == Resource.topic(topic)]:
            del self.left[key]
        self._did(f"deleted {topic}")

    def set(self, resource: Resource, name: str, value: str | None) -> None:
        """Set a config over whatever is there, or delete it."""
        op = ConfigOp.DELETE if value is None else ConfigOp.SET
        if self._alter(ConfigChange(resource, name, op, value)):
            self.left[resource, name] = value

    def append(self, topic: str, name: str, pair: str) -> None:
        """Add one pair to a list, as a well-behaved tool does."""
        resource = Resource.topic(topic)
        if self._alter(ConfigChange(resource, name, ConfigOp.APPEND, pair)):
            before = self.left.get((resource, name)) or ""
            self.left[resource, name] = ",".join(filter(None, (before, pair)))

    def tidy(self) -> None:
        """Cancel what of theirs would never end; they do so once the weather has cleared."""
        for tp, r in self._cluster.fetch_reassignments().items():
            if tp in self.touched and set(r.adding) & set(r.removing):
                self.cancel(tp)

    def _alter(self, change: ConfigChange) -> bool:
        (fault,) = self._cluster.alter_configs([change]).values()
        if fault is None:
            self.edited.add((change.resource, change.name))
            self._did(f"{change.op.value} {change.name} of {change.resource.name}: {change.value}")
        return fault is None

    def _did(self, what: str) -> None:
        self.done.append(f"{self._cluster.elapsed_seconds:.1f} s: {what}")

    # -- what they find -------------------------------------------------------------------------

    def strays(self) -> Iterator[str]:
        """Yield every config that is not as others left it; lists that they edited as sets."""
        now = own_configs(self._cluster)
        for resource, name in sorted(self.left.keys() | now.keys(), key=str):
            wanted, is_ = self.left.get((resource, name)), now.get((resource, name))
            if wanted == is_:
                continue
            if (resource, name) in self.edited and name in LISTS and _same(wanted, is_):
                continue
            yield f"{name} of {resource.kind.value} {resource.name!r} is {is_!r}, not {wanted!r}"


def own_configs(cluster: SimulatedCluster) -> dict[tuple[Resource, str], str | None]:
    """Return every config that is set on a topic, a broker or all brokers, by resource and name."""
    state = cluster.describe_cluster()
    topics = [Resource.topic(topic.name) for topic in state.topics]
    brokers = [Resource.broker(broker.id) for broker in state.brokers if broker.alive]
    configs = cluster.describe_configs([*topics, *brokers])
    own: dict[tuple[Resource, str], str | None] = {
        (resource, name): value.value
        for resource, values in configs.items()
        if not isinstance(values, Fault)
        for name, value in values.items()
        if value.source in _OWN
    }
    default = cluster.describe_configs([EVERY_BROKER])[EVERY_BROKER]
    assert not isinstance(default, Fault)
    return own | {(EVERY_BROKER, name): value.value for name, value in default.items()}


def _same(expected: str | None, is_: str | None) -> bool:
    return _entries(expected) == _entries(is_)


def _entries(value: str | None) -> set[str]:
    return set((value or "").split(",")) - {""}


def random_edit(
    external: ExternalChanges, rng: Random, topics: list[str], brokers: list[int]
) -> None:
    """Do to some throttle what somebody with no thought of others does."""
    if rng.random() < 0.5:
        resource, name = Resource.broker(rng.choice(brokers)), rng.choice(RATES)
        external.set(resource, name, rng.choice((None, "3333333", "44444444")))
        return
    topic, name = rng.choice(topics), rng.choice(LISTS)
    match rng.randrange(4):
        case 0:
            external.set(Resource.topic(topic), name, "*")
        case 1:
            external.set(Resource.topic(topic), name, None)
        case 2:
            external.set(Resource.topic(topic), name, f"{rng.randrange(100)}:99")
        case _:
            if external.left.get((Resource.topic(topic), name)) != "*":
                external.append(topic, name, f"{rng.randrange(100)}:98")
