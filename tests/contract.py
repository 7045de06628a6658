"""What every ClusterClient must do: one suite for real brokers and for the simulated cluster.

Subclass both classes and give them a class-scoped fixture `cluster`. It has four brokers, 1 to 4,
in racks a, b, a, b, with two log dirs each; the topics of TOPICS; and a consumer of GROUP that
reads GROUP_TOPIC. Each test has topics of its own, so that one cluster serves a whole class.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pytest

from core.clock import Clock
from core.cluster.client import ClusterClient, NewPartitions, NewTopic, OffsetAt
from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LOG_DIRS_RATE,
    ConfigChange,
    ConfigOp,
    ConfigSource,
    ConfigValue,
    Resource,
    ResourceKind,
)
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs
from core.cluster.metadata import PartitionRow, Reassignment, TopicPartition
from core.errors import UnreachableError

BROKERS = (1, 2, 3, 4)
RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}
GROUP = "contract\nreaders"
"""Of two lines: a group may be called anything, and what all are is no expression's affair."""
GROUP_TOPIC = "contract.read"
WAIT_SECONDS, LEAST_REAL_SECONDS = 30.0, 60.0
"""Of the cluster's clock, which may be many times as fast as ours, and of ours."""
HELD_RATE = "1000"
"""Bytes/s; so slow that a move of a filled partition stays in flight while a test looks at it."""


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """The replicas of partitions 0, 1, … and the bytes that each of them holds at least."""

    replicas: Sequence[tuple[int, ...]]
    bytes_each: int = 0


_FILLED = 8_000_000

TOPICS: Mapping[str, TopicLayout] = {
    GROUP_TOPIC: TopicLayout([(1,), (2,)], 100_000),
    "contract.still": TopicLayout([(1, 2), (2, 3), (3, 4)], 100_000),
    "contract.listed": TopicLayout([(3, 2, 4)], _FILLED),
    "contract.again": TopicLayout([(1, 2, 3), (3, 1, 2)], _FILLED),
    "contract.cancelled": TopicLayout([(3, 2, 1), (4, 3, 2)], _FILLED),
    "contract.overridden": TopicLayout([(1,)], _FILLED),
    "contract.returned": TopicLayout([(1, 3)], _FILLED),
    "contract.shrunk": TopicLayout([(1, 2, 3)], 100_000),
    "contract.moved": TopicLayout([(1, 2)], 100_000),
    "contract.partly": TopicLayout([(1, 2)]),
    "contract.refused": TopicLayout([(1, 2)]),
    "contract.reordered": TopicLayout([(1, 2, 3)]),
    "contract.elected": TopicLayout([(2, 3)]),
    "contract.configured": TopicLayout([(1, 2)]),
    "contract.dirs": TopicLayout([(1, 2)], 100_000),
    "contract.copied": TopicLayout([(1, 2)], _FILLED),
    "contract.placed": TopicLayout([(1, 2)], 100_000),
    "contract.fenced": TopicLayout([(4, 2), (1, 2)]),
    "contract.alone": TopicLayout([(4,)]),
    "contract.beside": TopicLayout([(1, 4, 2)], 100_000),
}


class ContractCluster(Protocol):
    """What the fixture `cluster` gives."""

    client: ClusterClient
    clock: Clock

    def stop_broker(self, broker: int) -> None:
        """Stop a broker in order: its leaders are handed over first."""
        ...

    def start_broker(self, broker: int) -> None: ...


def until(
    cluster: ContractCluster, holds: Callable[[], bool], seconds: float = WAIT_SECONDS
) -> None:
    """Return once it holds; fails after `seconds` of the cluster's clock and a minute of ours."""
    deadline = cluster.clock.monotonic() + seconds
    ours = time.monotonic() + LEAST_REAL_SECONDS
    while not holds():
        waits = cluster.clock.monotonic() < deadline or time.monotonic() < ours
        assert waits, "waited too long"
        cluster.clock.sleep(0.1)


def described(cluster: ContractCluster, tp: TopicPartition) -> PartitionRow:
    """Return a partition of one look: the next may ask a broker that is behind.

    One that is behind may not know a partition that another has told of: then it is asked again.
    """
    deadline = time.monotonic() + LEAST_REAL_SECONDS
    while True:
        state = cluster.client.describe_cluster()
        index = state.find(tp)
        if index is not None:
            return state.row(index)
        assert time.monotonic() < deadline, f"no broker knows {tp}"
        cluster.clock.sleep(0.1)


def replicas(cluster: ContractCluster, tp: TopicPartition) -> tuple[int, ...]:
    return described(cluster, tp).replicas


def leader(cluster: ContractCluster, tp: TopicPartition) -> int:
    return described(cluster, tp).leader


def value(cluster: ContractCluster, resource: Resource, name: str) -> ConfigValue | None:
    configs = cluster.client.describe_configs([resource], [name])[resource]
    assert not isinstance(configs, Fault), configs
    return configs.get(name)


def becomes(
    cluster: ContractCluster, resource: Resource, name: str, expected: ConfigValue | None
) -> None:
    """Wait for a config: a broker that is asked may hear of a change a moment later."""
    until(cluster, lambda: value(cluster, resource, name) == expected)


