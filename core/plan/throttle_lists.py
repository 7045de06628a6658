"""Throttle lists: which replicas Kafka's replication quotas should count while moves run.

A list is one topic config with entries `partition:broker`, or `*` for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from core.cluster.metadata import TopicPartition
from core.plan.plan import Move

ALL = "*"


class ThrottleLists(NamedTuple):
    """Entries `p:b` for each topic and side; a topic without entries is absent."""

    leader: Mapping[str, frozenset[str]]
    follower: Mapping[str, frozenset[str]]


def batch_lists(moves: Iterable[Move]) -> ThrottleLists:
    """Return what a run lists for one batch; a re-order, and a mere removal, copy nothing.

    Leader side: every current replica, as Kafka's tool and topicctl list them, and the adding
    ones too, because one that has entered the ISR can be elected while the move still runs.
    Follower side, as theirs: the adding ones only; an in-sync replica listed there is slowed by
    nothing but uses the quota up. (ReassignPartitionsCommand.calculateProposedMoveMap)
    """
    copying = [move for move in moves if move.moves_data]
    return ThrottleLists(
        _by_topic({move.tp: {*move.before, *move.adding} for move in copying}),
        _by_topic({move.tp: set(move.adding) for move in copying}),
    )


def entries(value: str | None) -> frozenset[str]:
    """Return the entries of a list config as a broker returned it; unset and empty have none."""
    return frozenset(part for entry in (value or "").split(",") if (part := entry.strip()))


def missing(wanted: Set[str], existing: str | None) -> tuple[str, ...]:
    """Return the entries to append so that all `wanted` count; what is there is somebody else's."""
    there = entries(existing)
    return () if ALL in there else tuple(sorted(wanted - there, key=_by_number))


def joined(wanted: Iterable[str]) -> str:
    """Return entries as a config value, by partition and broker."""
    return ",".join(sorted(wanted, key=_by_number))


def _by_number(entry: str) -> tuple[int, ...]:
    return tuple(int(part) for part in entry.split(":"))


def _by_topic(brokers_of: Mapping[TopicPartition, Set[int]]) -> Mapping[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for tp, brokers in brokers_of.items():
        for broker in brokers:
            found[tp.topic].add(f"{tp.partition}:{broker}")
    return {topic: frozenset(entries) for topic, entries in found.items()}
