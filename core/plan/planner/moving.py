"""Moving replicas until brokers carry what they should, with the fewest bytes.

Greedy, and the same for the same input: the broker that is furthest off gives the replicas that
help most for what they cost, to those that need it most. A byte that has to be moved anyway costs
nothing, any other costs itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.cluster.state import Bool, Int32, Int64
from core.load.snapshot import Float64
from core.plan.planner.levels import Levels, levels, neediest
from core.plan.planner.limits import Limits
from core.plan.planner.measures import LED, Measure
from core.plan.planner.placement import Placement
from core.plan.planner.problem import NOBODY

DESTINATIONS = 24
"""Brokers that one look compares as destinations."""
EACH = 16
"""Replicas that one look may give to each of them."""
AS_GOOD = 0.7
"""One look takes moves of at least this part of the best one's worth."""
STILL = 0.5
"""What must be left of a move's gain when moves before it have been taken."""
LEAST = 1e-15
EVERY_MOVE = 0.1
"""What a move costs beside its bytes, in replicas of the usual size."""


class Moving:
    """One pass of moves over a placement, for some measures."""

    def __init__(self, placement: Placement, measures: Sequence[Measure], limits: Limits) -> None:
        self._on, self._limits = placement, limits
        known = [m for m in measures if placement.problem.active[m]]
        self._columns = np.array(known, np.int64)
        self._items = placement.problem.items[:, self._columns]
        self._led = np.array([m in LED for m in known], np.bool_)
        self._disk = known.index(Measure.DISK) if Measure.DISK in known else None
        self._counts = placement.problem.counts
        band = placement.problem.band
        self._levels = levels(placement.loads[:, self._columns], self._counts, band)
        self._band = Levels.of(band, len(known))
        self._moves = 0
        self._again = np.zeros(placement.problem.brokers, np.int64)
        """From which move on a broker that had nothing to give is asked again."""

    def carry_out(self) -> int:
        """Move replicas until all brokers are within the band, or nothing helps; return how many.

        Brokers that have nothing to give are asked again when others have moved something.
        """
        tried = -1
        while self._on.off_by(self._columns).any() and not self._spent():
            source, most = self._source()
            if source is None:
                if tried == self._moves:
                    break
                tried = self._moves
                self._again[:] = 0
                continue
            took = self._give(source, most)
            if not took:
                self._again[source] = self._moves + max(8, len(self._again) // 4)
        return self._moves

    def _spent(self) -> bool:
        return not self._limits.allow(self._on, 0.0)

    def _source(self) -> tuple[int | None, int]:
        """Return the broker that gives next, and how many replicas at most."""
        loads, wanted = self._on.loads[:, self._columns], self._levels
        may = self._limits.ready(self._on)
        ready = self._on.problem.gives & may & (self._again <= self._moves)
        over = np.where(ready, (loads - wanted.high).max(axis=1), -np.inf)
        source = int(np.argmax(over))
        if over[source] > LEAST:
            return source, 1 << 30
        lack = np.where((self._on.problem.takes & may)[:, None], wanted.low - loads, 0.0).max(
            axis=0
        )
        column = int(np.argmax(lack))
        if lack[column] <= LEAST:
            return None, 0
        spare = np.where(ready, loads[:, column], -np.inf)
        source = int(np.argmax(spare))
        return (source, EACH) if np.isfinite(spare[source]) else (None, 0)

    # -- one look ------------------------------------------------------------------------------

    def _give(self, source: int, most: int) -> int:
        """Give away the replicas of a broker that help most; return how many."""
        on, columns, wanted = self._on, self._columns, self._levels
        problem = on.problem
        rows = on.held(source)
        rows = rows[problem.movable[rows]]
        takes = problem.takes & self._limits.ready(on)
        takes[source] = False
        to = neediest(wanted, on.loads[:, columns], takes, problem.racks, DESTINATIONS)
        if not len(rows) or not len(to):
            return 0
        items = self._items[rows]
        if self._led.any():
            items[:, self._led] *= (on.at[rows, 0] == source)[:, None]
        gain = self._gain(source, to, items, wanted)
        score = gain / self._cost(source, to, rows, items)
        score[(gain <= LEAST) | self._barred(source, to, rows)] = -np.inf
        some = np.isfinite(score).any(axis=1)
        needless = self._gain(source, to, items[some], self._band) <= LEAST
        score[some] = np.where(needless, -np.inf, score[some])
        found = _best(score, min(EACH, most))
        took = 0
        left = on.loads[:, columns]
        for at, where in found:
            if took >= most or self._spent():
                break
            partition, destination = int(rows[at]), int(to[where])
            item = items[at]
            if self._gains(left, source, destination, item, wanted) < STILL * gain[at, where]:
                continue
            if self._gains(left, source, destination, item, self._band) <= LEAST:
                continue
            size = float(problem.items[partition, Measure.DISK])
            if size > on.room_bytes[destination] or not self._limits.allow(
                on, size, source, destination
            ):
                continue
            on.move(partition, source, destination)
            left[source] = on.loads[source, columns]
            left[destination] = on.loads[destination, columns]
            took += 1
            self._moves += 1
        return took

    def _gain(self, source: int, to: Int64, items: Float64, wanted: Levels) -> Float64:
        """Return by how much each move brings the two brokers nearer, shape [rows, to]."""
        on, columns = self._on, self._columns
        now = on.loads[source, columns]
        given = items * on.per_share[source, columns]
        gain = (wanted.distance(now) - wanted.distance(now - given)).sum(axis=1)[:, None]
        gain = np.repeat(gain, len(to), axis=1)
        for k in range(len(columns)):
            low, high = wanted.low[k], wanted.high[k]
            load = on.loads[to, columns[k]]
            then = items[:, k : k + 1] * on.per_share[to, columns[k]][None, :] + load[None, :]
            off = np.maximum(then - high, low - then)
            np.maximum(off, 0.0, out=off)
            off *= off
            was = np.maximum(np.maximum(load - high, low - load), 0.0) ** 2
            gain += was[None, :] - off
        return gain

    def _gains(
        self, loads: Float64, source: int, destination: int, item: Float64, wanted: Levels
    ) -> float:
        """Return what one move gains as loads are now; plain floats are faster for so few."""
        gained = 0.0
        low, high = wanted.low, wanted.high
        per = self._on.per_share
        for k, column in enumerate(self._columns.tolist()):
            size = float(item[k])
            if not size:
                continue
            for broker, sign in ((source, -1.0), (destination, 1.0)):
                now = float(loads[broker, k])
                then = now + sign * size * float(per[broker, column])
                gained += _squared(now, low[k], high[k]) - _squared(then, low[k], high[k])
        return gained

    def _cost(self, source: int, to: Int64, rows: Int64, items: Float64) -> Float64:
        """Return what moves cost: bytes that serve nothing whole, others next to nothing."""
        on, wanted, disk = self._on, self._levels, Measure.DISK
        problem = on.problem
        per = on.per_share[source, disk] or 1.0
        sizes = problem.items[rows, disk] * per
        usual = float(problem.items[:, disk].mean()) * per or 1.0
        if self._disk is None:
            served = np.zeros((len(rows), len(to)))
        elif wanted.giving:
            over = max(0.0, float(on.loads[source, disk] - wanted.high[self._disk]))
            served = np.minimum(sizes, over)[:, None]
        else:
            lack = np.maximum(wanted.low[self._disk] - on.loads[to, disk], 0.0)
            served = np.minimum(sizes[:, None], lack[None, :])
        # Beside its whole length, what gains most is what points where it is needed: all measures
        # then get even together, and none is filled by what another one still has to bring.
        length = np.sqrt(((items * on.per_share[source, self._columns]) ** 2).sum(axis=1))
        return np.asarray((sizes[:, None] - served) + length[:, None] + EVERY_MOVE * usual)

    def _barred(self, source: int, to: Int64, rows: Int64) -> Bool:
        """Return which moves must not be: racks less spread, a second replica, no room, a limit."""
        problem = self._on.problem
        most = self._limits.most_bytes - self._on.moved_bytes
        room = np.minimum(self._on.room_bytes[to], most)
        full = problem.items[rows, Measure.DISK][:, None] > room[None, :]
        return np.asarray(full | barred(self._on.at[rows], source, to, problem.racks), np.bool_)


def barred(at: Int32, source: int, to: Int64, racks: Int32) -> Bool:
    """Return for assignments [n, W] and destinations [D] which may not take `source`'s replica.

    A rack may take one only while it holds fewer of the others than the source's rack holds now:
    then neither are fewer racks used, nor does the fullest get fuller.
    """
    found = np.zeros((len(at), len(to)), np.bool_)
    others = np.zeros((len(at), len(to)), np.int8)
    here = np.zeros(len(at), np.int8)
    rack, source_rack = racks[to], int(racks[source])
    for place in range(at.shape[1]):
        brokers = at[:, place]
        held = brokers != NOBODY
        found |= brokers[:, None] == to[None, :]
        if source_rack == NOBODY:
            continue
        theirs = np.where(held, racks[brokers], NOBODY - 1)
        here += theirs == source_rack
        theirs = np.where(brokers == source, NOBODY - 1, theirs)
        others += theirs[:, None] == rack[None, :]
    if source_rack != NOBODY:
        found |= (others >= here[:, None]) | (rack == NOBODY)[None, :]
    return found


def _best(score: Float64, each: int) -> list[tuple[int, int]]:
    """Return (row, column) of the best scores, best first, one for each row."""
    each = min(each, len(score))
    top = np.argpartition(-score, each - 1, axis=0)[:each] if each < len(score) else None
    if top is None:
        rows, columns = np.nonzero(np.isfinite(score))
    else:
        rows = top.ravel()
        columns = np.tile(np.arange(score.shape[1]), each)
    worth = score[rows, columns]
    best = worth.max(initial=-np.inf)
    good = np.isfinite(worth) & (worth >= AS_GOOD * best)
    rows, columns, worth = rows[good], columns[good], worth[good]
    order = np.lexsort((columns, rows, -worth))
    _, first = np.unique(rows[order], return_index=True)
    return [(int(rows[i]), int(columns[i])) for i in order[np.sort(first)]]


def _squared(load: float, low: float, high: float) -> float:
    off = load - high if load > high else low - load if load < low else 0.0
    return off * off
