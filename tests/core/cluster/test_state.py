"""ClusterState: lookups and joins over its columns."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.log_dirs import BrokerLogs, ReplicaLog, with_log_dirs
from core.cluster.metadata import (
    UNKNOWN,
    Broker,
    LogDir,
    PartitionRow,
    Reassignment,
    Topic,
    TopicPartition,
)
from core.cluster.state import ClusterState

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def state_of(rows: list[PartitionRow], *, brokers: int = 6) -> ClusterState:
    return ClusterState.build(
        cluster_id="test",
        fetched_at=NOON,
        brokers=[Broker(id) for id in range(brokers)],
        topics=[Topic("empty")],
        partitions=rows,
    )


partition_rows = st.lists(
    st.builds(
        lambda topic, partition, replicas, leader, synced: PartitionRow(
            topic,
            partition,
            leader=replicas[leader % len(replicas)],
            replicas=tuple(replicas),
            isr=tuple(replicas[: synced % (len(replicas) + 1)]),
        ),
        st.sampled_from(["a", "b", "a.b", "z"]),
        st.integers(0, 50),
        st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True),
        st.integers(0, 3),
        st.integers(0, 4),
    ),
    unique_by=lambda row: row.tp,
)


@given(partition_rows)
def test_rows_are_sorted_by_topic_and_partition(rows: list[PartitionRow]) -> None:
    assert list(state_of(rows).rows()) == sorted(rows, key=lambda row: row.tp)


@given(partition_rows)
def test_find_locates_every_partition_and_no_unknown_one(rows: list[PartitionRow]) -> None:
    state = state_of(rows)
    for i in range(state.partition_count):
        assert state.find(state.tp(i)) == i
    assert state.find(TopicPartition("empty", 0)) is None
    assert state.find(TopicPartition("absent", 0)) is None
    assert state.find(TopicPartition("a", 51)) is None
    assert state.find(TopicPartition("b", -1)) is None


@given(partition_rows)
def test_partitions_of_a_topic_are_exactly_its_own(rows: list[PartitionRow]) -> None:
    state = state_of(rows)
    for topic in ("a", "b", "a.b", "z", "empty"):
        partitions = {state.tp(i) for i in state.partitions_of(topic)}
        assert partitions == {row.tp for row in rows if row.topic == topic}


def test_columns_cannot_be_written() -> None:
    state = state_of([PartitionRow("a", 0, 1, (1, 2), (1,))])
    with pytest.raises(ValueError, match="read-only"):
        state.leader[0] = 2


def test_sizes_are_unknown_until_log_dirs_are_joined() -> None:
    state = state_of([PartitionRow("a", 0, 1, (1, 2), (1,)), PartitionRow("b", 3, 2, (2, 1), (2,))])
    assert state.size_bytes.tolist() == [UNKNOWN] * 4
    assert state.partition_size_bytes.tolist() == [UNKNOWN] * 2
    answers = [
        BrokerLogs(
            1,
            (LogDir("/d1", 100, 40),),
            (ReplicaLog("a", 0, 70, 0, "/d1"), ReplicaLog("gone", 0, 1, 0, "/d1")),
        ),
        BrokerLogs(2, error="timed out"),
    ]
    joined = with_log_dirs(state, answers)
    assert joined.size_bytes.tolist() == [70, UNKNOWN, UNKNOWN, UNKNOWN]
    assert joined.log_dir_paths == ("/d1",)
    assert joined.broker_by_id[1].log_dirs == (LogDir("/d1", 100, 40),)
    assert joined.broker_by_id[2].log_dirs == ()


def test_sizes_of_a_broker_that_does_not_answer_are_kept() -> None:
    state = state_of([PartitionRow("a", 0, 1, (1,), (1,))])
    known = with_log_dirs(state, [BrokerLogs(1, (), (ReplicaLog("a", 0, 70, 0, "/d"),))])
    later = with_log_dirs(known, [BrokerLogs(1, error="timed out")])
    assert later.size_bytes.tolist() == [70]


def test_a_log_that_moves_between_dirs_is_counted_once() -> None:
    state = state_of([PartitionRow("a", 0, 1, (1,), (1,))])
    logs = (ReplicaLog("a", 0, 70, 0, "/d1"), ReplicaLog("a", 0, 30, 40, "/d2", future=True))
    assert with_log_dirs(state, [BrokerLogs(1, (), logs)]).size_bytes.tolist() == [70]


def test_partition_size_is_that_of_its_leader_replica_if_known() -> None:
    state = state_of([PartitionRow("a", 0, 2, (1, 2), (2,))])
    both = [
        BrokerLogs(1, (), (ReplicaLog("a", 0, 90, 0, "/d"),)),
        BrokerLogs(2, (), (ReplicaLog("a", 0, 70, 0, "/d"),)),
    ]
    assert with_log_dirs(state, both).partition_size_bytes.tolist() == [70]
    assert with_log_dirs(state, both[:1]).partition_size_bytes.tolist() == [90]


@given(partition_rows, st.data())
def test_without_its_leaders_size_a_partition_is_as_large_as_its_largest_replica(
    rows: list[PartitionRow], data: st.DataObject
) -> None:
    state = state_of([*rows, PartitionRow("held by nobody", 0, -1, (), ())])
    counts = st.lists(
        st.integers(-1, 5), min_size=state.replica_count, max_size=state.replica_count
    )
    state = replace(state, size_bytes=np.array(data.draw(counts), np.int64))
    for index in range(state.partition_count):
        sizes = dict(
            zip(
                state.replicas(index),
                state.size_bytes[state.replica_slice(index)].tolist(),
                strict=True,
            )
        )
        led = sizes.get(int(state.leader[index]), -1)
        largest = max(sizes.values(), default=-1)
        assert state.partition_size_bytes[index] == (led if led >= 0 else largest)


def test_metadata_hash_depends_on_replica_order_but_not_on_leader_or_isr() -> None:
    state = state_of([PartitionRow("a", 0, 1, (1, 2), (1,))])
    other = state_of([PartitionRow("a", 0, 1, (2, 1), (1,))])
    same = state_of([PartitionRow("a", 0, 2, (1, 2), (1, 2))])
    assert state.metadata_hash != other.metadata_hash
    assert state.metadata_hash == same.metadata_hash


def test_reassignment_ends_with_replicas_minus_removing_in_order() -> None:
    moving = Reassignment(replicas=(7, 3, 1, 9, 0, 2), adding=(7, 9), removing=(0, 2))
    assert moving.target == (7, 3, 1, 9)


def test_two_hundred_thousand_partitions_are_built_and_searched() -> None:
    count = 200_000
    rows = [PartitionRow(f"t{i // 1000:04}", i % 1000, 1, (1, 2, 3), (1, 2)) for i in range(count)]
    state = state_of(rows)
    assert state.replica_count == 3 * count
    assert state.find(TopicPartition("t0199", 999)) == count - 1
    assert int(np.count_nonzero(~state.in_sync)) == count
