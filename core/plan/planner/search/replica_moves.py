"""Moving replicas until brokers carry what they should, with the fewest bytes.

Greedy, and the same for the same input: the broker that is furthest off gives the replicas that
help most for what they cost, to those that need it most. A byte that has to be moved anyway costs
nothing, any other costs itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.cluster.state import Bool, Int64
from core.load.load import Float64
from core.plan.planner.model.measures import LEADER_MEASURES, Measure
from core.plan.planner.model.placement import Placement
from core.plan.planner.model.racks import barred
from core.plan.planner.plan_request import Limits
from core.plan.planner.search.load_bounds import LoadBounds, balanced_bounds, neediest

DESTINATIONS = 24
"""Brokers that one look compares as destinations."""
EACH = 16
"""Replicas that one look may give to each of them, where the source has few."""
PART = 32
"""Where it has many: one in so many of those that are looked at."""
MAX_COMPARED = 1024
"""Replicas of the source that one look compares."""
AS_GOOD = 0.7
"""One look takes moves of at least this part of the best one's worth."""
STILL = 0.7
"""What must be left of a move's gain when moves before it have been taken."""
MIN_GAIN = 1e-15
EVERY_MOVE = 0.1
"""What a move costs beside its bytes, in replicas of the usual size."""


class ReplicaItems:
    """What replicas bring to brokers of some measures, as far as these are known: its `columns`."""

    def __init__(self, on: Placement, measures: Sequence[Measure]) -> None:
        self._on = on
        self.measures = [m for m in measures if on.problem.active[m]]
        self.columns = np.array(self.measures, np.int64)
        self._is_leader_measure = np.array([m in LEADER_MEASURES for m in self.measures], np.bool_)
        self._items = on.problem.items[:, self.columns]
        sizes = on.problem.items[:, Measure.DISK]
        self.usual_bytes = float(sizes.sum()) / max(len(sizes), 1)
        self.band = LoadBounds.of(on.problem.band, on.ceilings[:, self.columns])

    def of(self, rows: Int64, source: int) -> Float64:
        """Return what `source`'s replicas of partitions bring wherever they go, [rows, columns]."""
        items: Float64 = self._items[rows]
        if self._is_leader_measure.any():
            items[:, self._is_leader_measure] *= (self._on.at[rows, 0] == source)[:, None]
        return items

    def added(self, rows: Int64, source: int, measure: Measure) -> Float64:
        """Return the same of any one measure."""
        more: Float64 = self._on.problem.items[rows, measure]
        return more * (self._on.at[rows, 0] == source) if measure in LEADER_MEASURES else more


