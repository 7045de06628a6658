"""PlanRequest: the goal, the limits and the scope that an operator gives the planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import Bool, ClusterState
from core.cluster.topics import PROBE_TOPIC
from core.errors import UsageError
from core.patterns import matching, pattern
from core.plan.effect import BAND
from core.plan.plan import Plan
from core.units import parse_id, parse_ids

if TYPE_CHECKING:
    from core.plan.planner.model.placement import Placement


class Field(Enum):
    """A field of what is wanted; the values are its names on the command line."""

    LEADERS = "--leaders"
    DRAIN = "--drain"
    ADD = "--add"
    REPLACE = "--replace"
    RACKS = "--racks"
    REPLICAS = "--rf"
    BROKERS = "--brokers"
    IGNORE_RACKS = "--ignore-racks"
    DISKS = "--disks"
    BALANCE = "--balance"
    EXCLUDE = "--exclude"
    KEEP = "--keep"
    MAX_BYTES = "--max-bytes"
    MAX_MOVES = "--max-moves"
    MAX_PER_BROKER = "--max-per-broker"
    MAX_REPLICAS = "--max-replicas"
    TIME_BUDGET = "--time-budget"


Names = Mapping[Field, str]
"""What fields are called where somebody reads of them."""

FLAGS: Names = {field: field.value for field in Field}


INF = float("inf")
REPORT_SECONDS = 60e-6
"""How long it takes at most to check a change, to find its reason, and to write it down.

Measured 53 µs of processor time on 200 brokers, closed form of the time and JSON among it."""
ENDED_SECONDS = 0.2
"""How long it takes to end a command, however short its plan is."""
COMPARED_SECONDS = 1.5e-6
"""How long it takes at most to find out whether a partition has changed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan may cost; inf is no limit."""

    max_bytes: float = INF
    max_moves: float = INF
    max_per_broker: float = INF
    """Replicas that any one broker gives away and takes, together."""
    stop: Callable[[], bool] = lambda: False
    """Asked now and then whether to end; the best so far is then the plan."""
    seconds_left: Callable[[], float] = lambda: INF
    """Asked now and then for the time until the plan should have been told, to work with."""

    @property
    def are_set(self) -> bool:
        """Return whether an operator gave any, be it of time."""
        limits = (self.max_bytes, self.max_moves, self.max_per_broker, self.seconds_left())
        return min(limits) < INF

    def time_is_up(self, on: Placement) -> bool:
        """Return whether to end now, so that there is time to tell what has been planned."""
        changes = REPORT_SECONDS * (on.moved + on.leader_changes) + COMPARED_SECONDS * len(on.at)
        needed = ENDED_SECONDS + changes
        return self.stop() or self.seconds_left() < needed

    def reserving(self, part: float) -> Limits:
        """Return these limits with a part of the time that is left kept for what comes after."""
        kept = part * self.seconds_left()
        if kept == INF:
            return self
        return replace(self, seconds_left=lambda: self.seconds_left() - kept)

    def ready(self, on: Placement) -> Bool:
        """Return which brokers may still give or take a replica, shape [B]."""
        return on.part_in < self.max_per_broker

    def reached(self, on: Placement, size_bytes: float, *brokers: int) -> Field | None:
        """Return the limit that keeps one more replica of this size from being copied."""
        if on.moved >= self.max_moves:
            return Field.MAX_MOVES
        if on.moved_bytes + size_bytes > self.max_bytes:
            return Field.MAX_BYTES
        if any(on.part_in[broker] >= self.max_per_broker for broker in brokers):
            return Field.MAX_PER_BROKER
        return Field.TIME_BUDGET if self.time_is_up(on) else None


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class PlanRequest:
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
    frozen: frozenset[TopicPartition] = frozenset()
    """Partitions that are left as they are, whatever their topics."""
    disks: bool = False
    """Even out the log dirs of each broker, once brokers are done as is wanted besides."""
    balance: bool = False
    """Even brokers out, too, where log dirs alone would be."""
    kept: Plan = field(default_factory=Plan)
    """Moves that are planned already, and stay as they are: the rest is planned beside them."""
    max_replicas: float = INF
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


def chosen_partitions(state: ClusterState, request: PlanRequest) -> Bool:
    """Return the partitions of the topics that are asked for, those to keep among them."""
    names = [topic.name for topic in state.topics]
    only = set(names)
    if request.topics and names:
        only = set(matching(request.topics, "--topics", names, "topic"))
    return np.array([name in only for name in names], np.bool_)[state.topic_of]


def kept_partitions(state: ClusterState, request: PlanRequest) -> Bool:
    """Return the partitions of topics to keep."""
    keep = pattern(request.keep, "--keep") if request.keep else None
    names = (topic.name for topic in state.topics)
    is_kept = [keep is not None and keep.fullmatch(name) is not None for name in names]
    return np.array(is_kept, np.bool_)[state.topic_of]


def probe_partitions(state: ClusterState) -> Bool:
    """Return the partitions that clients are probed on: each lies where it is to be."""
    is_probe = [topic.name.startswith(PROBE_TOPIC) for topic in state.topics]
    return np.array(is_probe, np.bool_)[state.topic_of]


def frozen_partitions(state: ClusterState, request: PlanRequest) -> Bool:
    """Return the partitions that must not be touched: by their topics, their own names, a plan."""
    left = ~chosen_partitions(state, request) | kept_partitions(state, request)
    if len(left) and left.all():
        raise UsageError(
            "No topic is left to plan for.", next="Check the patterns of --topics and --keep."
        )
    held = np.zeros(state.partition_count, np.bool_)
    held[state.partition_of_replica[np.isin(state.replica_broker, request.leaving)]] = True
    left |= probe_partitions(state) & ~held
    named = (*request.frozen, *(move.tp for move in request.kept))
    left[[row for tp in named if (row := state.find(tp)) is not None]] = True
    return left


def parse_broker_ids(text: str | None, name: str) -> tuple[int, ...]:
    """Return the brokers of `3,4`, each once; nothing for nothing."""
    try:
        return tuple(dict.fromkeys(parse_ids(text))) if text else ()
    except UsageError as error:
        raise UsageError(
            f"{name} {text}: not broker ids.", next=f"Write them like {name} 3,4."
        ) from error


def parse_broker_pairs(text: str | None, name: str) -> tuple[tuple[int, int], ...]:
    """Return the pairs of `3:7,4:8`, old before new; nothing for nothing."""
    try:
        pairs = [part.split(":") for part in text.split(",")] if text else []
        return tuple((parse_id(old), parse_id(new)) for old, new in pairs)
    except (UsageError, ValueError) as error:
        raise UsageError(
            f"{name} {text}: not a pair of broker ids.", next=f"Write it like {name} 3:7."
        ) from error
