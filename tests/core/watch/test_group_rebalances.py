"""Rebalances: what is told of groups between looks, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from clusters import tp

from core.cluster.groups import Group, Member
from core.cluster.kafka_errors import Fault
from core.watch.groups.rebalances import WatchedGroups, format_shares, start_watching

AT = datetime(2026, 3, 1, 3, tzinfo=UTC)


def group(id: str = "g", state: str = "stable", **members: Sequence[str]) -> Group:
    """Return a group; members by client id, each with what it reads."""
    return Group(
        id,
        state,
        "range",
        1,
        tuple(
            Member(f"{name}-id", name.rstrip("_"), "/h", tuple(tp(p) for p in read))
            for name, read in members.items()
        ),
        {},
    )


def told(*looks: Sequence[Group] | None) -> list[str]:
    """Return what is told of these looks; None is one that was not complete, and saw nothing."""
    watched, found = start_watching(looks[0] or ()), []
    for look in looks[1:]:
        watched, happened = watched.then(AT, look or (), complete=look is not None)
        found += [f"{one.group} {one.text}" for one in happened]
    return found


ALL = ("t-0", "t-1", "t-2")
ONE = group(a=ALL)
TWO = group(a=("t-0", "t-1"), b=("t-2",))
THREE = group(a=("t-0",), b=("t-1",), c=("t-2",))
FOUR = group(a=("t-0",), b=("t-1",), c=("t-2",), d=())


def test_members_that_join_one_after_another() -> None:
    assert told([], [ONE], [ONE], [TWO], [THREE], [FOUR]) == [
        "g was assigned: 1 member, 3 partitions",
        "g rebalanced: 2 members, 2+1 partitions; b joined",
        "g rebalanced: 3 members, 1+1+1 partitions; c joined",
        "g rebalanced: 4 members, 1+1+1 partitions, 1 idle; d joined",
    ]


def test_members_that_leave_to_the_last() -> None:
    assert told([FOUR], [THREE], [TWO], [group(state="empty")], []) == [
        "g rebalanced: 3 members, 1+1+1 partitions; d left",
        "g rebalanced: 2 members, 2+1 partitions; c left",
        "g lost its last member",
    ]


def test_the_first_look_tells_nothing() -> None:
    assert told([ONE, group("h", "preparing_rebalancing", x=())], [ONE]) == [
        "h lost its last member"
    ]


def test_a_rebalance_that_is_seen_half_way_is_compared_with_what_was_stable() -> None:
    half = group(state="preparing_rebalancing", a=(), b=())
    on = group(state="completing_rebalancing", a=(), b=())
    assert told([ONE], [half], [on], [TWO]) == [
        "g began to rebalance: b joined",
        "g rebalanced: 2 members, 2+1 partitions; b joined",
    ]
    again = group(state="preparing_rebalancing", a=())
    assert told([ONE], [again], [ONE]) == [
        "g began to rebalance",
        "g rebalanced, and is as before: 1 member, 3 partitions",
    ]


def test_members_that_come_while_it_goes_on_are_told_as_they_come() -> None:
    half = group(state="reconciling", a=ALL, b=())
    more = group(state="reconciling", a=ALL, b=(), c=())
    assert told([ONE], [half], [more], [more], [half], [TWO]) == [
        "g began to rebalance: b joined",
        "g went on rebalancing: c joined",
        "g went on rebalancing: c left",
        "g rebalanced: 2 members, 2+1 partitions; b joined",
    ]


def test_a_client_that_starts_anew_is_not_two() -> None:
    assert told([TWO], [group(a_=("t-0", "t-1"), b=("t-2",))]) == [
        "g rebalanced: 2 members, 2+1 partitions; a started anew"
    ]


def test_partitions_that_change_hands_alone_are_told() -> None:
    assert told([TWO], [group(a=("t-0",), b=("t-1", "t-2"))]) == [
        "g rebalanced: 2 members, 2+1 partitions"
    ]


def test_what_may_not_be_known_is_not_taken_for_gone() -> None:
    locked = Group("g", "unknown", "", None, (), {}, fault=Fault("GROUP_AUTHORIZATION_FAILED"))
    assert told([TWO], [locked], None, [TWO]) == []


def test_a_group_that_is_seen_empty_has_lost_its_members_whatever_else_is_not_seen() -> None:
    watched = start_watching([TWO])
    _, (one,) = watched.then(AT, [group(state="empty")], complete=False)
    assert one.text == "lost its last member"


def test_however_many_groups_come_and_go_no_more_are_kept_than_are_looked_at() -> None:
    watched = start_watching([group("a"), group("b")], "b")
    for number in range(50):
        half = group(f"consumer-{number:02}", "preparing_rebalancing", x=ALL)
        look = [group("a", y=ALL), half] if number % 2 else [group("a", y=ALL), group("b", x=ALL)]
        watched, _ = watched.then(AT, look, up_to=look[-1].id)
        assert {*watched.stable, *watched.unsettled} == {one.id for one in look}


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((1,), "1 member, 1 partition"),
        ((0,), "1 member, no partitions"),
        ((1, 2, 0), "3 members, 2+1 partitions, 1 idle"),
        ((2,) * 9, "9 members, 2 partitions each"),
        ((2, 3) * 5 + (0,), "11 members, 2 to 3 partitions each, 1 idle"),
    ],
)
def test_shares(counts: Sequence[int], words: str) -> None:
    read = {f"m{n}": [f"t-{i}" for i in range(count)] for n, count in enumerate(counts)}
    assert format_shares(group(**read)) == words


def test_many_that_come_are_counted() -> None:
    many = {f"c{n}": (f"t-{n}",) for n in range(5)}
    assert told([ONE], [group(a=ALL, **many)]) == [
        "g rebalanced: 6 members, 3+1+1+1+1+1 partitions; 5 members joined"
    ]


def test_the_topic_is_named_where_there_is_one() -> None:
    _, (one,) = WatchedGroups().then(AT, [ONE])
    assert one.topic == "t"
    _, (two,) = WatchedGroups().then(AT, [group(a=("t-0", "u-0"))])
    assert two.topic is None
