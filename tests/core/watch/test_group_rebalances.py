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


def events_of(*polls: Sequence[Group] | None) -> list[str]:
    """Return what is told of these looks; None is one that was not complete, and saw nothing."""
    watched, texts = start_watching(polls[0] or ()), []
    for look in polls[1:]:
        watched, happened = watched.then(AT, look or (), complete=look is not None)
        texts += [f"{event.group} {event.text}" for event in happened]
    return texts


ALL = ("t-0", "t-1", "t-2")
ONE = group(a=ALL)
TWO = group(a=("t-0", "t-1"), b=("t-2",))
THREE = group(a=("t-0",), b=("t-1",), c=("t-2",))
FOUR = group(a=("t-0",), b=("t-1",), c=("t-2",), d=())


HALF = group(state="preparing_rebalancing", a=(), b=())
ON = group(state="reconciling", a=ALL, b=())
MORE = group(state="reconciling", a=ALL, b=(), c=())
LOCKED = Group("g", "unknown", "", None, (), {}, fault=Fault("GROUP_AUTHORIZATION_FAILED"))
TWO_AGAIN = "g rebalanced: 2 members, 2+1 partitions"

TOLD: dict[str, tuple[list[Sequence[Group] | None], list[str]]] = {
    "members join one after another": (
        [[], [ONE], [ONE], [TWO], [THREE], [FOUR]],
        [
            "g was assigned: 1 member, 3 partitions",
            f"{TWO_AGAIN}; b joined",
            "g rebalanced: 3 members, 1+1+1 partitions; c joined",
            "g rebalanced: 4 members, 1+1+1 partitions, 1 idle; d joined",
        ],
    ),
    "members leave to the last": (
        [[FOUR], [THREE], [TWO], [group(state="empty")], []],
        [
            "g rebalanced: 3 members, 1+1+1 partitions; d left",
            f"{TWO_AGAIN}; c left",
            "g lost its last member",
        ],
    ),
    "the first look tells nothing": (
        [[ONE, group("h", "preparing_rebalancing", x=())], [ONE]],
        ["h lost its last member"],
    ),
    "seen half way, compared with what was stable": (
        [[ONE], [HALF], [group(state="completing_rebalancing", a=(), b=())], [TWO]],
        ["g began to rebalance: b joined", f"{TWO_AGAIN}; b joined"],
    ),
    "as before in the end": (
        [[ONE], [group(state="preparing_rebalancing", a=())], [ONE]],
        [
            "g began to rebalance",
            "g rebalanced, and is as before: 1 member, 3 partitions",
        ],
    ),
    "members come while it goes on": (
        [[ONE], [ON], [MORE], [MORE], [ON], [TWO]],
        [
            "g began to rebalance: b joined",
            "g went on rebalancing: c joined",
            "g went on rebalancing: c left",
            f"{TWO_AGAIN}; b joined",
        ],
    ),
    "a client that starts anew is not two": (
        [[TWO], [group(a_=("t-0", "t-1"), b=("t-2",))]],
        [f"{TWO_AGAIN}; a started anew"],
    ),
    "partitions change hands": ([[TWO], [group(a=("t-0",), b=("t-1", "t-2"))]], [TWO_AGAIN]),
    "what may not be known is not gone": ([[TWO], [LOCKED], None, [TWO]], []),
    "many that come are counted": (
        [[ONE], [group(a=ALL, **{f"c{n}": (f"t-{n}",) for n in range(5)})]],
        ["g rebalanced: 6 members, 3+1+1+1+1+1 partitions; 5 members joined"],
    ),
}


@pytest.mark.parametrize(("polls", "expected"), TOLD.values(), ids=list(TOLD))
def test_group_rebalances_are_reported_from_successive_polls(
    polls: list[Sequence[Group] | None], expected: list[str]
) -> None:
    assert events_of(*polls) == expected


def test_empty_group_has_lost_its_last_member_even_in_an_incomplete_poll() -> None:
    watched = start_watching([TWO])
    _, (event,) = watched.then(AT, [group(state="empty")], complete=False)
    assert event.text == "lost its last member"


def test_only_polled_groups_are_kept_however_many_come_and_go() -> None:
    watched = start_watching([group("a"), group("b")], "b")
    for number in range(50):
        half = group(f"consumer-{number:02}", "preparing_rebalancing", x=ALL)
        look = [group("a", y=ALL), half] if number % 2 else [group("a", y=ALL), group("b", x=ALL)]
        watched, _ = watched.then(AT, look, up_to=look[-1].id)
        assert {*watched.stable, *watched.unsettled} == {listing.id for listing in look}


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
def test_partition_shares_of_group_members_are_summarized(
    counts: Sequence[int], words: str
) -> None:
    read = {f"m{n}": [f"t-{i}" for i in range(count)] for n, count in enumerate(counts)}
    assert format_shares(group(**read)) == words


def test_group_event_has_a_topic_only_if_the_group_reads_a_single_topic() -> None:
    _, (event,) = WatchedGroups().then(AT, [ONE])
    assert event.topic == "t"
    _, (two,) = WatchedGroups().then(AT, [group(a=("t-0", "u-0"))])
    assert two.topic is None
