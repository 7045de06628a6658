"""What changed between two looks, and the cluster as it was, made of it again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from watch_help import at, cluster, row

from core.cluster.metadata import PartitionRow, Topic
from core.cluster.state import ClusterState
from core.watch.timeline import codec as packing
from core.watch.timeline.changes import apply_changes, find_changes
from core.watch.timeline.events import Kind
from core.watch.timeline.text import format_event, group_events

QUIET = [row("a", 0, (1, 2, 3)), row("a", 1, (2, 3, 1)), row("b", 0, (3, 4))]


def first(change: PartitionRow) -> list[PartitionRow]:
    return [change, *QUIET[1:]]


@pytest.mark.parametrize(
    ("after", "kind", "text"),
    [
        (first(row("a", 0, (1, 2, 3), leader=2)), Kind.LEADER, "a-0 leader 1 → 2"),
        (
            first(row("a", 0, (1, 2, 3), leader=2, isr=(2, 3))),
            Kind.LEADER | Kind.ISR_SHRINK,
            "a-0 leader 1 → 2, ISR without 1 (2 of 3)",
        ),
        (
            first(row("a", 0, (1, 2, 3), leader=-1, isr=(1,))),
            Kind.OFFLINE | Kind.ISR_SHRINK,
            "a-0 has no leader (was 1), ISR without 2,3 (1 of 3)",
        ),
        (
            first(row("a", 0, (1, 2, 3, 4), isr=(1, 2, 3), adding=(4,), removing=(3,))),
            Kind.ASSIGNMENT,
            "a-0 moves 1,2,3 → 1,2,4",
        ),
        (first(row("a", 0, (1, 2, 4))), Kind.ASSIGNMENT | Kind.ISR_EXPAND, None),
        (first(row("a", 0, (2, 1, 3), leader=1)), Kind.ASSIGNMENT, "a-0 order 1,2,3 → 2,1,3"),
        (first(row("a", 0, (1, 2))), Kind.ASSIGNMENT, "a-0 replicas 1,2,3 → 1,2"),
        ([*QUIET, row("b", 1, (1, 2))], Kind.PARTITION, "b-1 came, on 1,2"),
        (QUIET[1:], Kind.PARTITION, "a-0 went"),
    ],
)
def test_each_change_of_a_partition_is_one_event(
    after: list[PartitionRow], kind: Kind, text: str | None
) -> None:
    (event,) = find_changes(cluster(QUIET), cluster(after, seconds=1))
    assert event.kind == kind
    assert event.at == at(1)
    if text is not None:
        assert format_event(event) == text


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (QUIET, "a-0 went back, on 1,2,3 again"),
        (first(row("a", 0, (1, 2, 4))), "a-0 has moved, now on 1,2,4"),
    ],
)
def test_end_of_a_reassignment_reports_the_current_replicas(
    after: list[PartitionRow], text: str
) -> None:
    moving = first(row("a", 0, (1, 2, 3, 4), adding=(4,), removing=(3,)))
    (event,) = find_changes(cluster(moving), cluster(after))
    assert format_event(event) == text
    assert not event.kind & Kind.ISR_SHRINK, "what was taken away did not fall behind"


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        ({}, {"down": (2,)}, ["broker 2 went down"]),
        ({"down": (2,)}, {}, ["broker 2 is back"]),
        ({"brokers": (1, 2, 3, 4)}, {"brokers": range(1, 6)}, ["broker 5 came, in rack b"]),
        ({}, {"controller": 3}, ["broker 3 is the controller, before it 1"]),
        ({}, {"controller": None}, []),
        (
            {"topics": {"a": Topic("a", "id-a", 1, 1000)}},
            {"topics": {"a": Topic("a", "id-a", 2, 1000)}},
            ["topic a: min.insync.replicas 1 → 2"],
        ),
        ({"topics": {"a": Topic("a", "id-a")}}, {}, []),
        ({}, {"topics": {"c": Topic("c", "id-c")}}, ["topic c was created"]),
        ({"topics": {"c": Topic("c", "id-c")}}, {}, ["topic c was deleted"]),
    ],
    ids=[
        *("down", "back", "new broker", "controller", "controller unknown"),
        *("config", "config not known before", "created", "deleted"),
    ],
)
def test_changes_of_brokers_topics_and_the_controller_are_reported(
    before: dict[str, Any], after: dict[str, Any], texts: list[str]
) -> None:
    events = find_changes(cluster(QUIET, **before), cluster(QUIET, seconds=1, **after))
    assert [format_event(event) for event in events] == texts


def test_recreated_topic_is_a_deletion_and_a_creation() -> None:
    anew = cluster(QUIET, topics={"b": Topic("b", "another", 1)})
    events = find_changes(cluster(QUIET), anew)
    assert [event.kind for event in events] == [
        *(Kind.TOPIC_DELETED, Kind.TOPIC_CREATED, Kind.PARTITION, Kind.PARTITION)
    ]
    assert_same(apply_changes(cluster(QUIET), events, at(1)), anew)


def test_partitions_that_regain_a_leader_are_counted_together() -> None:
    rows = [row("a", n, (1, 3)) for n in range(3)]
    nobody = cluster([row("a", n, (1, 3), leader=-1) for n in range(3)])
    events = find_changes(nobody, cluster(rows, seconds=1))
    assert [group.text for group in group_events(events)] == [
        "3 partitions have a leader again: 3 on 1 (a)"
    ]


def test_death_and_return_of_a_broker_are_summarized_in_a_few_lines() -> None:
    rows = [row("a", n, (1 + n % 2, 3)) for n in range(10)]
    dead = [
        row("a", n, (1 + n % 2, 3), leader=3 if n % 2 else None, isr=(3,) if n % 2 else None)
        for n in range(10)
    ]
    died = find_changes(cluster(rows), cluster(dead, seconds=1, down=(2,)))
    whole = [row("a", n, (1 + n % 2, 3), leader=3 if n % 2 else None) for n in range(10)]
    back = find_changes(cluster(dead, down=(2,)), cluster(whole, seconds=30))
    assert [group.text for group in group_events([*died, *back])] == [
        "broker 2 went down",
        "5 partitions have another leader than 2: 5 on 3 (a)",
        "5 partitions lost 2 from their ISR (a)",
        "broker 2 is back",
        "5 partitions have 2 in their ISR again (a)",
    ]


# -- laws -----------------------------------------------------------------------------------------


@st.composite
def clusters(draw: st.DrawFn) -> ClusterState:
    rows = []
    for topic in draw(st.sets(st.sampled_from("abcd"))):
        for partition in draw(st.sets(st.integers(0, 4))):
            replicas = draw(st.permutations((1, 2, 3, 4)))[: draw(st.integers(1, 4))]
            isr = [b for b in replicas if draw(st.booleans())]
            adding = [b for b in replicas if draw(st.booleans())]
            leader = draw(st.sampled_from([*isr, -1]))
            rows.append(row(topic, partition, replicas, leader=leader, isr=isr, adding=adding))
    anew = draw(st.sets(st.sampled_from("abcd")))
    return cluster(
        rows,
        down=draw(st.sets(st.integers(1, 4))),
        topics={r.topic: Topic(r.topic, "anew", 2) for r in rows if r.topic in anew},
        controller=draw(st.integers(1, 4)),
    )


COLUMNS = (
    *("topic_of", "partition", "leader", "replica_start"),
    *("replica_broker", "in_sync", "adding", "removing"),
)


def assert_same(state: ClusterState, other: ClusterState) -> None:
    assert state.brokers == other.brokers
    assert state.topics == other.topics
    assert state.controller == other.controller
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(state, name), getattr(other, name), name)


@given(before=clusters(), after=clusters())
def test_applying_found_changes_to_a_state_yields_the_later_state(
    before: ClusterState, after: ClusterState
) -> None:
    assert_same(apply_changes(before, find_changes(before, after), after.fetched_at), after)


@given(state=clusters())
def test_state_compared_with_itself_has_no_changes(state: ClusterState) -> None:
    assert find_changes(state, state) == []


@given(state=clusters())
def test_encoded_state_decodes_to_the_same_state(state: ClusterState) -> None:
    assert_same(packing.decode_state(packing.encode_state(state), state.fetched_at), state)
