"""Retention to shrink before a plan: what would not have to be copied, and who has not read it yet.

Pure. A run can lower the retention of its moving topics and put it back (`apply --retention`): it
does so for all of them, so that the advice is one duration for all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.cluster.document import DocumentGroup
from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.plan import Plan

HOUR = 3600
DURATIONS = tuple(hours * HOUR for hours in (1, 2, 3, 6, 12, 24, 48, 72, 168))
"""What is advised, the shortest first, in seconds."""
TIMES_BEHIND = 2.0
"""The slowest reader keeps so many times what it has yet to read."""
SEGMENT_BYTES = 1 << 30
"""segment.bytes by default. Only closed segments are deleted: up to one more stays."""
FOREVER_MS = -1


@dataclass(frozen=True, slots=True)
class Shrunk:
    """One topic: bytes, of all its copies, that would not be made; `least` is sure."""

    topic: str
    retention_ms: int
    least_bytes: int
    most_bytes: int


@dataclass(frozen=True, slots=True)
class Reader:
    """A group that has, or may have, records to read; `behind_seconds` is None if not known."""

    group: str
    topic: str
    behind_seconds: float | None


@dataclass(frozen=True, slots=True)
class Shrinking:
    """What a retention of so many seconds would save, over all moving topics.

    `losing` are readers that would lose what they have not read, `unsure` those of whom it is not
    known; `forever` are topics that are meant to keep everything, and would be shortened too.
    """

    seconds: int
    topics: tuple[Shrunk, ...]
    losing: tuple[Reader, ...] = ()
    unsure: tuple[Reader, ...] = ()
    forever: tuple[str, ...] = ()
    readers_known: bool = True

    @property
    def least_bytes(self) -> int:
        return sum(topic.least_bytes for topic in self.topics)

    @property
    def most_bytes(self) -> int:
        return sum(topic.most_bytes for topic in self.topics)

    @property
    def is_advised(self) -> bool:
        """Return whether it saves something, and all who read have read what is deleted."""
        against = self.losing or self.unsure or self.forever or not self.readers_known
        return bool(self.most_bytes) and not against


def shrinking(
    state: ClusterState,
    load: Load,
    plan: Plan,
    groups: Sequence[DocumentGroup] | None,
    seconds: int | None = None,
) -> Shrinking | None:
    """Return what a retention of `seconds` saves; by default of the least that readers can bear.

    None when nothing of the plan could be shortened: nothing is known to be deleted by time.
    """
    copies = _copies(state, plan)
    topics = sorted({state.topics[int(state.topic_of[row])].name for row in copies})
    readers = [reader for topic in topics for reader in _readers(state, load, groups or (), topic)]
    if seconds is None:
        behind = max((r.behind_seconds or 0.0 for r in readers), default=0.0) * TIMES_BEHIND
        seconds = next((s for s in DURATIONS if s >= behind), DURATIONS[-1])
    found = [
        shrunk
        for topic in topics
        if (shrunk := _shrunk(state, load, copies, topic, seconds)) is not None
    ]
    if not found:
        return None
    return Shrinking(
        seconds,
        tuple(sorted(found, key=lambda shrunk: (-shrunk.most_bytes, shrunk.topic))),
        tuple(r for r in readers if r.behind_seconds is not None and r.behind_seconds > seconds),
        tuple(r for r in readers if r.behind_seconds is None),
        tuple(t for t in topics if _retention_ms(state, t) == FOREVER_MS),
        groups is not None and not any(group.unknown for group in groups),
    )


def only_compacted(state: ClusterState, topics: Iterable[str]) -> tuple[str, ...]:
    """Return those topics of which nothing is deleted by its age, whatever their retention."""
    found = ((name, state.topic(name)) for name in sorted(topics))
    return tuple(
        name
        for name, topic in found
        if topic is not None and topic.cleanup_policy and "delete" not in topic.cleanup_policy
    )


def _copies(state: ClusterState, plan: Plan) -> dict[int, int]:
    """Return by row how many copies of a partition are made; those of known size only."""
    return {
        row: len(move.receiving)
        for move in plan
        if move.receiving
        and (row := state.find(move.tp)) is not None
        and state.partition_size_bytes[row] >= 0
    }


def _retention_ms(state: ClusterState, name: str) -> int | None:
    """Return for how long a topic keeps records; None when not by time, or when it is unknown."""
    topic = state.topic(name)
    if topic is None or "delete" not in (topic.cleanup_policy or ""):
        return None
    return topic.retention_ms


def _shrunk(
    state: ClusterState, load: Load, copies: dict[int, int], topic: str, seconds: int
) -> Shrunk | None:
    retention_ms = _retention_ms(state, topic)
    if retention_ms is None or 0 <= retention_ms <= seconds * 1000:
        return None
    least = most = 0.0
    for row in state.partitions_of(topic):
        rate = float(load.in_bytes_per_s[row])
        if row not in copies or math.isnan(rate):
            continue
        saved = float(state.partition_size_bytes[row]) - rate * seconds
        most += max(saved, 0.0) * copies[row]
        least += max(saved - SEGMENT_BYTES, 0.0) * copies[row]
    return Shrunk(topic, retention_ms, round(least), round(most)) if most else None


def _readers(
    state: ClusterState, load: Load, groups: Iterable[DocumentGroup], topic: str
) -> list[Reader]:
    """Return the groups that have yet to read some of a topic, on whichever of its partitions.

    Those of whom that is not known are among them.
    """
    if _retention_ms(state, topic) is None:
        return []
    rates = {state.tp(row): float(load.messages_per_s[row]) for row in state.partitions_of(topic)}
    found: defaultdict[str, list[float]] = defaultdict(list)
    for group in groups:
        for tp, lag in group.reads.items():
            if lag != 0 and tp in rates:
                found[group.id].append(behind_seconds(lag, rates[tp]))
    return [
        Reader(group, topic, None if math.isnan(sum(behind)) else max(behind))
        for group, behind in found.items()
    ]


def behind_seconds(lag: int | None, messages_per_s: float) -> float:
    """Return how old the oldest unread record is, NaN where it is not known."""
    if lag == 0:
        return 0.0
    return lag / messages_per_s if lag is not None and messages_per_s > 0 else math.nan