def change(
    cluster: ContractCluster, resource: Resource, name: str, op: ConfigOp, text: str | None = None
) -> Fault | None:
    return cluster.client.alter_configs([ConfigChange(resource, name, op, text)])[resource]


@contextmanager
def held(cluster: ContractCluster, topic: str) -> Iterator[None]:
    """Keep moves of this topic in flight; afterwards they end and nothing is left of it."""
    listed = Resource.topic(topic)
    rates = [Resource.broker(broker) for broker in BROKERS]
    assert change(cluster, listed, FOLLOWER_LIST, ConfigOp.SET, "*") is None
    for rate in rates:
        assert change(cluster, rate, FOLLOWER_RATE, ConfigOp.SET, HELD_RATE) is None
    try:
        yield
    finally:
        for rate in rates:
            assert change(cluster, rate, FOLLOWER_RATE, ConfigOp.DELETE) is None
        assert change(cluster, listed, FOLLOWER_LIST, ConfigOp.DELETE) is None
        until(cluster, lambda: not cluster.client.fetch_reassignments())


class ClientContract:
    """With all brokers up."""

    # -- describing ------------------------------------------------------------------------------

    def test_describe_reports_brokers_with_their_racks(self, cluster: ContractCluster) -> None:
        state = cluster.client.describe_cluster()
        assert {b.id: b.rack for b in state.brokers} == RACKS
        assert all(b.alive for b in state.brokers)
        assert state.cluster_id

    def test_describe_reports_ordered_replicas_leader_and_isr(
        self, cluster: ContractCluster
    ) -> None:
        state = cluster.client.describe_cluster()
        rows = [state.row(i) for i in state.partitions_of("contract.still")]
        assert [row.replicas for row in rows] == TOPICS["contract.still"].replicas
        assert [row.leader for row in rows] == [1, 2, 3]
        assert [sorted(row.isr) for row in rows] == [[1, 2], [2, 3], [3, 4]]
        assert all(row.leader_epoch >= 0 and not row.adding and not row.removing for row in rows)

    def test_describe_gives_every_topic_an_id_of_its_own(self, cluster: ContractCluster) -> None:
        state = cluster.client.describe_cluster()
        ids = [topic.id for topic in state.topics if topic.name in TOPICS]
        assert None not in ids
        assert len(set(ids)) == len(TOPICS)

    # -- moving ----------------------------------------------------------------------------------

    def test_reassignment_in_flight_lists_target_replicas_then_removed_ones_by_id(
        self, cluster: ContractCluster
    ) -> None:
        tp = TopicPartition("contract.listed", 0)
        with held(cluster, tp.topic):
            assert cluster.client.alter_reassignments({tp: (1, 4)}) == {tp: None}
            expected = Reassignment((1, 4, 2, 3), adding=(1,), removing=(2, 3))
            assert cluster.client.fetch_reassignments() == {tp: expected}

            def in_flight() -> bool:
                row = described(cluster, tp)
                shape = (row.replicas, row.adding, sorted(row.removing))
                return shape == ((1, 4, 2, 3), (1,), [2, 3]) and 1 not in row.isr

            until(cluster, in_flight)

        def ended() -> bool:
            row = described(cluster, tp)
            return row.replicas == (1, 4) and row.leader in (1, 4)

        until(cluster, ended)

    def test_a_move_ends_with_the_target_in_sync(self, cluster: ContractCluster) -> None:
        tp = TopicPartition("contract.moved", 0)
        assert cluster.client.alter_reassignments({tp: (3, 2)}) == {tp: None}
        until(cluster, lambda: tp not in cluster.client.fetch_reassignments())

        def ended() -> bool:
            row = described(cluster, tp)
            return (row.replicas, sorted(row.isr)) == ((3, 2), [2, 3])

        until(cluster, ended)

    def test_submitting_the_current_target_changes_nothing(self, cluster: ContractCluster) -> None:
        tp = TopicPartition("contract.still", 0)
        assert cluster.client.alter_reassignments({tp: (1, 2)}) == {tp: None}
        assert tp not in cluster.client.fetch_reassignments()
        assert replicas(cluster, tp) == (1, 2)

    def test_new_target_in_flight_also_removes_the_earlier_target(
        self, cluster: ContractCluster
    ) -> None:
        tp = TopicPartition("contract.overridden", 0)
        with held(cluster, tp.topic):
            assert cluster.client.alter_reassignments({tp: (2,)}) == {tp: None}
            assert cluster.client.alter_reassignments({tp: (3,)}) == {tp: None}
            expected = Reassignment((3, 1, 2), adding=(3,), removing=(1, 2))
            assert cluster.client.fetch_reassignments() == {tp: expected}
        until(cluster, lambda: replicas(cluster, tp) == (3,))

    def test_original_replicas_resubmitted_in_flight_end_only_by_cancelling(
        self, cluster: ContractCluster
    ) -> None:
        tp = TopicPartition("contract.returned", 0)
        with held(cluster, tp.topic):
            assert cluster.client.alter_reassignments({tp: (2, 4)}) == {tp: None}
            assert cluster.client.alter_reassignments({tp: (1, 3)}) == {tp: None}
            expected = Reassignment((1, 3, 2, 4), adding=(2, 4), removing=(2, 4))
            assert cluster.client.fetch_reassignments() == {tp: expected}
            assert cluster.client.cancel_reassignments([tp]) == {tp: None}
        until(cluster, lambda: replicas(cluster, tp) == (1, 3))

    def test_reducing_replicas_copies_no_data(self, cluster: ContractCluster) -> None:
        tp = TopicPartition("contract.shrunk", 0)
        assert cluster.client.alter_reassignments({tp: (3, 1)}) == {tp: None}
        assert tp not in cluster.client.fetch_reassignments()

        def shrunk() -> bool:
            row = described(cluster, tp)
            return (row.replicas, sorted(row.isr), row.leader) == ((3, 1), [1, 3], 1)

        until(cluster, shrunk)

    def test_reordering_moves_no_data_and_keeps_the_leader(self, cluster: ContractCluster) -> None:
        tp = TopicPartition("contract.reordered", 0)
        assert cluster.client.alter_reassignments({tp: (2, 3, 1)}) == {tp: None}
        assert tp not in cluster.client.fetch_reassignments()

        def reordered() -> bool:
            row = described(cluster, tp)
            return (row.replicas, row.leader) == ((2, 3, 1), 1)

        until(cluster, reordered)

    def test_faults_of_some_partitions_do_not_affect_other_partitions(
        self, cluster: ContractCluster
    ) -> None:
        good = TopicPartition("contract.partly", 0)
        missing = TopicPartition("contract.no-such-topic", 0)
        beyond = TopicPartition("contract.partly", 7)
        answers = cluster.client.alter_reassignments(
            {good: (2, 1), missing: (1, 2), beyond: (1, 2)}
        )
        assert answers[good] is None
        assert _name(answers[missing]) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert _name(answers[beyond]) == "UNKNOWN_TOPIC_OR_PARTITION"
        until(cluster, lambda: replicas(cluster, good) == (2, 1))

    @pytest.mark.parametrize("target", [(1, 99), (1, 1), ()], ids=["unknown", "twice", "empty"])
    def test_an_impossible_target_is_refused(
        self, cluster: ContractCluster, target: tuple[int, ...]
    ) -> None:
        tp = TopicPartition("contract.refused", 0)
        answers = cluster.client.alter_reassignments({tp: target})
        assert _name(answers[tp]) == "INVALID_REPLICA_ASSIGNMENT"
        assert replicas(cluster, tp) == (1, 2)

    # -- cancelling ------------------------------------------------------------------------------

    def test_cancelling_a_reassignment_keeps_the_leader_but_not_the_replica_order(
        self, cluster: ContractCluster
    ) -> None:
        first, second = (TopicPartition("contract.cancelled", p) for p in (0, 1))
        with held(cluster, first.topic):
            cluster.client.alter_reassignments({first: (4, 2, 1), second: (1, 2, 3, 4)})
            assert cluster.client.fetch_reassignments() == {
                first: Reassignment((4, 2, 1, 3), adding=(4,), removing=(3,)),
                second: Reassignment((1, 2, 3, 4), adding=(1,), removing=()),
            }
            assert cluster.client.cancel_reassignments([first, second]) == {
                first: None,
                second: None,
            }
            assert cluster.client.fetch_reassignments() == {}

        def back() -> bool:
            rows = described(cluster, first), described(cluster, second)
            return [(row.replicas, row.leader) for row in rows] == [((2, 1, 3), 3), ((2, 3, 4), 4)]

        until(cluster, back)

    def test_cancelling_a_cancelled_reassignment_reports_none_in_progress(
        self, cluster: ContractCluster
    ) -> None:
        foo, baz = (TopicPartition("contract.again", p) for p in (0, 1))
        with held(cluster, foo.topic):
            cluster.client.alter_reassignments({foo: (1, 2, 4), baz: (1, 3, 4)})
            assert {tp: r.replicas for tp, r in cluster.client.fetch_reassignments().items()} == {
                foo: (1, 2, 4, 3),
                baz: (1, 3, 4, 2),
            }
            assert cluster.client.cancel_reassignments([foo, baz]) == {foo: None, baz: None}
            assert cluster.client.fetch_reassignments() == {}
            again = cluster.client.cancel_reassignments([foo, baz])
        assert {_name(answer) for answer in again.values()} == {"NO_REASSIGNMENT_IN_PROGRESS"}
        until(cluster, lambda: sorted(replicas(cluster, foo)) == [1, 2, 3])
        until(cluster, lambda: sorted(replicas(cluster, baz)) == [1, 2, 3])

    def test_cancelling_a_reassignment_not_in_flight_is_a_fault(
        self, cluster: ContractCluster
    ) -> None:
        still = TopicPartition("contract.still", 1)
        missing = TopicPartition("contract.no-such-topic", 0)
        answers = cluster.client.cancel_reassignments([still, missing])
        assert _name(answers[still]) == "NO_REASSIGNMENT_IN_PROGRESS"
        assert _name(answers[missing]) == "UNKNOWN_TOPIC_OR_PARTITION"

    # -- configs ---------------------------------------------------------------------------------

    def test_configs_come_with_their_source(self, cluster: ContractCluster) -> None:
        topic = Resource.topic("contract.configured")
        default = value(cluster, topic, "retention.ms")
        assert default == ConfigValue("604800000", ConfigSource.DEFAULT)
        assert change(cluster, topic, "retention.ms", ConfigOp.SET, "86400000") is None
        becomes(cluster, topic, "retention.ms", ConfigValue("86400000", ConfigSource.TOPIC))
        assert change(cluster, topic, "retention.ms", ConfigOp.DELETE) is None
        becomes(cluster, topic, "retention.ms", default)

    def test_throttle_rate_set_on_a_broker_applies_to_that_broker_only(
        self, cluster: ContractCluster
    ) -> None:
        broker_1, broker_2 = Resource.broker(1), Resource.broker(2)
        assert change(cluster, broker_1, FOLLOWER_RATE, ConfigOp.SET, "5000000") is None
        expected = ConfigValue("5000000", ConfigSource.BROKER)
        becomes(cluster, broker_1, FOLLOWER_RATE, expected)
        assert _unset(value(cluster, broker_2, FOLLOWER_RATE))
        assert change(cluster, broker_1, FOLLOWER_RATE, ConfigOp.DELETE) is None
        until(cluster, lambda: _unset(value(cluster, broker_1, FOLLOWER_RATE)))

    def test_cluster_wide_throttle_rate_is_shown_at_every_broker(
        self, cluster: ContractCluster
    ) -> None:
        everywhere = Resource(ResourceKind.BROKER, "")
        assert change(cluster, everywhere, FOLLOWER_RATE, ConfigOp.SET, "7000000") is None
        expected = ConfigValue("7000000", ConfigSource.BROKER_DEFAULT)
        becomes(cluster, Resource.broker(3), FOLLOWER_RATE, expected)
        becomes(cluster, everywhere, FOLLOWER_RATE, expected)
        assert change(cluster, everywhere, FOLLOWER_RATE, ConfigOp.DELETE) is None
        until(cluster, lambda: _unset(value(cluster, Resource.broker(3), FOLLOWER_RATE)))

    def test_appending_to_a_list_config_keeps_existing_entries_once(
        self, cluster: ContractCluster
    ) -> None:
        topic = Resource.topic("contract.configured")
        assert change(cluster, topic, LEADER_LIST, ConfigOp.APPEND, "0:1") is None
        assert change(cluster, topic, LEADER_LIST, ConfigOp.APPEND, "0:1,0:2") is None
        becomes(cluster, topic, LEADER_LIST, ConfigValue("0:1,0:2", ConfigSource.TOPIC))
        assert change(cluster, topic, LEADER_LIST, ConfigOp.SUBTRACT, "0:1,0:9") is None
        becomes(cluster, topic, LEADER_LIST, ConfigValue("0:2", ConfigSource.TOPIC))
        assert change(cluster, topic, LEADER_LIST, ConfigOp.DELETE) is None
        until(cluster, lambda: _unset(value(cluster, topic, LEADER_LIST)))

    def test_subtracting_the_last_entry_leaves_an_empty_list_set(
        self, cluster: ContractCluster
    ) -> None:
        topic = Resource.topic("contract.configured")
        assert change(cluster, topic, FOLLOWER_LIST, ConfigOp.APPEND, "0:1") is None
        assert change(cluster, topic, FOLLOWER_LIST, ConfigOp.SUBTRACT, "0:1") is None
        becomes(cluster, topic, FOLLOWER_LIST, ConfigValue("", ConfigSource.TOPIC))
        assert change(cluster, topic, FOLLOWER_LIST, ConfigOp.DELETE) is None

        def default() -> bool:
            config = value(cluster, topic, FOLLOWER_LIST)
            return config is None or config.source is ConfigSource.DEFAULT

        until(cluster, default)

    def test_one_call_may_change_a_list_twice(self, cluster: ContractCluster) -> None:
        topic = Resource.topic("contract.configured")
        answers = cluster.client.alter_configs(
            [
                ConfigChange(topic, LEADER_LIST, ConfigOp.APPEND, "0:1"),
                ConfigChange(topic, LEADER_LIST, ConfigOp.APPEND, "0:2"),
            ]
        )
        assert answers == {topic: None}
        becomes(cluster, topic, LEADER_LIST, ConfigValue("0:1,0:2", ConfigSource.TOPIC))
        assert change(cluster, topic, LEADER_LIST, ConfigOp.DELETE) is None

    def test_list_entries_are_fetched_as_the_controller_holds_them(
        self, cluster: ContractCluster
    ) -> None:
        """At once, and without a change: no broker need have heard of the last one."""
        topic = Resource.topic("contract.configured")
        missing = Resource.topic("contract.no-such-topic")
        asked = [(topic, LEADER_LIST), (topic, FOLLOWER_LIST), (missing, LEADER_LIST)]

        def entries() -> object:
            answers = cluster.client.fetch_list_entries(asked)
            assert answers[missing, LEADER_LIST] == answers[topic, FOLLOWER_LIST] == frozenset()
            return answers[topic, LEADER_LIST]

        assert entries() == frozenset()
        assert change(cluster, topic, LEADER_LIST, ConfigOp.APPEND, "0:1,9:5") is None
        assert entries() == {"0:1", "9:5"}
        assert change(cluster, topic, LEADER_LIST, ConfigOp.SUBTRACT, "0:1,9:5") is None
        assert entries() == frozenset()
        assert change(cluster, topic, LEADER_LIST, ConfigOp.SET, "*") is None
        assert entries() == {"*"}
        assert change(cluster, topic, LEADER_LIST, ConfigOp.DELETE) is None
        assert entries() == frozenset()

    def test_topic_configs_include_the_inherited_value_of_those_that_are_set(
        self, cluster: ContractCluster
    ) -> None:
        topic = Resource.topic("contract.configured")
        assert change(cluster, topic, "max.message.bytes", ConfigOp.SET, "2000000") is None
        becomes(cluster, topic, "max.message.bytes", ConfigValue("2000000", ConfigSource.TOPIC))

        def found() -> Mapping[str, ConfigValue]:
            configs = cluster.client.describe_configs([topic])[topic]
            assert not isinstance(configs, Fault)
            return configs

        until(cluster, lambda: found()["max.message.bytes"].source is ConfigSource.TOPIC)
        beneath = found()["max.message.bytes"].inherited
        assert beneath is not None
        assert (beneath.value, beneath.source) == ("1048588", ConfigSource.DEFAULT)
        assert found()["retention.bytes"].source is ConfigSource.DEFAULT
        assert change(cluster, topic, "max.message.bytes", ConfigOp.DELETE) is None

    def test_inherited_value_of_a_set_retention_is_the_broker_default(
        self, cluster: ContractCluster
    ) -> None:
        """Kafka 4 tells no synonym of it where brokers have their default."""
        topic = Resource.topic("contract.configured")
        day = ConfigValue("86400000", ConfigSource.TOPIC)
        assert change(cluster, topic, "retention.ms", ConfigOp.SET, "86400000") is None
        becomes(cluster, topic, "retention.ms", day)
        configs = cluster.client.describe_configs([topic])[topic]
        assert not isinstance(configs, Fault)
        beneath = configs["retention.ms"].inherited
        assert beneath is not None
        assert beneath.source is ConfigSource.DEFAULT
        assert (beneath.name, beneath.value) in {
            ("log.retention.hours", "168"),
            ("log.retention.ms", "604800000"),
        }
        assert change(cluster, topic, "retention.ms", ConfigOp.DELETE) is None

    def test_config_faults_are_reported_per_resource(self, cluster: ContractCluster) -> None:
        good = Resource.topic("contract.configured")
        missing = Resource.topic("contract.no-such-topic")
        described = cluster.client.describe_configs([good, missing])
        assert not isinstance(described[good], Fault)
        assert _name(described[missing]) == "UNKNOWN_TOPIC_OR_PARTITION"
        altered = cluster.client.alter_configs(
            [
                ConfigChange(good, LEADER_LIST, ConfigOp.SET, "nonsense"),
                ConfigChange(missing, LEADER_LIST, ConfigOp.SET, "0:1"),
            ]
        )
        assert _name(altered[good]) == "INVALID_CONFIG"
        assert _name(altered[missing]) == "UNKNOWN_TOPIC_OR_PARTITION"

    # -- topics ----------------------------------------------------------------------------------

    def test_topic_is_created_as_specified_then_extended_and_deleted(
        self, cluster: ContractCluster
    ) -> None:
        name = "contract.made"
        wanted = NewTopic(name, ((2, 3), (4, 1)), {"retention.ms": "60000"})
        assert cluster.client.create_topics([wanted]) == {name: None}
        until(cluster, lambda: _layout(cluster, name) == [(2, 3), (4, 1)])
        until(cluster, lambda: leader(cluster, TopicPartition(name, 1)) == 4)
        expected = ConfigValue("60000", ConfigSource.TOPIC)
        becomes(cluster, Resource.topic(name), "retention.ms", expected)
        more = NewPartitions(3, ((1, 2),))
        assert cluster.client.add_partitions({name: more}) == {name: None}
        until(cluster, lambda: _layout(cluster, name) == [(2, 3), (4, 1), (1, 2)])
        until(cluster, lambda: leader(cluster, TopicPartition(name, 2)) == 1)
        tps = [TopicPartition(name, p) for p in range(3)]
        empty = dict.fromkeys(tps, 0)
        until(cluster, lambda: cluster.client.fetch_offsets(tps, OffsetAt.LATEST) == empty)
        assert _name(cluster.client.add_partitions({name: more})[name]) == "INVALID_PARTITIONS"
        assert cluster.client.delete_topics([name]) == {name: None}
        until(cluster, lambda: _layout(cluster, name) == [])

    def test_each_topic_that_cannot_be_created_has_its_own_fault(
        self, cluster: ContractCluster
    ) -> None:
        there = "contract.still"
        asked = [
            NewTopic(there, ((1,),)),
            NewTopic("contract.twice", ((1, 1),)),
            NewTopic("contract.nowhere", ((99,),)),
            NewTopic("contract.uneven", ((1, 2), (1,))),
            NewTopic("contract/named", ((1,),)),
            NewTopic("contract.odd", ((1,),), {"no.such.config": "1"}),
        ]
        faults = cluster.client.create_topics(asked)
        assert {name: _name(fault) for name, fault in faults.items()} == {
            there: "TOPIC_ALREADY_EXISTS",
            "contract.twice": "INVALID_REPLICA_ASSIGNMENT",
            "contract.nowhere": "INVALID_REPLICA_ASSIGNMENT",
            "contract.uneven": "INVALID_REPLICA_ASSIGNMENT",
            "contract/named": "INVALID_TOPIC_EXCEPTION",
            "contract.odd": "INVALID_CONFIG",
        }

    def test_each_topic_that_cannot_get_partitions_has_its_own_fault(
        self, cluster: ContractCluster
    ) -> None:
        there, missing = "contract.still", "contract.no-such-topic"
        fewer = NewPartitions(2, ())
        answers = cluster.client.add_partitions({there: fewer, missing: NewPartitions(1, ((1,),))})
        assert _name(answers[there]) == "INVALID_PARTITIONS"
        assert _name(answers[missing]) == "UNKNOWN_TOPIC_OR_PARTITION"
        uneven = NewPartitions(4, ((1, 2, 3),))
        assert _name(cluster.client.add_partitions({there: uneven})[there]) == (
            "INVALID_REPLICA_ASSIGNMENT"
        )
        assert _name(cluster.client.delete_topics([missing])[missing]) == (
            "UNKNOWN_TOPIC_OR_PARTITION"
        )

    # -- leaders, offsets, groups ------------------------------------------------------------------

    def test_election_makes_the_preferred_replica_the_leader(
        self, cluster: ContractCluster
    ) -> None:
        tp = TopicPartition("contract.elected", 0)
        missing = TopicPartition("contract.no-such-topic", 0)
        cluster.client.alter_reassignments({tp: (3, 2)})
        until(cluster, lambda: replicas(cluster, tp) == (3, 2))
        answers = cluster.client.elect_leaders([tp, missing])
        assert answers[tp] is None
        assert _name(answers[missing]) == "UNKNOWN_TOPIC_OR_PARTITION"
        until(cluster, lambda: leader(cluster, tp) == 3)
        again = cluster.client.elect_leaders([tp])
        assert _name(again[tp]) == "ELECTION_NOT_NEEDED"

    def test_earliest_offset_of_every_partition_is_below_the_latest(
        self, cluster: ContractCluster
    ) -> None:
        tps = [TopicPartition("contract.still", p) for p in range(3)]
        missing = TopicPartition("contract.no-such-topic", 0)
        earliest = cluster.client.fetch_offsets([*tps, missing], OffsetAt.EARLIEST)
        latest = cluster.client.fetch_offsets([*tps, missing], OffsetAt.LATEST)
        assert earliest.keys() == latest.keys() == set(tps)
        assert all(0 <= earliest[tp] < latest[tp] for tp in tps)

    def test_groups_report_members_assignments_and_committed_offsets(
        self, cluster: ContractCluster
    ) -> None:
        tps = {TopicPartition(GROUP_TOPIC, p) for p in (0, 1)}

        def committed() -> bool:
            try:
                groups = cluster.client.describe_groups()
            except UnreachableError:  # in the first seconds every coordinator is loading
                return False
            return any(group.id == GROUP and set(group.committed) == tps for group in groups)

        until(cluster, committed)
        group = next(group for group in cluster.client.describe_groups() if group.id == GROUP)
        assert (group.state, group.protocol) == ("stable", "classic")
        assert [g.id for g in cluster.client.describe_groups("contract.*s")] == [GROUP]
        assert cluster.client.describe_groups("contract") == ()
        active = cluster.client.describe_active_groups(10)
        (same,) = [group for group in active.groups if group.id == GROUP]
        assert {m.assignment for m in same.members} == {m.assignment for m in group.members}
        assert (active.omitted_count, active.is_complete) == (0, True)
        assert cluster.client.describe_active_groups(0).omitted_count == len(active.groups)
        assert {tp for member in group.members for tp in member.assignment} == tps
        assert group.coordinator in BROKERS
        latest = cluster.client.fetch_offsets(tps, OffsetAt.LATEST)
        assert all(0 <= at <= latest[tp] for tp, at in group.committed.items())

    # -- log dirs --------------------------------------------------------------------------------

    def test_log_dirs_report_sizes_and_free_space(self, cluster: ContractCluster) -> None:
        answers = cluster.client.describe_log_dirs(BROKERS)
        assert [answer.broker for answer in answers] == list(BROKERS)
        for answer in answers:
            assert answer.error is None
            assert len(answer.log_dirs) == 2
            for log_dir in answer.log_dirs:
                assert log_dir.error is None
                assert log_dir.total_bytes is not None
                assert log_dir.usable_bytes is not None
                assert 0 < log_dir.usable_bytes <= log_dir.total_bytes
        layout = TOPICS["contract.still"]
        for partition, brokers in enumerate(layout.replicas):
            tp = TopicPartition("contract.still", partition)
            until(cluster, lambda tp=tp: len(set(_sizes(cluster, tp).values())) == 1)  # type: ignore[misc]
            sizes = _sizes(cluster, tp)
            assert sorted(sizes) == sorted(brokers)
            assert all(size >= layout.bytes_each for size in sizes.values())

    def test_reachable_cluster_answers_a_ping(self, cluster: ContractCluster) -> None:
        cluster.client.ping()

    def test_user_allowed_to_describe_all_topics_is_denied_none(
        self, cluster: ContractCluster
    ) -> None:
        assert cluster.client.fetch_denied_topics([GROUP_TOPIC, "contract.none"]) == frozenset()

    def test_log_dirs_of_an_unknown_broker_are_an_error(self, cluster: ContractCluster) -> None:
        good, unknown = cluster.client.describe_log_dirs([1, 99])
        assert good.error is None
        assert unknown == BrokerLogs(99, error=unknown.error)
        assert unknown.error

    def test_a_replica_moves_to_the_other_log_dir(self, cluster: ContractCluster) -> None:
        tp = TopicPartition("contract.dirs", 0)

        def place() -> str:
            (answer,) = cluster.client.describe_log_dirs([1])
            logs = [r for r in answer.replicas if (r.topic, r.partition) == tp]
            return next(r.log_dir for r in logs if not r.future)

        (answer,) = cluster.client.describe_log_dirs([1])
        before = place()
        other = next(d.path for d in answer.log_dirs if d.path != before)
        assert cluster.client.alter_log_dirs({(tp, 1): other}) == {(tp, 1): None}
        until(cluster, lambda: place() == other)

    def test_future_replica_is_listed_and_discarded_by_requesting_the_current_log_dir(
        self, cluster: ContractCluster
    ) -> None:
        tp, broker = TopicPartition("contract.copied", 0), Resource.broker(2)
        assert change(cluster, broker, LOG_DIRS_RATE, ConfigOp.SET, HELD_RATE) is None
        becomes(cluster, broker, LOG_DIRS_RATE, ConfigValue(HELD_RATE, ConfigSource.BROKER))
        ((before, _),) = _lying(cluster, tp, 2)
        (answer,) = cluster.client.describe_log_dirs([2])
        other = next(d.path for d in answer.log_dirs if d.path != before)
        for _ in range(2):  # the same again changes nothing
            assert cluster.client.alter_log_dirs({(tp, 2): other}) == {(tp, 2): None}
            until(cluster, lambda: _lying(cluster, tp, 2) == [(before, False), (other, True)])
        assert cluster.client.alter_log_dirs({(tp, 2): before}) == {(tp, 2): None}
        until(cluster, lambda: _lying(cluster, tp, 2) == [(before, False)])
        assert change(cluster, broker, LOG_DIRS_RATE, ConfigOp.DELETE) is None

    def test_new_replica_is_created_in_the_log_dir_requested_in_advance(
        self, cluster: ContractCluster
    ) -> None:
        """KIP-113; on 4.3.1 with KRaft it holds until the broker restarts."""
        tp = TopicPartition("contract.placed", 0)
        (answer,) = cluster.client.describe_log_dirs([3])
        for log_dir in answer.log_dirs:
            faults = cluster.client.alter_log_dirs({(tp, 3): log_dir.path})
            assert _name(faults[tp, 3]) == "REPLICA_NOT_AVAILABLE"
            assert cluster.client.alter_reassignments({tp: (1, 3)}) == {tp: None}
            until(cluster, lambda: replicas(cluster, tp) == (1, 3))
            until(cluster, lambda: len(_lying(cluster, tp, 3)) == 1)
            assert _lying(cluster, tp, 3) == [(log_dir.path, False)]
            assert cluster.client.alter_reassignments({tp: (1, 2)}) == {tp: None}
            until(cluster, lambda: replicas(cluster, tp) == (1, 2))
            until(cluster, lambda: not _lying(cluster, tp, 3))

    def test_move_to_an_unknown_log_dir_of_a_broker_is_a_fault(
        self, cluster: ContractCluster
    ) -> None:
        tp = TopicPartition("contract.dirs", 0)
        answers = cluster.client.alter_log_dirs({(tp, 2): "/no/such/dir"})
        assert _name(answers[tp, 2]) == "LOG_DIR_NOT_FOUND"


