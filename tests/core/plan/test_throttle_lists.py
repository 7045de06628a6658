"""Which replicas the quotas count: by Kafka's tool, by topicctl, and by a run of ours."""

from __future__ import annotations

import pytest
from clusters import tp

from core.plan.plan import Move
from core.plan.throttle_lists import batch_lists, entries, joined, missing


def move(name, before, after) -> Move:
    return Move(tp(name), tuple(before), tuple(after))


def listed(text: str) -> frozenset[str]:
    return frozenset(text.split(","))


KAFKA = (
    [
        move("foo-0", (1, 2, 3), (1, 2, 5)),
        move("foo-1", (4, 5, 6), (6, 7, 8)),
        move("foo-2", (1, 2), (3, 4)),
        move("foo-3", (1, 2), (5, 6)),
        move("foo-4", (1, 2), (3,)),
        move("foo-5", (1, 2), (3, 4, 5, 6)),
        move("bar-0", (2, 3, 4), (1, 2, 3)),
    ],
    {
        "foo": listed("0:1,0:2,0:3,1:4,1:5,1:6,2:1,2:2,3:1,3:2,4:1,4:2,5:1,5:2"),
        "bar": listed("0:2,0:3,0:4"),
    },
    {
        "foo": listed("0:5,1:7,1:8,2:3,2:4,3:5,3:6,4:3,5:3,5:4,5:5,5:6"),
        "bar": listed("0:1"),
    },
)
"""Of Kafka's tool, each partition in flight as one move from the replicas that it had before."""
TOPICCTL = (
    [move("t-3", (1, 2, 3), (1, 7, 3)), move("t-5", (1, 5, 6), (8, 10, 9))],
    {"t": listed("3:1,3:2,3:3,5:1,5:5,5:6")},
    {"t": listed("3:7,5:8,5:9,5:10")},
)


@pytest.mark.parametrize(("moves", "leader", "follower"), [KAFKA, TOPICCTL])
def test_followers_are_listed_as_others_do_and_leaders_with_those_too(moves, leader, follower):
    lists = batch_lists(moves)
    assert lists.follower == follower
    assert lists.leader == {topic: leader[topic] | follower[topic] for topic in leader}


@pytest.mark.parametrize("after", [(1, 2, 0), (2, 0, 1), (0, 1)])
def test_what_copies_nothing_lists_nothing(after):
    assert batch_lists([move("t-0", (0, 1, 2), after)]) == ({}, {})


def test_a_run_lists_the_adding_replica_on_both_sides():
    """One that has entered the ISR can be elected, and then sends, while the move still runs."""
    lists = batch_lists([move("t-0", (0, 1), (0, 2)), move("u-4", (1,), (1, 3))])
    assert lists.leader == {"t": listed("0:0,0:1,0:2"), "u": listed("4:1,4:3")}
    assert lists.follower == {"t": listed("0:2"), "u": listed("4:3")}


@pytest.mark.parametrize(
    ("existing", "to_append"),
    [
        (None, ("0:0", "0:1", "0:2")),
        ("", ("0:0", "0:1", "0:2")),
        ("1:0,1:1", ("0:0", "0:1", "0:2")),
        ("0:1, 1:1", ("0:0", "0:2")),
        ("0:0,0:1,0:2", ()),
        ("*", ()),
    ],
)
def test_only_what_is_missing_is_appended_and_a_star_is_left_alone(existing, to_append):
    wanted = batch_lists([move("t-0", (0, 1), (0, 2))]).leader["t"]
    assert missing(wanted, existing) == to_append


def test_entries_are_written_by_partition_and_broker():
    assert joined({"10:1", "2:10", "2:9"}) == "2:9,2:10,10:1"
    assert entries(joined({"10:1", "2:10"})) == {"10:1", "2:10"}
