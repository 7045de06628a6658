"""What an operator wants of a plan, and which partitions it lets be touched."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import Bool, ClusterState
from core.cluster.topics import PROBE_TOPIC
from core.errors import UsageError
from core.patterns import matching, pattern
from core.plan.plan import Plan
from core.plan.planner.limits import INF, NO_LIMITS, Limits
from core.plan.planner.problem import BAND


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an operator wants of a plan; ids are brokers' and patterns are of topic names."""

    leaders_only: bool = False
    """Nothing is copied."""
    drain: tuple[int, ...] = ()
    fill: tuple[int, ...] = ()
    """New brokers, which alone receive what need not move; what has to goes there first."""
    replace: tuple[tuple[int, int], ...] = ()
    racks_only: bool = False
    replicas: int | None = None
    """How many replicas every partition should have."""
    brokers: tuple[int, ...] = ()
    """Where all replicas of what may be touched end; empty is anywhere."""
    ignore_racks: bool = False
    """Racks keep nothing apart, and shares are counted without them."""
    exclude: tuple[int, ...] = ()
    topics: str | None = None
    keep: str | None = None
    resting: frozenset[TopicPartition] = frozenset()
    """Partitions that are left as they are, whatever their topics."""
    disks: bool = False
    """Even out the log dirs of each broker, once brokers are done as is wanted besides."""
    balance: bool = False
    """Even brokers out, too, where log dirs alone would be."""
    kept: Plan = field(default_factory=Plan)
    """Moves that are planned already, and stay as they are: the rest is planned beside them."""
    most_replicas: float = INF
    """How many replicas a broker may have; inf is no limit."""
    band: float = BAND
    limits: Limits = NO_LIMITS

    @property
    def old(self) -> tuple[int, ...]:
        """Return the brokers that are to be replaced."""
        return tuple(old for old, _ in self.replace)

    @property
    def new(self) -> tuple[int, ...]:
        """Return the brokers that take their places."""
        return tuple(new for _, new in self.replace)

    @property
    def leaving(self) -> tuple[int, ...]:
        """Return the brokers that are to hold nothing."""
        return (*self.drain, *self.old)

    @property
    def only_dirs(self) -> bool:
        """Return whether nothing is to move between brokers, only between their log dirs."""
        return self.disks and not (self.balance or self.forces or self.fill or self.leaders_only)

    @property
    def forces(self) -> bool:
        """Return whether something has to move, however even brokers are."""
        return bool(self.leaving or self.racks_only or self.replicas is not None)


def chosen(state: ClusterState, wanted: Wanted) -> Bool:
    """Return the partitions of the topics that are asked for, those to keep among them."""
    names = [topic.name for topic in state.topics]
    only = set(names)
    if wanted.topics and names:
        only = set(matching(wanted.topics, "--topics", names, "topic"))
    return np.array([name in only for name in names], np.bool_)[state.topic_of]


def to_keep(state: ClusterState, wanted: Wanted) -> Bool:
    """Return the partitions of topics to keep."""
    keep = pattern(wanted.keep, "--keep") if wanted.keep else None
    names = (topic.name for topic in state.topics)
    found = [keep is not None and keep.fullmatch(name) is not None for name in names]
    return np.array(found, np.bool_)[state.topic_of]


def probed(state: ClusterState) -> Bool:
    """Return the partitions that clients are probed on: each lies where it is to be."""
    found = [topic.name.startswith(PROBE_TOPIC) for topic in state.topics]
    return np.array(found, np.bool_)[state.topic_of]


def _held_by(state: ClusterState, brokers: Collection[int]) -> Bool:
    """Return the partitions with a replica on one of these brokers."""
    held = np.zeros(state.partition_count, np.bool_)
    held[state.partition_of_replica[np.isin(state.replica_broker, [*brokers])]] = True
    return held


def untouched(state: ClusterState, wanted: Wanted) -> Bool:
    """Return the partitions that must not be touched: by their topics, their own names, a plan."""
    left = ~chosen(state, wanted) | to_keep(state, wanted)
    if len(left) and left.all():
        raise UsageError(
            "No topic is left to plan for.", next="Check the patterns of --topics and --keep."
        )
    left |= probed(state) & ~_held_by(state, wanted.leaving)
    named = (*wanted.resting, *(move.tp for move in wanted.kept))
    left[[row for tp in named if (row := state.find(tp)) is not None]] = True
    return left