class BrokerDownContract:
    """With broker 4 stopped."""

    @pytest.fixture(scope="class")
    @classmethod
    def down(cls, cluster: ContractCluster) -> Iterator[ContractCluster]:
        cluster.stop_broker(4)

        def fenced() -> bool:
            state = cluster.client.describe_cluster()
            return not state.broker_by_id[4].alive

        until(cluster, fenced)
        yield cluster
        cluster.start_broker(4)
        until(cluster, lambda: cluster.client.describe_cluster().broker_by_id[4].alive)

        def whole() -> bool:
            return bool(cluster.client.describe_cluster().in_sync.all())

        until(cluster, whole)

    def test_a_stopped_broker_is_still_known_with_its_rack(self, down: ContractCluster) -> None:
        def known() -> bool:
            broker = down.client.describe_cluster().broker_by_id[4]
            return (broker.alive, broker.rack) == (False, "b")

        until(down, known)

    def test_leaders_of_a_stopped_broker_move_to_the_isr_and_its_sole_replicas_have_none(
        self, down: ContractCluster
    ) -> None:
        def gone() -> bool:
            state = down.client.describe_cluster()
            first, second = (state.row(i) for i in state.partitions_of("contract.fenced"))
            (alone,) = state.partitions_of("contract.alone")
            return (first.leader, first.isr, second.leader, state.leader[alone]) == (2, (2,), 1, -1)

        until(down, gone)

    def test_reassignment_completes_without_waiting_for_a_replica_that_is_down(
        self, down: ContractCluster
    ) -> None:
        tp = TopicPartition("contract.beside", 0)
        assert down.client.alter_reassignments({tp: (1, 4, 3)}) == {tp: None}

        def ended() -> bool:
            row = described(down, tp)
            return (row.replicas, sorted(row.isr)) == ((1, 4, 3), [1, 3])

        until(down, ended)

    def test_log_dirs_of_a_down_broker_are_an_error_and_those_of_other_brokers_remain(
        self, down: ContractCluster
    ) -> None:
        answer_1, answer_4 = down.client.describe_log_dirs([1, 4])
        assert answer_1.error is None
        assert answer_1.replicas
        assert answer_4.error
        assert not answer_4.log_dirs

    def test_configs_of_a_down_broker_are_a_fault_and_those_of_other_brokers_remain(
        self, down: ContractCluster
    ) -> None:
        broker_1, broker_4 = Resource.broker(1), Resource.broker(4)
        answers = down.client.describe_configs([broker_1, broker_4], [FOLLOWER_RATE])
        assert not isinstance(answers[broker_1], Fault)
        assert isinstance(answers[broker_4], Fault)

    def test_offsets_leave_out_partitions_without_a_leader(self, down: ContractCluster) -> None:
        led = {TopicPartition("contract.fenced", p) for p in range(2)}
        alone = TopicPartition("contract.alone", 0)
        assert down.client.fetch_offsets([*led, alone], OffsetAt.LATEST).keys() == led

    def test_replica_on_a_stopped_broker_cannot_be_elected_preferred_leader(
        self, down: ContractCluster
    ) -> None:
        tp = TopicPartition("contract.fenced", 0)
        answers = down.client.elect_leaders([tp])
        assert _name(answers[tp]) == "PREFERRED_LEADER_NOT_AVAILABLE"

    def test_an_unclean_election_needs_a_live_replica_and_no_leader(
        self, down: ContractCluster
    ) -> None:
        led, alone = TopicPartition("contract.fenced", 0), TopicPartition("contract.alone", 0)
        missing = TopicPartition("contract.no-such-topic", 0)
        answers = down.client.elect_leaders([led, alone, missing], unclean=True)
        assert _name(answers[led]) == "ELECTION_NOT_NEEDED"
        assert _name(answers[alone]) == "ELIGIBLE_LEADERS_NOT_AVAILABLE"
        assert _name(answers[missing]) == "UNKNOWN_TOPIC_OR_PARTITION"

    def test_stopped_broker_is_accepted_as_a_target_and_the_move_hangs(
        self, down: ContractCluster
    ) -> None:
        tp = TopicPartition("contract.fenced", 1)
        assert down.client.alter_reassignments({tp: (1, 4)}) == {tp: None}
        assert down.client.fetch_reassignments()[tp].adding == (4,)
        assert down.client.cancel_reassignments([tp]) == {tp: None}
        until(down, lambda: sorted(replicas(down, tp)) == [1, 2])


def _name(answer: object) -> str | None:
    return answer.name if isinstance(answer, Fault) else None


def _layout(cluster: ContractCluster, topic: str) -> list[tuple[int, ...]]:
    state = cluster.client.describe_cluster()
    return [state.replicas(row) for row in state.partitions_of(topic)]


def _unset(config: ConfigValue | None) -> bool:
    return config is None or not config.value


def _lying(cluster: ContractCluster, tp: TopicPartition, broker: int) -> list[tuple[str, bool]]:
    """Return the log dir of a replica, then that of its copy, marked as such."""
    (answer,) = cluster.client.describe_log_dirs([broker])
    logs = [log for log in answer.replicas if (log.topic, log.partition) == tp]
    return sorted(((log.log_dir, log.future) for log in logs), key=lambda pair: pair[1])


def _sizes(cluster: ContractCluster, tp: TopicPartition) -> dict[int, int]:
    return {
        answer.broker: replica.size_bytes
        for answer in cluster.client.describe_log_dirs(BROKERS)
        for replica in answer.replicas
        if (replica.topic, replica.partition) == tp and not replica.future
    }
