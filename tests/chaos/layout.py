"""The six moves of a run on real brokers, and what others have set there before it.

The partitions go to and fro between two layouts, so that one run after another has the same to do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from core.cluster.configs import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    Resource,
    ResourceKind,
)
from core.cluster.metadata import TopicPartition

MB = 1_000_000
RATE = 2 * MB
SLOW = 300_000
"""A rate at which a run lasts long enough to be cancelled."""
CRAWL = 10
"""Less than what producers write: after its first answer a leader sends nothing more to whoever is
not in sync, until there is another rate."""
PARTITION_BYTES = 3 * MB
BATCH = 2
UNINVOLVED = 5
DEAD = 6
"""A broker that died before anything began and never returns: what is moved there goes on."""
EVERY_BROKER = Resource(ResourceKind.BROKER, "")

Targets = Mapping[TopicPartition, tuple[int, ...]]
LogDirMover = Mapping[TopicPartition, tuple[str, ...]]
"""For each replica of a target the log dir that it is to lie in, or `any`."""
Layouts = Mapping[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]
_TO_AND_FRO = (
    ((1, 2, 3), (4, 2, 3)),
    ((2, 3, 1), (2, 3, 4)),
    ((3, 1, 2), (3, 4, 1)),
    ((1, 2, 4), (4, 1, 2)),
    ((4, 1, 2), (3, 1, 2)),
    ((2, 4, 3), (1, 4, 3)),
)
"""Two of each batch; the fourth is only re-ordered."""
LAYOUTS: Layouts = {
    TopicPartition(f"chaos-{'abc'[n // 2]}", n % 2): both for n, both in enumerate(_TO_AND_FRO)
}
SHORT = "chaos-short"
"""The topic whose log is made shorter before it moves, or which others delete: never counted."""
SHORT_CONFIGS = {"segment.ms": "5000"}
"""Retention acts on closed segments only."""
SHORT_LAYOUTS: Layouts = {TopicPartition(SHORT, n): both for n, both in enumerate(_TO_AND_FRO)}
THEIRS = "chaos-theirs"
"""A topic that no run moves, but others do."""
THEIRS_LAYOUTS: Layouts = {TopicPartition(THEIRS, 0): ((1, 2, 3), (1, 2, UNINVOLVED))}
EVERY_LAYOUT: Layouts = {**LAYOUTS, **SHORT_LAYOUTS, **THEIRS_LAYOUTS}
TOPICS = tuple(dict.fromkeys(tp.topic for tp in EVERY_LAYOUT))
THROTTLES = (
    (EVERY_BROKER, LEADER_RATE, "80000000"),
    (Resource.broker(1), LEADER_RATE, "77000000"),
    (Resource.broker(3), FOLLOWER_RATE, "1500000"),
    (Resource.topic("chaos-a"), LEADER_LIST, "7:1,0:1"),
    (Resource.topic("chaos-b"), LEADER_LIST, "*"),
    (Resource.topic("chaos-b"), FOLLOWER_LIST, "*"),
    (Resource.topic("chaos-c"), FOLLOWER_LIST, ""),
)
STATIC = {
    LEADER_RATE: "90000000",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
}


def opposite(now: Targets, layouts: Layouts = LAYOUTS) -> dict[TopicPartition, tuple[int, ...]]:
    """Return each partition's other layout."""
    return {tp: b if now[tp] == a else a for tp, (a, b) in layouts.items()}


def one_way(now: Targets, layouts: Layouts = LAYOUTS) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the other layout of those that stand in the same one: with a source held back, if
    it can be, and of two such parts the larger one.

    After runs that ended half done, going both ways would make every broker a destination.
    """
    first = {tp: b for tp, (a, b) in layouts.items() if now[tp] == a}
    second = {tp: other for tp, other in opposite(now, layouts).items() if tp not in first}
    return max(first, second, key=lambda way: (bool(held_back(way, now)), len(way)))


def sources(targets: Targets, before: Targets) -> list[int]:
    """Return the brokers that replicas only leave or stay on."""
    arriving = {b for tp in targets for b in targets[tp] if b not in before[tp]}
    return [b for b in (1, 2, 3, 4) if b not in arriving]


def receives_last(tp: TopicPartition, targets: Targets, before: Targets) -> int:
    """Return the broker that a partition moves to which others hold up until all else is done.

    Its rate is needed to the end: one that a broker has done with is nobody's to miss.
    """
    (broker,) = set(targets[tp]) - set(before[tp])
    return broker


def held_back(targets: Targets, before: Targets) -> list[int]:
    """Return the sources that a run's own pairs hold back when they return, whoever leads by then.

    Pairs of others in a list of leaders, or all, are no run's to take out of it.
    """
    theirs = [
        (resource.name, pair.split(":")[0])
        for resource, name, pairs in THROTTLES
        if name == LEADER_LIST
        for pair in pairs.split(",")
    ]
    ours = [
        tp
        for tp in targets
        if not {(tp.topic, str(tp.partition)), (tp.topic, "*")}.intersection(theirs)
        and set(targets[tp]) - set(before[tp])
    ]
    return [b for b in sources(targets, before) if any(b in before[tp] for tp in ours)]


def document(targets: Targets, log_dirs: LogDirMover | None = None) -> str:
    """Return a reassignment as Kafka's tools and trimtab read it."""
    partitions: list[dict[str, Any]] = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        | ({"log_dirs": list(log_dirs[tp])} if log_dirs else {})
        for tp, replicas in targets.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions})
