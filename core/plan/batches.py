"""Batches: which moves of a plan are submitted together, and in which order.

Pure. Small batches in a good order end early where it helps, and what is huge holds nobody up
(docs/explanation/runs.md); when the next one may begin is batch_schedule's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.cluster.metadata import Broker
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan import move_order
from core.plan.copies import (
    PARTITION_FETCH_BYTES,
    PARTITIONS_A_FETCH,
    BrokerSide,
    Copy,
    PlanCopies,
    Side,
    build_copies,
)
from core.plan.disk_space import disks_of, free_bytes
from core.plan.plan import Plan
from core.units import UNLIMITED

MAX_MOVES = 200
MIN_SECONDS = 30.0
"""What the busiest broker copies in a batch, at least: shorter ones cost more than they bring."""
PARTS = 20
"""Into about how many batches a long run is cut."""
LINK_BYTES_PER_S = 100e6
"""What a broker is taken to copy where nothing limits it."""
QUIET_SECONDS = 4.0
"""So long after its first byte a destination may have got this many seconds of its rate."""
BACKGROUND_SHARE = 0.3
"""Of a rate for what is produced to a batch's partitions meanwhile: all of it, and none ends."""
FREE_SHARE = 0.45
"""Of a destination's free disk for one batch; two are in flight at a time."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Indices of a plan's moves, batch by batch; `long` ones take longer than their batch."""

    batches: tuple[tuple[int, ...], ...]
    long: frozenset[int]


@dataclass(frozen=True, slots=True)
class BatchInput:
    """A plan at any rate: moves without data, those `within` brokers' log dirs, then `ordered`."""

    brokers: tuple[Broker, ...]
    costs: tuple[_Cost, ...]
    quick: tuple[int, ...]
    within: tuple[int, ...]
    ordered: tuple[int, ...]

    @classmethod
    def of(
        cls, state: ClusterState, load: Load, plan: Plan, what: PlanCopies | None = None
    ) -> BatchInput:
        """Return the work of a plan; `what` is its copies, if they are known already."""
        costs = _costs(plan, what or build_copies(state, load, plan))
        sizes = [cost.total_bytes for cost in costs]
        order = move_order.order_moves(state, load, plan, sizes)
        return cls(
            state.brokers,
            costs,
            tuple(i for i, move in enumerate(plan) if not move.receiving),
            tuple(i for i, move in enumerate(plan) if move.receiving and not move.moves_data),
            tuple(i for i in order if plan.moves[i].moves_data),
        )

    def in_batches(
        self,
        *,
        rate_bytes_per_s: int,
        first_bytes_per_s: int | None = None,
        max_moves: int = MAX_MOVES,
        max_extra_bytes: int | None = None,
    ) -> Batches:
        """Return every move of the plan in exactly one batch.

        Moves without data come first, then those between log dirs, for which nothing waits. Then,
        most relief of the worst broker for a byte first, each batch takes what all broker sides
        copy in about the same time. `max_extra_bytes` bounds what a destination gets in one batch
        (a larger move goes there alone), as its free disk does. `first_bytes_per_s` is the rate
        that the run begins with, if that is another one.
        """
        if max_moves < 1 or (rate_bytes_per_s < 1 and rate_bytes_per_s != UNLIMITED):
            raise ValueError("batches need at least one move each, and a rate")
        rate, quiet = float(rate_bytes_per_s), float(first_bytes_per_s or rate_bytes_per_s)
        if rate_bytes_per_s == UNLIMITED:
            rate, quiet = LINK_BYTES_PER_S, math.inf
        sides: defaultdict[BrokerSide, float] = defaultdict(float)
        for cost in self.costs:
            for side, size in cost.sides.items():
                sides[side] += size
        whole_seconds = max(sides.values(), default=0.0) / rate
        parts = max(1.0, min(PARTS, whole_seconds / MIN_SECONDS), len(self.ordered) / max_moves)
        packing = _Packing(
            self.costs,
            rate,
            max(whole_seconds / parts, 1.0),
            max_moves,
            _rooms(self.brokers, max_extra_bytes),
            quiet=quiet,
        )
        first = [
            indices[at : at + max_moves]
            for indices in (self.quick, self.within)
            for at in range(0, len(indices), max_moves)
        ]
        packed = packing.pack(self.ordered, math.ceil(parts))
        return Batches((*first, *packed), packing.long | frozenset(self.within))


@dataclass(frozen=True, slots=True)
class _Cost:
    copies: tuple[Copy, ...] = ()
    size_bytes: float = 0.0
    sides: Mapping[BrokerSide, float] = field(default_factory=dict)
    background: Mapping[BrokerSide, float] = field(default_factory=dict)
    """Ordinary replication of the partition in each side's quota, bytes/s."""

    @property
    def total_bytes(self) -> float:
        return self.size_bytes * len(self.copies)

    @property
    def busiest_bytes(self) -> float:
        return max(self.sides.values(), default=0.0)


def _costs(plan: Plan, what: PlanCopies) -> tuple[_Cost, ...]:
    """Return each move's cost; one whose size is not known counts as the mean of the others."""
    unknown = set(what.sizes_unknown)
    known = [copy.size_bytes for copy in what.copies if copy.tp not in unknown]
    usual = sum(known) / len(known) if known else 0.0
    by_partition: defaultdict[tuple[str, int], list[Copy]] = defaultdict(list)
    for copy in what.copies:
        by_partition[copy.tp].append(copy)
    costs = []
    for move in plan:
        copies = tuple(by_partition[move.tp])
        if move.tp in unknown:
            copies = tuple(replace(copy, size_bytes=usual) for copy in copies)
        loads = PlanCopies(copies, {}).side_loads
        costs.append(
            _Cost(
                copies,
                max((copy.size_bytes for copy in copies), default=0.0),
                {side: load.bytes for side, load in loads.items()},
                {side: load.background for side, load in loads.items()},
            )
        )
    return tuple(costs)


