"""New topics: Kafka's own rule as its tests have it, and a placement by what brokers carry."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from clusters import MB, cluster, load_of
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.metadata import LogDir
from core.cluster.state import ClusterState
from core.errors import UsageError
from core.load.load import Load
from core.plan.planner.new_topic import (
    Expected,
    place_by_load,
    place_round_robin,
    refuse_topic,
    without_rack,
    without_room,
)

RACKS = {0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"}


def test_round_robin_placement_with_racks_matches_kafkas_own_test() -> None:
    assert place_round_robin(RACKS, 7, 3) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


def test_round_robin_placement_without_racks_matches_kafkas_own_test() -> None:
    assignments = place_round_robin(dict.fromkeys(range(5)), 10, 3)
    assert assignments == [
        *((0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1)),
        *((0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2)),
    ]


def test_racks_do_not_matter_unless_every_broker_has_one() -> None:
    assert place_round_robin({0: "a", 1: None, 2: "a"}, 3, 2) == [(0, 1), (1, 2), (2, 0)]


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 40), st.data())
def test_every_rack_is_used_before_any_is_used_twice(
    brokers: int, racks: int, partitions: int, data: st.DataObject
) -> None:
    replicas = data.draw(st.integers(1, brokers))
    of = {broker: f"r{broker % racks}" for broker in range(brokers)}
    state = cluster({"t-0": [0]}, brokers=range(brokers), racks=of)
    for assignments in (
        place_round_robin(of, partitions, replicas),
        place_by_load(state, load_of(state, MB), partitions, replicas, Expected()),
    ):
        assert len(assignments) == partitions
        for row in assignments:
            assert len(set(row)) == replicas
            assert len({of[b] for b in row}) == min(replicas, len(set(of.values())))


def test_load_of_brokers_decides_where_a_new_topic_is_placed() -> None:
    held = {f"t-{n}": [1, 2] for n in range(12)} | {"u-0": [3, 4]}
    state = cluster(held, brokers=[1, 2, 3, 4], size_bytes=MB)
    assignments = place_by_load(state, load_of(state, MB), 10, 2, Expected())
    assert {broker for row in assignments for broker in row} == {3, 4}
    leaders = Counter(row[0] for row in assignments)
    assert abs(1 + leaders[3] - leaders[4]) <= 1, "broker 3 leads one already"


def test_dead_brokers_get_no_replicas_of_a_new_topic() -> None:
    state = cluster({"t-0": [1, 2]}, brokers=[1, 2, 3], dead=[3])
    assignments = place_by_load(state, load_of(state, MB), 9, 2, Expected())
    assert {broker for row in assignments for broker in row} == {1, 2}


@pytest.mark.parametrize("known", [True, False])
def test_an_empty_cluster_is_filled_evenly(known: bool) -> None:
    state = cluster({}, brokers=range(6), racks=RACKS)
    load = load_of(state, 0.0) if known else Load.unknown(state)
    assignments = place_by_load(state, load, 12, 3, Expected())
    assert set(Counter(b for row in assignments for b in row).values()) == {6}
    assert set(Counter(row[0] for row in assignments).values()) == {2}


def test_a_heavy_topic_goes_where_there_is_room_for_its_traffic() -> None:
    state = cluster({"t-0": [1], "t-1": [2], "t-2": [2]}, brokers=[1, 2], size_bytes=MB)
    load = load_of(state, {"t-0": 9 * MB, "t-1": MB, "t-2": MB})
    expected = Expected(in_bytes_per_s=7 * MB, size_bytes=MB)
    assert place_by_load(state, load, 1, 1, expected) == [(2,)]
    assert np.isfinite(load.in_bytes_per_s).all()


def with_room(*free_mb: int, racks: dict[int, str] | None = None) -> ClusterState:
    """Return brokers 1, 2, … with so much to fill beside the tenth that stays free."""
    dirs = {
        b: (LogDir("/data", 1000 * MB, (100 + free) * MB),) for b, free in enumerate(free_mb, 1)
    }
    return cluster({}, brokers=[*dirs], racks=racks, log_dirs=dirs)


def test_brokers_with_room_come_first_and_those_without_room_are_reported() -> None:
    state = with_room(50, 500, 500)
    load, expected = load_of(state, MB), Expected(size_bytes=200 * MB)
    assignments = place_by_load(state, load, 4, 1, expected)
    assert Counter(broker for (broker,) in assignments) == {2: 2, 3: 2}
    assert not without_room(state, load, assignments, expected)
    assignments = place_by_load(state, load, 4, 2, expected)
    notes = without_room(state, load, assignments, expected)
    assert any(
        note.startswith("Broker 1 has no room") and "50 MB may be filled" in note for note in notes
    )


def test_brokers_without_a_rack_come_after_unused_racks_and_are_reported() -> None:
    racks = {1: "a", 2: "b"}
    state = cluster({"t-0": [1], "t-1": [2]}, brokers=[1, 2, 3, 4], racks=racks, size_bytes=MB)
    load = load_of(state, MB)
    two, three = (place_by_load(state, load, 2, replicas, Expected()) for replicas in (2, 3))
    assert [set(row) for row in two] == [{1, 2}, {1, 2}]
    assert sorted(len({1, 2} & set(row)) for row in three) == [2, 2]
    assert without_rack(state) == [
        "Brokers 3,4 have no rack while others have one: they come after racks that are not used "
        "yet; set broker.rack."
    ]


def test_all_brokers_are_treated_alike_if_none_has_a_rack() -> None:
    state = cluster({"t-0": [1]}, brokers=[1, 2, 3], size_bytes=MB)
    assignments = place_by_load(state, load_of(state, MB), 6, 2, Expected())
    assert {broker for row in assignments for broker in row} == {1, 2, 3}
    assert not without_rack(state)


def test_spread_over_racks_takes_precedence_over_disk_room() -> None:
    state = with_room(0, 500, 500, racks={1: "a", 2: "b", 3: "b"})
    assignments = place_by_load(state, load_of(state, MB), 2, 2, Expected(size_bytes=200 * MB))
    assert all(1 in row for row in assignments)


@pytest.mark.parametrize(
    ("topic", "replicas", "words"),
    [
        ("a b", 1, "no name for a topic"),
        ("..", 1, "no name for a topic"),
        ("t", 1, "Topic t is there already."),
        ("new", 3, "3 replicas on 2 brokers that are up"),
    ],
)
def test_topic_that_cannot_be_created_is_refused(topic: str, replicas: int, words: str) -> None:
    state = cluster({"t-0": [1]}, brokers=[1, 2, 3], dead=[3])
    with pytest.raises(UsageError, match=words):
        refuse_topic(state, topic, replicas)
