"""Swapping replicas between two brokers, where no single one that moves helps any more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.cluster.state import Bool, Int64
from core.load.load import Float64
from core.plan.planner.model.measures import Measure
from core.plan.planner.model.placement import TINY, Placement
from core.plan.planner.model.racks import barred
from core.plan.planner.plan_request import Limits
from core.plan.planner.search.replica_moves import (
    DESTINATIONS,
    EVERY_MOVE,
    MIN_GAIN,
    ReplicaItems,
)

MAX_PAIRS, MAX_COMPARISONS = 10_000_000, 3_000
"""Pairs of replicas, and of brokers, that are compared in all: large clusters have other ways."""
WORTH = 0.01
"""The part of what is outside the band that a swap must bring in: crumbs are not worth copying."""
MAX_REPLICAS = 400
"""Replicas of one broker that are compared with another one's."""


class ReplicaSwaps:
    """One pass of swaps over a placement, for some measures."""

    def __init__(self, placement: Placement, measures: Sequence[Measure], limits: Limits) -> None:
        self._on, self._limits = placement, limits
        self._items = ReplicaItems(placement, measures)
        self._columns, self._band = self._items.columns, self._items.band
        self._pairs = self._comparisons = 0

    def carry_out(self) -> int:
        """Swap until all brokers are within the band, or nothing helps; return how many swaps."""
        on, swaps = self._on, 0
        while self._limits.reached(on, 0.0) is None:
            off = on.off_by(self._columns)
            min_gain = max(WORTH * float((off**2).sum()), MIN_GAIN)
            order = np.argsort(-off.max(axis=1), kind="stable").tolist()
            if not any(self._swap(broker, min_gain) for broker in order if off[broker].any()):
                break
            swaps += 1
        return swaps

    def _swap(self, broker: int, min_gain: float) -> bool:
        """Let a broker swap what helps most for its bytes with any other; return whether it did."""
        if self._pairs > MAX_PAIRS or self._comparisons > MAX_COMPARISONS:
            return False
        on, problem = self._on, self._on.problem
        able = problem.gives & problem.takes & problem.counts
        able &= on.part_in + 2 <= self._limits.max_per_broker  # each gives one and takes one
        if not able[broker]:
            return False
        strain = np.abs(on.loads[:, self._columns] - 1).max(axis=1)
        others = [int(at) for at in np.argsort(-strain, kind="stable") if able[at] and at != broker]
        best = (0.0, -1, -1, -1)
        for other in others[:DESTINATIONS]:
            self._comparisons += 1
            ours, theirs = self._rows(broker, other), self._rows(other, broker)
            if not (len(ours) and len(theirs)):
                continue
            self._pairs += len(ours) * len(theirs)
            score = self._score(broker, other, ours, theirs, min_gain)
            at = int(np.argmax(score))
            if score.flat[at] > best[0]:
                mine, yours = np.unravel_index(at, score.shape)
                best = (float(score.flat[at]), other, int(ours[mine]), int(theirs[yours]))
        _, to, gone, come = best
        if to < 0:
            return False
        on.move(gone, broker, to)
        on.move(come, to, broker)
        return True

    def _rows(self, source: int, to: int) -> Int64:
        """Return the partitions whose replica on `source` may go to a broker, if one comes back."""
        on, problem = self._on, self._on.problem
        rows = np.sort(on.held(source))
        rows = rows[problem.movable[rows]]
        able = ~barred(on.at[rows], source, np.array([to]), problem.racks)[:, 0]
        able &= problem.needs_bytes[rows] <= on.one_room_bytes[to]
        rows = rows[able]
        return rows[:: -(-len(rows) // MAX_REPLICAS) or 1]

    def _score(
        self, source: int, other: int, ours: Int64, theirs: Int64, min_gain: float
    ) -> Float64:
        """Return what each pair [ours, theirs] helps for its bytes, 0 where it must not be."""
        on = self._on
        given, taken = self._items.of(ours, source), self._items.of(theirs, other)
        gain = np.zeros((len(ours), len(theirs)))
        allowed = self._affordable(ours, theirs)
        for broker, sign in ((source, 1.0), (other, -1.0)):
            for k, measure in enumerate(self._columns.tolist()):
                low, high = self._band.low[broker, k], self._band.high[broker, k]
                now = on.loads[broker, measure]
                more = sign * (taken[None, :, k] - given[:, None, k])
                then = now + more * on.per_share[broker, measure]
                gain += max(now - high, low - now, 0.0) ** 2
                gain -= np.maximum(np.maximum(then - high, low - then), 0.0) ** 2
        for measure in on.bound:
            for broker, sign in ((source, 1.0), (other, -1.0)):
                more = self._items.added(theirs, other, measure)[None, :]
                more = sign * (more - self._items.added(ours, source, measure)[:, None])
                then = on.loads[broker, measure] + more * on.per_share[broker, measure]
                worse = (then > on.ceilings[broker, measure] + TINY) & (more > 0)
                allowed &= ~worse
        sizes = on.problem.items[:, Measure.DISK]
        usual = self._items.usual_bytes or 1.0
        cost = sizes[ours][:, None] + sizes[theirs][None, :] + 2 * EVERY_MOVE * usual
        return np.where(allowed & (gain > min_gain), gain / cost, 0.0)

    def _affordable(self, ours: Int64, theirs: Int64) -> Bool:
        on, limits = self._on, self._limits
        sizes = on.problem.items[:, Measure.DISK]
        both = sizes[ours][:, None] + sizes[theirs][None, :]
        affordable = on.moved_bytes + both <= limits.max_bytes
        if limits.max_bytes < np.inf:
            needs = on.problem.needs_bytes
            affordable &= np.isfinite(needs[ours])[:, None] & np.isfinite(needs[theirs])[None, :]
        affordable &= on.moved + 2 <= limits.max_moves
        return np.asarray(affordable, np.bool_)