def _rooms(brokers: Iterable[Broker], max_extra_bytes: int | None) -> dict[int, float]:
    """Return what each broker may get in one batch; infinity where its free disk is not known."""
    max_bytes = math.inf if max_extra_bytes is None else float(max_extra_bytes)
    rooms = {}
    for broker in brokers:
        free = free_bytes(disks_of(broker.log_dirs))
        rooms[broker.id] = max_bytes if free is None else min(max_bytes, free * FREE_SHARE)
    return rooms


@dataclass(slots=True)
class _Batch:
    moves: list[int] = field(default_factory=list)
    sides: defaultdict[BrokerSide, float] = field(default_factory=lambda: defaultdict(float))
    background: defaultdict[BrokerSide, float] = field(default_factory=lambda: defaultdict(float))
    fetch: defaultdict[int, defaultdict[int, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    """What the first fetches of a destination from each of its leaders bring."""


class _Packing:
    """Takes moves in order into batches whose broker sides all end at about the same time."""

    def __init__(
        self,
        costs: Sequence[_Cost],
        rate: float,
        seconds: float,
        max_moves: int,
        rooms: dict[int, float],
        *,
        quiet: float,
    ) -> None:
        self._costs, self._rate, self._max_moves, self._rooms = costs, rate, max_moves, rooms
        self._budget = rate * seconds
        self._max_background = math.inf if math.isinf(quiet) else rate * BACKGROUND_SHARE
        self._quiet = quiet
        self._came: defaultdict[int, float] = defaultdict(float)
        self.long = frozenset(i for i, c in enumerate(costs) if c.busiest_bytes > self._budget)

    def pack(self, ordered: Sequence[int], expected: int) -> list[tuple[int, ...]]:
        """Return batches of all of `ordered`; about `expected` of them are needed at least.

        Long moves start when only twice their own time is left, though it be not their turn.
        """
        latest = {
            i: max(0, expected - 2 * math.ceil(self._costs[i].busiest_bytes / self._budget))
            for i in ordered
            if i in self.long
        }
        left = list(ordered)
        batches: list[tuple[int, ...]] = []
        while left:
            batch = _Batch()
            self._take(batch, left[0])
            due = sorted(
                (i for i, begin in latest.items() if begin <= len(batches)),
                key=lambda i: (-self._costs[i].busiest_bytes, i),
            )
            for i in due:
                if i != left[0] and self._fits(batch, i, urgent=True):
                    self._take(batch, i)
            started = set(batch.moves)
            kept: list[int] = []
            for place, i in enumerate(left):
                if len(batch.moves) >= self._max_moves:
                    kept.extend(i for i in left[place:] if i not in started)
                    break
                if i not in started and self._fits(batch, i):
                    self._take(batch, i)
                elif i not in started:
                    kept.append(i)
            left = kept
            for i in batch.moves:
                latest.pop(i, None)
                for copy in self._costs[i].copies:
                    self._came[copy.destination] += self._costs[i].size_bytes
            batches.append(tuple(batch.moves))
        return batches

    def _take(self, batch: _Batch, index: int) -> None:
        cost = self._costs[index]
        batch.moves.append(index)
        for side, size in cost.sides.items():
            batch.sides[side] += size
            batch.background[side] += cost.background[side]
        for copy in cost.copies:
            batch.fetch[copy.destination][copy.leader] += min(
                cost.size_bytes, PARTITION_FETCH_BYTES
            )

    def _fits(self, batch: _Batch, index: int, *, urgent: bool = False) -> bool:
        if len(batch.moves) >= self._max_moves:
            return False
        cost = self._costs[index]
        for side, size in cost.sides.items():
            used = batch.sides.get(side, 0.0)
            if not used:
                continue
            if used + size > self._budget and not urgent:
                return False
            if side.side is Side.FOLLOWER and used + size > self._rooms.get(side.broker, math.inf):
                return False
            background = cost.background[side]
            if background and batch.background[side] + background > self._max_background:
                return False
        return all(self._fits_first_fetches(batch, cost, copy) for copy in cost.copies)

    def _fits_first_fetches(self, batch: _Batch, cost: _Cost, copy: Copy) -> bool:
        """Return whether a destination's first fetches bring no more than a second's rate.

        They come at once, from each leader up to 1 MiB a partition and 10 MiB in all; a destination
        that has had its first seconds' worth is held by its quota.
        """
        broker = copy.destination
        if self._came[broker] >= QUIET_SECONDS * self._quiet or math.isinf(self._quiet):
            return True
        max_bytes = float(PARTITIONS_A_FETCH * PARTITION_FETCH_BYTES)
        if broker not in batch.fetch:
            return True
        fetch = dict(batch.fetch[broker])
        fetch[copy.leader] = fetch.get(copy.leader, 0.0) + min(
            cost.size_bytes, PARTITION_FETCH_BYTES
        )
        return sum(min(size, max_bytes) for size in fetch.values()) <= self._quiet
