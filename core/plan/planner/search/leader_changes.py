"""Choosing preferred leaders among the replicas that there are: nothing is copied for it.

Greedy: the broker that is furthest off gives leadership away, or takes it, where both ends gain
most. A small pull towards the fair share lets leadership flow through brokers that are fine. Out of
a dead end, the change that does least harm leads on, and is not taken back for a while (tabu
search: Glover 1989); only what has become better by it stays.
"""

from __future__ import annotations

import numpy as np

from core.cluster.state import Bool, Int64
from core.load.load import Float64
from core.plan.planner.model.measures import LEADER_MEASURES, NOBODY
from core.plan.planner.model.placement import Placement
from core.plan.planner.plan_request import NO_LIMITS, Limits
from core.plan.planner.search.load_bounds import MARGIN, edge_of

PULL = 0.01
"""What a distance from the fair share weighs beside the same distance from the band."""
MIN_CHANGES = 6
"""Changes that one look may make, at a broker that holds few replicas."""
PART = 128
"""At one that holds many: one in so many."""
STILL = 0.5
MIN_GAIN = 1e-15
MAX_ROUNDS = 60
"""Looks at each broker, at most, before what is left must be left."""
MAX_DETOUR = 60
"""Changes for each broker, at most, that may lead out of a dead end."""
PATIENCE = 12
"""And since one of them was the best so far."""
MAX_DETOUR_ROWS = 2_000_000
"""And partitions that are looked at for it: large clusters have other ways."""
TENURE = 12
"""For so many changes a partition's leader stays, once it was changed there."""

Change = tuple[float, int, int]
"""What is gained, which partition, which place becomes the first."""


def balance_leaders(
    placement: Placement, limits: Limits = NO_LIMITS, *, only: Bool | None = None
) -> int:
    """Change preferred leaders until all brokers are within the band, or nothing helps.

    Of the limits only time counts: no leader costs a byte or a move. With `only` [B] these brokers
    alone come to lead what need not change its leader.
    """
    columns = np.array([m for m in LEADER_MEASURES if placement.problem.active[m]], np.int64)
    return _LeaderChanges(placement, columns, limits, only).carry_out() if len(columns) else 0


