"""Throttle lists: which replicas Kafka's replication quotas should count while moves run.

A list is one topic config with entries `partition:broker`, or `*` for all. Two rules live here:
`throttle_lists` is what Kafka's own tool and topicctl compute for a picture of moves;
`batch_lists` and `missing` are what a run of ours appends, so that nobody else's entry is lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType
from typing import NamedTuple

from core.cluster.state import Reassignment, TopicPartition
from core.plan.plan import Move

ALL = "*"
_NONE_IN_FLIGHT: Mapping[TopicPartition, Reassignment] = MappingProxyType({})


class ThrottleLists(NamedTuple):
    """Entries `p:b` for each topic and side; a topic without entries is absent."""

    leader: Mapping[str, frozenset[str]]
    follower: Mapping[str, frozenset[str]]

    @property
    def brokers(self) -> frozenset[int]:
        """Return every broker that an entry names: the ones whose rates matter."""
        sides = (*self.leader.values(), *self.follower.values())
        return frozenset(int(entry.split(":")[1]) for entries in sides for entry in entries)


def throttle_lists(
    moves: Iterable[Move],
    in_flight: Mapping[TopicPartition, Reassignment] = _NONE_IN_FLIGHT,
) -> ThrottleLists:
    """Return the lists for moves in flight and new ones together, by the rule of Kafka's tool.

    Leader side: the replicas that a partition has (for one in flight, without its adding ones).
    Follower side: those it gets. A new move of a partition in flight replaces its destinations
    and keeps its sources. A pure re-order, and a mere removal, copy nothing and list nothing.
    (ReassignPartitionsCommand.calculateProposedMoveMap; topicctl's diff is the same without
    anything in flight.)
    """
    sources: dict[TopicPartition, set[int]] = {}
    destinations: dict[TopicPartition, set[int]] = {}
    for tp, reassignment in in_flight.items():
        sources[tp] = set(reassignment.replicas) - set(reassignment.adding)
        destinations[tp] = set(reassignment.adding)
    for move in moves:
        held = sources.setdefault(move.tp, set(move.before))
        destinations[move.tp] = set(move.after) - held
    return _lists(
        {tp: held for tp, held in sources.items() if destinations[tp]},
        destinations,
    )


def batch_lists(moves: Iterable[Move]) -> ThrottleLists:
    """Return what a run lists for one batch.

    Leader side: every current replica, and the adding ones too, because one that has entered
    the ISR can be elected while the move still runs. Follower side: the adding ones only; an
    in-sync replica listed there is slowed by nothing but uses the quota up.
    """
    copying = [move for move in moves if move.moves_data]
    return _lists(
        {move.tp: {*move.before, *move.adding} for move in copying},
        {move.tp: set(move.adding) for move in copying},
    )


def entries(value: str | None) -> frozenset[str]:
    """Return the entries of a list config as a broker returned it; unset and empty have none."""
    return frozenset(part for entry in (value or "").split(",") if (part := entry.strip()))


def missing(wanted: Set[str], existing: str | None) -> tuple[str, ...]:
    """Return the entries to append so that all `wanted` count, in order; none beside a `*`.

    What is there already is somebody else's, and not to be subtracted later.
    """
    there = entries(existing)
    return () if ALL in there else tuple(sorted(wanted - there, key=_by_number))


def joined(wanted: Iterable[str]) -> str:
    """Return entries as a config value, by partition and broker."""
    return ",".join(sorted(wanted, key=_by_number))


def _by_number(entry: str) -> tuple[int, ...]:
    return tuple(int(part) for part in entry.split(":"))


def _lists(
    leader: Mapping[TopicPartition, Set[int]], follower: Mapping[TopicPartition, Set[int]]
) -> ThrottleLists:
    return ThrottleLists(_by_topic(leader), _by_topic(follower))


def _by_topic(brokers_of: Mapping[TopicPartition, Set[int]]) -> Mapping[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for tp, brokers in brokers_of.items():
        for broker in brokers:
            found[tp.topic].add(f"{tp.partition}:{broker}")
    return {topic: frozenset(entries) for topic, entries in found.items()}
