"""The simulated cluster tells the same story as real brokers: what it claims of Kafka is so.

One script of changes is played on both; what the cluster then says, of assignments, leaders, ISRs,
faults and configs, must be equal. Times and sizes are not compared.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
from simulated import small_spec

from core.clock import Clock, SystemClock
from core.cluster.client import ClusterClient
from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    Resource,
)
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import PartitionRow, TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.topics import create_topics, delete_topics
from core.cluster.sandbox.workload import fill
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import UnreachableError

BROKERS = (1, 2, 3, 4)
BYTES = 4_000_000
LAYOUT: Mapping[str, Sequence[tuple[int, ...]]] = {
    # moved, overridden in flight, sent back in flight, refused
    "agree.pairs": [(1, 2), (1, 2), (1, 3), (2, 3)],
    "agree.cancelled": [(3, 2, 1), (4, 3, 2)],
    "agree.fenced": [(4, 1, 2), (1, 4, 2)],
    "agree.alone": [(4,), (1,)],
    "agree.shrinks": [(1, 2, 3)],
}
PATIENCE_SECONDS = 15.0


class Cluster(Protocol):
    """One of the two."""

    client: ClusterClient
    clock: Clock

    def kill(self, broker: int) -> None: ...

    def start(self, broker: int) -> None: ...


@dataclass
class Story:
    """What a cluster said, step by step.

    `expected` is what the other one said: a broker that is asked may hear of a change a moment
    later, so a step is looked at until it is as expected, or patience ends.
    """

    cluster: Cluster
    expected: Mapping[str, Any] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)

    def report(self, step: str) -> None:
        """Note what the cluster is now."""
        self._note(step, self._picture)

    def configs(self, step: str) -> None:
        """Note which throttles somebody has set."""
        self._note(step, self._throttles)

    def answer(self, step: str, faults: Mapping[Any, Fault | None]) -> None:
        """Note which faults a call had."""
        self.told[step] = {str(at): fault.name if fault else None for at, fault in faults.items()}

    def _note(self, step: str, look: Callable[[], Any]) -> None:
        deadline = self.cluster.clock.monotonic() + PATIENCE_SECONDS
        self.told[step] = look()
        while self.expected and self.told[step] != self.expected[step]:
            if self.cluster.clock.monotonic() > deadline:
                return
            self.cluster.clock.sleep(0.1)
            self.told[step] = look()

    def _picture(self) -> Any:
        client = self.cluster.client
        state = client.describe_cluster()
        return {
            "rows": {
                str(row.tp): (row.replicas, sorted(row.isr), row.leader, row.adding, row.removing)
                for row in state.rows()
                if row.topic in LAYOUT
            },
            "alive": [broker.id for broker in state.brokers if broker.alive],
            "in flight": {
                str(tp): (r.replicas, r.adding, r.removing)
                for tp, r in sorted(client.fetch_reassignments().items())
            },
        }

    def _throttles(self) -> Any:
        resources = [Resource.topic(t) for t in LAYOUT] + [Resource.broker(b) for b in BROKERS]
        names = (LEADER_LIST, FOLLOWER_LIST, LEADER_RATE, FOLLOWER_RATE)
        told = {}
        for resource, values in self.cluster.client.describe_configs(resources, names).items():
            assert not isinstance(values, Fault), (resource, values)
            told[resource.name] = sorted(
                (name, found.value, found.source)
                for name, found in values.items()
                if found.source is not ConfigSource.DEFAULT
            )
        return told

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = self.cluster.clock.monotonic() + PATIENCE_SECONDS
        while True:
            # Just after a broker's death a client may still ask it.
            with suppress(UnreachableError):
                if holds():
                    return
            assert self.cluster.clock.monotonic() < deadline, "waited too long"
            self.cluster.clock.sleep(0.1)


def play(cluster: Cluster, expected: Mapping[str, Any]) -> dict[str, Any]:
    """Play the script and return what was said."""
    story, client = Story(cluster, expected), cluster.client
    moved, overridden, returned, refused = (TopicPartition("agree.pairs", p) for p in range(4))
    cancelled = [TopicPartition("agree.cancelled", p) for p in range(2)]

    def change(resource: Resource, name: str, op: ConfigOp, value: str | None = None) -> None:
        faults = client.alter_configs([ConfigChange(resource, name, op, value)])
        story.answer(f"{resource.name} {name} {op.value} {value}", faults)

    def quiet() -> bool:
        return not client.fetch_reassignments() and bool(client.describe_cluster().in_sync.all())

    story.report("at first")
    leaders = ",".join(f"{p}:{b}" for p in range(4) for b in BROKERS)
    for topic in ("agree.pairs", "agree.cancelled"):
        change(Resource.topic(topic), LEADER_LIST, ConfigOp.APPEND, leaders)
        change(Resource.topic(topic), FOLLOWER_LIST, ConfigOp.SET, "*")
    for broker in BROKERS:
        change(Resource.broker(broker), LEADER_RATE, ConfigOp.SET, "1000000")
        change(Resource.broker(broker), FOLLOWER_RATE, ConfigOp.SET, "1000")
    story.configs("throttled")

    story.answer(
        "submitted",
        client.alter_reassignments(
            {
                moved: (3, 4),
                overridden: (3, 4),
                returned: (2, 4),
                refused: (3, 99),
                cancelled[0]: (4, 2, 1),
                cancelled[1]: (1, 2, 3, 4),
                TopicPartition("agree.nothing", 0): (1,),
            }
        ),
    )
    story.report("submitted, seen")
    story.answer("overlapping", client.alter_reassignments({overridden: (3, 1)}))
    story.answer("again", client.alter_reassignments({moved: (3, 4)}))
    story.answer("back", client.alter_reassignments({returned: (1, 3)}))
    story.report("resubmitted")
    story.answer("cancelled", client.cancel_reassignments([*cancelled, overridden, returned]))
    story.answer("cancelled twice", client.cancel_reassignments(cancelled))
    story.report("cancelled, seen")

    cluster.kill(4)
    story.until(lambda: not client.describe_cluster().broker_by_id[4].alive)
    story.report("killed")
    story.answer(
        "to the dead", client.alter_reassignments({TopicPartition("agree.alone", 1): (4,)})
    )
    beside = TopicPartition("agree.fenced", 1)
    story.answer("beside the dead", client.alter_reassignments({beside: (1, 4, 3)}))
    story.until(lambda: row_of(client, beside).replicas == (1, 4, 3))
    story.answer("elect the dead", elect(cluster, [TopicPartition("agree.fenced", 0)]))
    story.report("moving to the dead and beside it")
    cluster.start(4)
    story.until(lambda: client.describe_cluster().broker_by_id[4].alive)
    four = Resource.broker(4)
    story.until(lambda: not isinstance(client.describe_configs([four])[four], Fault))

    for topic in ("agree.pairs", "agree.cancelled"):
        change(Resource.topic(topic), FOLLOWER_LIST, ConfigOp.DELETE)
        change(Resource.topic(topic), LEADER_LIST, ConfigOp.SUBTRACT, leaders)
    for broker in BROKERS:
        change(Resource.broker(broker), LEADER_RATE, ConfigOp.DELETE)
        change(Resource.broker(broker), FOLLOWER_RATE, ConfigOp.DELETE)
    story.configs("restored")
    story.until(quiet)
    story.report("ended")
    everything = [TopicPartition(name, i) for name in LAYOUT for i in range(len(LAYOUT[name]))]
    story.answer("elected", elect(cluster, everything))
    story.until(lambda: _all_preferred(client))
    story.report("elected, seen")
    story.answer("shrunk", client.alter_reassignments({TopicPartition("agree.shrinks", 0): (3, 1)}))
    story.report("shrunk, seen")
    return story.told


def elect(
    cluster: Cluster, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, Fault | None]:
    """Elect leaders; a client may first have to learn that the broker it asks is gone."""
    deadline = cluster.clock.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return cluster.client.elect_leaders(partitions)
        except UnreachableError:
            if cluster.clock.monotonic() > deadline:
                raise


def row_of(client: ClusterClient, tp: TopicPartition) -> PartitionRow:
    state = client.describe_cluster()
    index = state.find(tp)
    assert index is not None
    return state.row(index)


def _all_preferred(client: ClusterClient) -> bool:
    rows = [row for row in client.describe_cluster().rows() if row.topic in LAYOUT]
    return all(row.leader == row.replicas[0] for row in rows)


class Real:
    def __init__(self, sandbox: Sandbox, client: KafkaClient) -> None:
        self.client, self.clock, self._sandbox = client, SystemClock(), sandbox

    def kill(self, broker: int) -> None:
        self._sandbox.kill(broker)

    def start(self, broker: int) -> None:
        self._sandbox.start(broker)


class Simulated:
    def __init__(self) -> None:
        self.client = SimulatedCluster(small_spec(LAYOUT, brokers=BROKERS, size_bytes=BYTES))
        self.clock = self.client.clock

    def kill(self, broker: int) -> None:
        self.client.stop_broker(broker)

    def start(self, broker: int) -> None:
        self.client.start_broker(broker)


@pytest.fixture
def real(sandbox: Sandbox) -> Iterator[Real]:
    settings = ConnectionSettings(sandbox.bootstrap)
    create_topics(settings, LAYOUT)
    fill(
        settings,
        {
            TopicPartition(name, i): BYTES
            for name, lists in LAYOUT.items()
            for i in range(len(lists))
        },
    )
    client = KafkaClient(settings)
    yield Real(sandbox, client)
    client.close()
    delete_topics(settings, list(LAYOUT))
    gc.collect()


# kafka-python leaves the sockets of refused connections to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_both_tell_the_same_story(real: Real) -> None:
    simulated = play(Simulated(), {})
    assert simulated == play(real, simulated)
