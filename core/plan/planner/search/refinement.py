"""Polishing a plan: needless moves are taken back, and small clusters leave dead ends. Pure.

Moving and swapping go from better to better, and may end where only two steps at once help: one
large replica for two small ones. A tabu search (Glover 1989) makes the step that does least harm,
does not take it back for a while, and keeps the best that it has come by. It never copies more
than limits, disks, capacities and racks allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np

from core.cluster.state import Bool, Int32, Int64
from core.load.load import Float64
from core.plan.planner.model.measures import LEADER_MEASURES, MEASURES, NOBODY, Measure
from core.plan.planner.model.placement import TINY, Placement, not_in
from core.plan.planner.model.racks import barred
from core.plan.planner.plan_request import Limits

MAX_CHOICES = 6_000
"""Replicas times brokers that one step compares: larger clusters have other ways."""
MAX_CHANGED = 2_000
"""Partitions of a plan that are asked whether they could stay: larger plans are left alone."""
MAX_PAIRED = 40
"""Those of which two are asked at once."""
MAX_STEPS = 400
PATIENCE = 60
"""Steps since the best so far, at most."""
TENURE = 3, 12
"""For how many steps a partition stays where one has brought it: drawn, or steps go in circles."""
WORTH = 0.01
"""The part of what is outside the band that a detour must bring in."""
LOOK_EVERY = 256
"""So many changes are asked about between two looks at the clock: each takes 0.1 ms."""
SAME = 1e-12
"""What squared distances from the band may differ by and be the same."""

Item = TypeVar("Item")
_LEADER_COLUMNS = np.isin(np.arange(MEASURES), LEADER_MEASURES)


def escape_dead_end(on: Placement, limits: Limits) -> None:
    """Search on where brokers of a small cluster are outside the band, and take what is better."""
    if on.at.size * on.problem.brokers > MAX_CHOICES:
        return
    search = _Search(on, limits)
    if search.off() > 0 and search.carry_out():
        on.rearrange(search.best_at)


def revert_needless(on: Placement, limits: Limits) -> None:
    """Take back what the plan changes and no broker needs, for how even all of them are."""
    search = _Search(on, limits)
    if search.take_back():
        on.rearrange(search.at)


@dataclass(frozen=True, slots=True)
class _Step:
    """Partition `row` changes: its replica at `place` goes to broker `to`, or leads if `leads`."""

    off: float
    bytes: float
    row: int
    place: int
    to: int
    leads: bool


class _Search:
    """Assignments `at` [P, W] that change step by step, and what brokers carry by them."""

    def __init__(self, on: Placement, limits: Limits) -> None:
        self._on, self._limits, self._given = on, limits, on.problem
        given = on.problem
        self.at: Int32 = on.at.copy()
        self._every = np.arange(given.brokers)
        self._loads = on.loads.copy()
        band, ceilings = given.band, on.ceilings
        self._high = np.minimum(1 + band, ceilings)
        self._low = np.minimum(1 - band, ceilings)
        idle = ~given.counts[:, None] | ~given.active[None, :]
        self._high[idle], self._low[idle] = np.inf, -np.inf
        self._sizes = np.where(np.isfinite(given.needs_bytes), given.items[:, Measure.DISK], np.inf)
        self.best_at: Int32 = self.at

    def off(self) -> float:
        """Return how far from the band all brokers are, squared."""
        return float(self._off(self._loads, self._every).sum())

    def _off(self, loads: Float64, brokers: int | Int64) -> Float64:
        """Return the same of some brokers by their loads, the last axis of which is measures."""
        return np.asarray((self._deviation(loads, brokers) ** 2).sum(axis=-1))

    def _deviation(self, loads: Float64, brokers: int | Int64) -> Float64:
        """Return by how much some brokers are outside, in the shape of their loads."""
        low, high = self._low[brokers], self._high[brokers]
        return np.asarray(np.maximum(np.maximum(loads - high, low - loads), 0.0))

    def carry_out(self) -> bool:
        """Search; return whether `best_at` is better than what there was."""
        start = best = self.off()
        best_bytes, max_outside = self._copied(), self._deviation(self._loads, self._every).sum()
        kept_until = np.zeros(len(self.at), np.int64)
        since, random = 0, np.random.default_rng(0)
        for turn in range(1, MAX_STEPS):
            if best <= 0.0 or since > PATIENCE or self._limits.time_is_up(self._on):
                break
            step = self._best_step(kept_until >= turn)
            if step is None:
                break
            row = self.at[step.row].copy()
            if step.leads:
                row[0], row[step.place] = row[step.place], row[0]
            else:
                row[step.place] = step.to
            self._set(step.row, row)
            kept_until[step.row] = turn + int(random.integers(*TENURE))
            since += 1
            now, copied = self.off(), self._copied()
            better = now < best - SAME or (now < best + SAME and copied < best_bytes)
            if better and self._deviation(self._loads, self._every).sum() <= max_outside:
                best, best_bytes, self.best_at, since = now, copied, self.at.copy(), 0
        return best < (1 - WORTH) * start

    def _best_step(self, kept: Bool) -> _Step | None:
        """Return the step that leads nearest to the band, of equals the one with fewest bytes."""
        steps: list[_Step] = []
        for source in np.flatnonzero(self._given.gives).tolist():
            steps += self._best_move_from(source, kept)
        steps += self._leaders(kept)
        return min(
            steps,
            key=lambda step: (round(step.off, 12), step.bytes, step.row, step.place, step.to),
            default=None,
        )

    def _best_move_from(self, source: int, kept: Bool) -> list[_Step]:
        """Return the best move of a broker's replica, if there is any."""
        given, on = self._given, self._on
        rows, places = np.nonzero(self.at == source)
        able = given.movable[rows] & ~kept[rows] & np.isfinite(self._sizes[rows])
        rows, places = rows[able], places[able]
        to = np.flatnonzero(given.takes & given.counts)
        to = to[to != source]
        if not (len(rows) and len(to)):
            return []
        is_leader_column = _LEADER_COLUMNS[None, :] & (places > 0)[:, None]
        items = np.where(is_leader_column, 0.0, given.items[rows])
        here = self._loads[source] - items * on.per_share[source]
        there = self._loads[to][:, None, :] + items[None] * on.per_share[to][:, None, :]
        allowed = ~barred(self.at[rows], source, to, given.racks).T  # [to, rows]
        allowed &= self._affordable(source, rows, to)
        for measure in on.bound:
            more = there[:, :, measure] > on.ceilings[to, measure][:, None] + TINY
            allowed &= ~(more & (items[:, measure] > 0)[None, :])
        if not allowed.any():
            return []
        before = self._off(self._loads, self._every)
        off = self._off(here, source)[None, :] + self._off(there, to[:, None])
        off += before.sum() - before[source] - before[to][:, None]
        more = self._more_bytes(source, rows, to)
        off[~allowed] = np.inf
        nearest = off <= off.min() + SAME
        at = int(np.argmin(np.where(nearest, more, np.inf)))
        d, r = np.unravel_index(at, off.shape)
        row, place = int(rows[r]), int(places[r])
        return [_Step(float(off[d, r]), float(more[d, r]), row, place, int(to[d]), False)]

    def _affordable(self, source: int, rows: Int64, to: Int64) -> Bool:
        """Return which replicas of `source` may go where, by disks and limits, [to, rows]."""
        on, limits = self._on, self._limits
        came = self._came()
        sizes, back = self._sizes[rows], self._is_original(rows, to)
        new_bytes = self._given.items[:, Measure.DISK]
        room = self._given.room_bytes - _sum_by_broker(self.at, came, new_bytes, on.problem.brokers)
        room = np.minimum(room, self._given.largest_bytes)[to][:, None]
        allowed = back | (sizes[None, :] <= room)
        more = self._more_bytes(source, rows, to)
        allowed &= (more <= 0) | (self._copied() + more <= limits.max_bytes)
        from_first = self._is_original(rows, np.array([source]))
        moves = np.where(back, 0, 1) - ~from_first
        allowed &= (moves <= 0) | (came.sum() + moves <= limits.max_moves)
        if limits.max_per_broker < np.inf:
            ones, brokers = np.ones(len(self.at)), on.problem.brokers
            parts = _sum_by_broker(self.at, came, ones, brokers)
            first = self._given.replicas
            parts += _sum_by_broker(first, not_in(first, self.at), ones, brokers)
            ready = parts < limits.max_per_broker
            # What comes back gives `to` a change less; only what was held first is given away.
            allowed &= back | ready[to][:, None]
            allowed &= ready[source] | ~from_first
        return np.asarray(allowed, np.bool_)

    def _more_bytes(self, source: int, rows: Int64, to: Int64) -> Float64:
        """Return what more is copied in all if replicas of `source` go to others, [to, rows]."""
        sizes = self._sizes[rows]
        before = np.where(self._is_original(rows, np.array([source])), 0.0, sizes)
        return np.asarray(np.where(self._is_original(rows, to), 0.0, sizes) - before)

    def _is_original(self, rows: Int64, brokers: Int64) -> Bool:
        """Return which brokers held partitions before the plan, [brokers, rows]."""
        held = self._given.replicas[rows][None] == brokers[:, None, None]
        return np.asarray(held.any(axis=2), np.bool_)

    def _leaders(self, kept: Bool) -> list[_Step]:
        """Return the best change of a leader among the replicas that there are, if any."""
        steps: list[_Step] = []
        on, given = self._on, self._given
        before = self._off(self._loads, self._every)
        for place in range(1, self.at.shape[1]):
            # New replicas can lead, old ones as it was.
            same = given.replicas == self.at[:, place][:, None]
            able = (same & given.may_lead).any(axis=1) | ~same.any(axis=1)
            able &= given.movable & ~kept & (self.at[:, place] != NOBODY)
            able &= given.counts[self.at[:, 0]] & given.counts[self.at[:, place]]
            rows = np.flatnonzero(able)
            if not len(rows):
                continue
            old, new = self.at[rows, 0], self.at[rows, place]
            items = given.items[rows] * _LEADER_COLUMNS
            here = self._loads[old] - items * on.per_share[old]
            there = self._loads[new] + items * on.per_share[new]
            off = self._off(here, old) + self._off(there, new)
            off += before.sum() - before[old] - before[new]
            over = (there > on.ceilings[new] + TINY) & (items > 0)
            off[over.any(axis=1)] = np.inf
            at = int(np.argmin(off))
            if np.isfinite(off[at]):
                row = int(rows[at])
                steps.append(_Step(float(off[at]), 0.0, row, place, int(new[at]), True))
        return steps

    def take_back(self) -> int:
        """Take back, largest first, what changes no broker for the better; return how many.

        In a plan of few changes also two at once, of which one only makes up for the other.
        """
        given = self._given
        changed = (self.at != given.replicas).any(axis=1) & given.movable
        staying = np.append(given.takes & given.counts, True)  # NOBODY is no obstacle
        changed &= staying[self.at].all(axis=1) & staying[given.replicas].all(axis=1)
        rows = np.flatnonzero(changed)
        if not 0 < len(rows) <= MAX_CHANGED:
            return 0
        copied = self._came()[rows].sum(axis=1) * given.items[rows, Measure.DISK]
        ordered = rows[np.argsort(-copied, kind="stable")].tolist()
        left = [row for row in self._in_time(ordered) if not self._try_revert(row)]
        if len(left) <= MAX_PAIRED:
            for pair in self._in_time(combinations(left, 2)):
                if all((self.at[row] != given.replicas[row]).any() for row in pair):
                    self._try_revert(*pair)
        return sum(bool((self.at[row] == given.replicas[row]).all()) for row in ordered)

    def _in_time(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items for as long as there is time, which is looked at now and then."""
        for number, item in enumerate(items):
            if number % LOOK_EVERY == 0 and self._limits.time_is_up(self._on):
                return
            yield item

    def _try_revert(self, *rows: int) -> bool:
        """Put partitions back where they were, unless that makes a broker worse."""
        off, over = self._deviation(self._loads, self._every), self._over()
        was = [self.at[row].copy() for row in rows]
        for row in rows:
            self._set(row, self._given.replicas[row])
        now = self._deviation(self._loads, self._every)
        if (now <= off + TINY).all() and self._over() <= over + TINY:
            return True
        for row, brokers in zip(rows, was, strict=True):
            self._set(row, brokers)
        return False

    def _over(self) -> float:
        """Return by how much brokers are above what they may carry."""
        return float(np.maximum(self._loads - self._on.ceilings, 0.0).sum())

    def _set(self, row: int, brokers: Int32) -> None:
        for sign, held in ((-1.0, self.at[row]), (1.0, brokers)):
            items = sign * self._given.items[row]
            for place, broker in enumerate(held.tolist()):
                if broker != NOBODY:
                    amounts = np.where(_LEADER_COLUMNS, 0.0, items) if place else items
                    self._loads[broker] += amounts * self._on.per_share[broker]
        self.at[row] = brokers

    def _came(self) -> Bool:
        """Return which replicas are new where they are, [P, W]."""
        return not_in(self.at, self._given.replicas)

    def _copied(self) -> float:
        return float(self._came().sum(axis=1) @ self._given.items[:, Measure.DISK])


def _sum_by_broker(at: Int32, mask: Bool, values: Float64, brokers: int) -> Float64:
    """Return the sum of partitions' values for the brokers of some of their replicas, [B]."""
    rows, places = np.nonzero(mask)
    return np.asarray(np.bincount(at[rows, places], values[rows], brokers), np.float64)