class ReplicaMoves:
    """One pass of moves over a placement, for some measures."""

    def __init__(self, placement: Placement, measures: Sequence[Measure], limits: Limits) -> None:
        self._on, self._limits = placement, limits
        self._items = ReplicaItems(placement, measures)
        self._columns, self._band = self._items.columns, self._items.band
        known = self._items.measures
        self._alike = [m not in placement.bound for m in known]
        """Of which measures all have the same levels, as none has a ceiling."""
        self._disk = known.index(Measure.DISK) if Measure.DISK in known else None
        band, ceilings = placement.problem.band, placement.ceilings[:, self._columns]
        loads, counts = placement.loads[:, self._columns], placement.problem.counts
        self._levels = balanced_bounds(loads, counts, band, ceilings)
        self.spent = False
        """Whether a limit allows no more: bytes, moves or time."""
        self._moves = 0
        self._rounds = 0
        self._retry_at = np.zeros(placement.problem.brokers, np.int64)
        """From which move on a broker that had nothing to give is asked again."""

    def carry_out(self) -> int:
        """Move replicas until all brokers are within the band or nothing helps; return how many."""
        tried = -1
        while self._on.off_by(self._columns).any():
            self.spent = self._limits.reached(self._on, 0.0) is not None
            if self.spent:
                break
            source, max_moves = self._source()
            if source is None:
                if tried == self._moves:
                    break
                tried = self._moves
                self._retry_at[:] = 0
                continue
            took = self._give(source, max_moves)
            if not took:
                self._retry_at[source] = self._moves + max(8, len(self._retry_at) // 4)
        return self._moves

    def _source(self) -> tuple[int | None, int]:
        """Return the broker that gives next, and how many replicas at most."""
        loads, bounds = self._on.loads[:, self._columns], self._levels
        may = self._limits.ready(self._on)
        ready = self._on.problem.gives & may & (self._retry_at <= self._moves)
        over = np.where(ready, (loads - bounds.high).max(axis=1), -np.inf)
        source = int(np.argmax(over))
        if over[source] > MIN_GAIN:
            return source, 1 << 30
        takes = self._on.problem.takes & may
        lack = np.where(takes[:, None], bounds.low - loads, 0.0).max(axis=0)
        column = int(np.argmax(lack))
        if lack[column] <= MIN_GAIN:
            return None, 0
        spare = np.where(ready, loads[:, column], -np.inf)
        source = int(np.argmax(spare))
        return (source, EACH) if np.isfinite(spare[source]) else (None, 0)

    def _give(self, source: int, max_moves: int) -> int:
        """Give away the replicas of a broker that help most; return how many.

        Of a broker that holds very many only a part is looked at, unless that gives nothing.
        """
        on, problem = self._on, self._on.problem
        rows = on.held(source)
        rows = rows[problem.movable[rows]]
        takes = problem.takes & self._limits.ready(on)
        takes[source] = False
        loads = on.loads[:, self._columns]
        if (loads[source] <= self._band.high[source]).all():
            # A move has to help somebody outside the band: here only who lacks something.
            takes &= (loads < self._band.low).any(axis=1)
        to = neediest(self._levels, loads, takes, problem.racks, DESTINATIONS)
        if not len(to):
            return 0
        parts = -(-len(rows) // MAX_COMPARED)
        for _ in range(parts):
            self._rounds += 1
            took = self._look(source, to, rows[self._rounds % parts :: parts], max_moves)
            if took:
                return took
        return 0

    def _look(self, source: int, to: Int64, rows: Int64, max_moves: int) -> int:
        """Give away what helps most of some partitions' replicas; return how many."""
        items = self._items.of(rows, source)
        gain = self._gain(source, to, items, self._levels)
        useful = (gain > MIN_GAIN) & ~self._forbidden_moves(source, to, rows)
        self._exclude_without_room(source, to, rows, items, useful)
        self._exclude_over_byte_limit(source, to, rows, items, useful)
        score = gain / self._cost(source, to, rows, items)
        score[~useful] = -np.inf
        each = min(max(EACH, len(rows) // PART), max_moves)
        for needless in (False, True):
            if needless:
                has_move = np.isfinite(score).any(axis=0)
                if not has_move.any():
                    break
                harmless = self._gain(source, to, items[has_move], self._band) > MIN_GAIN
                score[:, has_move] = np.where(harmless, score[:, has_move], -np.inf)
            where, at = _select_best(score, each)
            kept = self._kept(source, to[where], items[at], rows[at], gain[where, at])[:max_moves]
            if len(kept):
                self._on.move_all(rows[at[kept]], source, to[where[kept]])
                self._moves += len(kept)
                return len(kept)
        return 0

    def _kept(
        self, source: int, to: Int64, items: Float64, partitions: Int64, gain: Float64
    ) -> Int64:
        """Return which of some moves, best first, still help once those before them are made."""
        on, columns = self._on, self._columns
        given, taken = items * on.per_share[source, columns], items * on.per_share[to][:, columns]
        sizes = on.problem.items[partitions, Measure.DISK]
        here, there = on.loads[source, columns], on.loads[to][:, columns]
        kept = np.arange(len(to))
        while len(kept):
            before = here - _before(given[kept])
            filled = there[kept] + _prior_key_sums(to[kept], taken[kept])
            good = self._allowed(source, to[kept], sizes[kept])
            good &= _prior_key_sums(to[kept], sizes[kept]) + sizes[kept] <= on.room_bytes[to[kept]]
            for measure in on.bound:
                more = self._items.added(partitions[kept], source, measure)
                more = more * on.per_share[to[kept], measure]
                good &= _prior_key_sums(to[kept], more) + more <= on.spare(to[kept], measure)
            for bounds, min_gain in ((self._levels, STILL * gain[kept]), (self._band, MIN_GAIN)):
                gained = bounds.distance(before, source)
                gained -= bounds.distance(before - given[kept], source)
                gained += bounds.distance(filled, to[kept])
                gained -= bounds.distance(filled + taken[kept], to[kept])
                good &= gained.sum(axis=1) > min_gain
            if good.all():
                break
            kept = kept[good]
        return kept

    def _allowed(self, source: int, to: Int64, sizes_bytes: Float64) -> Bool:
        """Return which of some replicas may be copied if all before each of them are."""
        limits, on, count = self._limits, self._on, np.arange(1, len(to) + 1)
        allowed = on.moved_bytes + np.cumsum(sizes_bytes) <= limits.max_bytes
        allowed &= on.moved + count <= limits.max_moves
        allowed &= on.part_in[source] + count <= limits.max_per_broker
        part_in = on.part_in[to] + _prior_key_sums(to, np.ones(len(to)))
        return np.asarray(allowed & (part_in < limits.max_per_broker), np.bool_)

    def _gain(self, source: int, to: Int64, items: Float64, bounds: LoadBounds) -> Float64:
        """Return by how much each move brings the two brokers nearer, shape [to, rows]."""
        on, columns = self._on, self._columns
        now = on.loads[source, columns]
        given = items * on.per_share[source, columns]
        gain = (bounds.distance(now, source) - bounds.distance(now - given, source)).sum(axis=1)
        gain = np.repeat(gain[None, :], len(to), axis=0)
        off, inside = np.empty_like(gain), np.empty_like(gain)
        for k, column in enumerate(columns.tolist()):
            low, high = bounds.low[to, k], bounds.high[to, k]
            load = on.loads[to, column]
            np.multiply(on.per_share[to, column][:, None], items[:, k].copy()[None, :], out=off)
            off += load[:, None]
            if self._alike[k]:
                np.clip(off, low[0], high[0], out=inside)
            else:
                np.maximum(off, low[:, None], out=inside)
                np.minimum(inside, high[:, None], out=inside)
            off -= inside
            off *= off
            off -= (np.maximum(np.maximum(load - high, low - load), 0.0) ** 2)[:, None]
            gain -= off
        return gain

    def _cost(self, source: int, to: Int64, rows: Int64, items: Float64) -> Float64:
        """Return what moves cost: bytes that serve nothing whole, others next to nothing."""
        on, bounds, disk = self._on, self._levels, Measure.DISK
        problem = on.problem
        per = on.per_share[source, disk] or 1.0
        sizes = problem.items[rows, disk] * per
        usual = self._items.usual_bytes * per or 1.0
        if self._disk is None:
            served = np.zeros((1, len(rows)))
        elif bounds.giving:
            over = max(0.0, float(on.loads[source, disk] - bounds.high[source, self._disk]))
            served = np.minimum(sizes, over)[None, :]
        else:
            lack = np.maximum(bounds.low[to, self._disk] - on.loads[to, disk], 0.0)
            served = np.minimum(sizes[None, :], lack[:, None])
        # Beside its whole length, what gains most is what points where it is needed: all measures
        # then get even together, and none is filled by what another one still has to bring.
        length = np.sqrt(((items * on.per_share[source, self._columns]) ** 2).sum(axis=1))
        return np.asarray((sizes - served) + length + EVERY_MOVE * usual)

    def _forbidden_moves(self, source: int, to: Int64, rows: Int64) -> Bool:
        """Return which moves must not be, [to, rows]: for racks, a second replica, or a ceiling."""
        is_barred = barred(self._on.at[rows], source, to, self._on.problem.racks).T
        for measure in self._on.bound:
            more = self._items.added(rows, source, measure)[None, :]
            per = self._on.per_share[to, measure]
            is_barred |= more * per[:, None] > self._on.spare(to, measure)[:, None]
        return is_barred

    def _exclude_without_room(
        self, source: int, to: Int64, rows: Int64, items: Float64, useful: Bool
    ) -> None:
        """Take what disks have no room for out of what is `useful`; note who lacked it."""
        on, sizes = self._on, self._on.problem.needs_bytes[rows]
        room = on.one_room_bytes[to]
        if not sizes.max(initial=0.0) > room.min():
            return
        large = sizes[None, :] > room[:, None]
        out = large & useful & (np.isfinite(sizes)[None, :] & ~on.short_of_room[to][:, None])
        lacks_room = out.any(axis=0)
        if lacks_room.any():
            helps = self._gain(source, to, items[lacks_room], self._band) > MIN_GAIN
            on.short_of_room[to] |= (helps & out[:, lacks_room]).any(axis=1)
        useful &= ~large

    def _exclude_over_byte_limit(
        self, source: int, to: Int64, rows: Int64, items: Float64, useful: Bool
    ) -> None:
        """Take what the limit of bytes does not allow out of what is `useful`, likewise."""
        on, sizes = self._on, self._on.problem.needs_bytes[rows]
        large = sizes > self._limits.max_bytes - on.moved_bytes
        if not large.any():
            return
        kept_out = large & np.isfinite(sizes) & useful.any(axis=0)
        if kept_out.any() and not on.short_of_bytes:
            helps = self._gain(source, to, items[kept_out], self._band) > MIN_GAIN
            on.short_of_bytes = bool((helps & useful[:, kept_out]).any())
        useful[:, large] = False


def _select_best(score: Float64, each: int) -> tuple[Int64, Int64]:
    """Return rows and columns of the best scores [D, n], best first, one for each column."""
    best = score.max(initial=-np.inf)
    if not np.isfinite(best):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if each < score.shape[1]:
        top = np.argpartition(-score, each - 1, axis=1)[:, :each]
        rows, columns = np.repeat(np.arange(len(score)), each), top.ravel()
    else:
        rows, columns = np.nonzero(np.isfinite(score))
    worth = score[rows, columns]
    good = worth >= AS_GOOD * best
    rows, columns, worth = rows[good], columns[good], worth[good]
    order = np.lexsort((rows, columns, -worth))
    _, first = np.unique(columns[order], return_index=True)
    chosen = order[np.sort(first)]
    return rows[chosen], columns[chosen]


def _before(values: Float64) -> Float64:
    """Return for each row the sum of those before it."""
    return np.asarray(np.cumsum(values, axis=0) - values)


def _prior_key_sums(keys: Int64, values: Float64) -> Float64:
    """Return for each row the sum of those before it that have the same key."""
    order = np.argsort(keys, kind="stable")
    sums = _before(values[order])
    first = np.searchsorted(keys[order], keys)
    sums_by_row = np.empty_like(sums)
    sums_by_row[order] = sums
    return np.asarray(sums_by_row - sums[first])
