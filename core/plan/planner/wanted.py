"""What an operator wants of a plan, and which partitions it lets be touched."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from core.cluster.state import Bool, ClusterState, TopicPartition
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


def untouched(state: ClusterState, wanted: Wanted) -> Bool:
    """Return the partitions that must not be touched: by their topics, their own names, a plan."""
    names = [topic.name for topic in state.topics]
    keep = pattern(wanted.keep, "--keep") if wanted.keep else None
    only = set(names)
    if wanted.topics and names:
        only = set(matching(wanted.topics, "--topics", names, "topic"))
    touched = np.array(
        [name in only and not (keep is not None and keep.fullmatch(name)) for name in names],
        np.bool_,
    )
    if len(names) and not touched.any():
        raise UsageError(
            "No topic is left to plan for.", next="Check the patterns of --topics and --keep."
        )
    left = ~touched[state.topic_of]
    named = (*wanted.resting, *(move.tp for move in wanted.kept))
    left[[row for tp in named if (row := state.find(tp)) is not None]] = True
    return left