class _LeaderChanges:
    def __init__(
        self, placement: Placement, columns: Int64, limits: Limits, only: Bool | None
    ) -> None:
        self._on, self._columns, self._limits, self._only = placement, columns, limits, only
        self._changes = placement.at[:, 0] != placement.problem.replicas[:, 0]
        """Of which partitions the leader changes anyway."""
        self._items = placement.problem.items[:, columns]
        self._per_share = placement.per_share[:, columns]
        edge = edge_of(placement.problem.band)
        ceilings = placement.ceilings[:, columns] - MARGIN
        self._above, self._below = np.minimum(edge, ceilings - 1), np.maximum(edge, 1 - ceilings)
        """How far above and below its share each broker may be, shape [B, measures]."""

    def carry_out(self) -> int:
        on, changed = self._on, 0
        is_exhausted = np.zeros(on.problem.brokers, np.bool_)
        for _ in range(MAX_ROUNDS * on.problem.brokers):
            off = on.off_by(self._columns)
            if not off.any() or self._limits.time_is_up(on):
                return changed
            strain = np.abs(on.loads[:, self._columns] - 1).max(axis=1)
            worst = np.where(
                is_exhausted | ~on.problem.counts, -np.inf, off.max(axis=1) + 1e-3 * strain
            )
            broker = int(np.argmax(worst))
            if not np.isfinite(worst[broker]):
                break
            took = self._change(broker)
            is_exhausted[broker] = not took
            if took:
                is_exhausted[:] = False
            changed += took
        return changed + self._escape_dead_end()

    def _escape_dead_end(self) -> int:
        """Go on from a dead end, over what is worse for a moment; return how many changes stay."""
        on, brokers = self._on, self._on.problem.brokers
        kept_until = np.zeros(len(on.at), np.int64)
        since_best: list[tuple[int, int]] = []
        best, looked, changed = self._off(), 0, 0
        for turn in range(1, MAX_DETOUR * brokers):
            if best <= 0.0 or looked > MAX_DETOUR_ROWS or self._limits.time_is_up(on):
                break
            if len(since_best) > PATIENCE * brokers:
                break
            off = on.off_by(self._columns).max(axis=1)
            changes: list[Change] = []
            for broker in np.argsort(-off, kind="stable").tolist():
                if off[broker] <= 0.0 or changes:
                    break
                rows = on.held(broker)
                rows = rows[on.problem.movable[rows] & (kept_until[rows] < turn)]
                looked += len(rows)
                leads = on.at[rows, 0] == broker
                changes = self._given(rows[leads], broker, 1, -np.inf)
                changes += self._taken(rows[~leads], broker, 1, -np.inf)
            if not changes:
                break
            _, partition, place = min(
                changes, key=lambda change: (-change[0], change[1], change[2])
            )
            on.lead(partition, place)
            kept_until[partition] = turn + TENURE
            since_best.append((partition, place))
            if (now := self._off()) < best - MIN_GAIN:
                best, changed = now, changed + len(since_best)
                since_best.clear()
        for partition, place in reversed(since_best):
            on.lead(partition, place)
        return changed

    def _off(self) -> float:
        return float((self._on.off_by(self._columns) ** 2).sum())

    def _change(self, broker: int) -> int:
        on = self._on
        rows = on.held(broker)
        rows = rows[on.problem.movable[rows]]
        leads = on.at[rows, 0] == broker
        max_changes = max(MIN_CHANGES, len(rows) // PART)
        changes = [
            *self._given(rows[leads], broker, 2 * max_changes),
            *self._taken(rows[~leads], broker, 2 * max_changes),
        ]
        changes.sort(key=lambda change: (-change[0], change[1], change[2]))
        took = 0
        for gain, partition, place in changes:
            old, new = int(on.at[partition, 0]), int(on.at[partition, place])
            if took and self._gain(np.array([partition]), old, new)[0] < STILL * gain:
                continue
            on.lead(partition, place)
            took += 1
            if took >= max_changes:
                break
        return took

    def _given(self, rows: Int64, broker: int, count: int, above: float = MIN_GAIN) -> list[Change]:
        on, changes = self._on, []
        for place in range(1, on.at.shape[1]):
            able = rows[self._may_lead(rows, place) & on.problem.counts[on.at[rows, place]]]
            gains = self._gain(able, broker, on.at[able, place])
            top = _top(gains, count, above)
            changes += [(float(gains[i]), int(able[i]), place) for i in top]
        return changes

    def _taken(self, rows: Int64, broker: int, count: int, above: float = MIN_GAIN) -> list[Change]:
        on = self._on
        if not len(rows):
            return []
        places = np.argmax(on.at[rows] == broker, axis=1)
        first = on.at[rows, 0]
        able = self._may_lead(rows, places) & (first != NOBODY) & on.problem.counts[first]
        rows, places = rows[able], places[able]
        gains = self._gain(rows, on.at[rows, 0], broker)
        top = _top(gains, count, above)
        return [(float(gains[i]), int(rows[i]), int(places[i])) for i in top]

    def _may_lead(self, rows: Int64, places: int | Int64) -> Bool:
        on = self._on
        able = on.may_lead[rows, places]
        if self._only is not None:
            able &= self._only[on.at[rows, places]] | self._changes[rows]
        return np.asarray(able, np.bool_)

    def _gain(self, rows: Int64, old: int | np.ndarray, new: int | np.ndarray) -> Float64:
        on, columns = self._on, self._columns
        items = self._items[rows]
        gain = np.zeros(len(rows))
        for broker, sign in ((old, -1.0), (new, 1.0)):
            now = np.atleast_2d(on.loads[broker][..., columns])
            then = now + sign * items * np.atleast_2d(self._per_share[broker])
            gain += (self._distance(now, broker) - self._distance(then, broker)).sum(axis=1)
        for measure in on.bound:
            if measure in LEADER_MEASURES:
                # Some flows through brokers that are fine: headroom is what they are led back to.
                to = np.broadcast_to(new, len(rows))
                more = on.problem.items[rows, measure] * on.per_share[to, measure]
                can = on.problem.capacity[to, measure] * on.per_share[to, measure]
                gain[more > np.maximum(can - on.loads[to, measure], 0.0)] = -np.inf
        return gain

    def _distance(self, loads: Float64, broker: int | np.ndarray) -> Float64:
        off = np.maximum(loads - 1 - self._above[broker], 1 - loads - self._below[broker])
        np.maximum(off, 0.0, out=off)
        return np.asarray(off * off + PULL * (loads - 1) ** 2)


def _top(gains: Float64, count: int, above: float) -> list[int]:
    order = np.argsort(-gains, kind="stable")[:count]
    return [int(i) for i in order if gains[i] > above]
