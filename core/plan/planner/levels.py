"""Levels: how far brokers must give and take, so that the band is reached with the fewest bytes.

What stands above the band must leave, what is missing below it must come. The larger of the two
sums must be moved by anybody; so the other side is let go further into the band, until the sums
are equal and every byte that is moved serves both ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.cluster.state import Bool, Int64
from core.load.snapshot import Float64

MARGIN = 0.002
"""How much further than the band's edge is aimed, so that the last crumbs need no moves."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Lowest and highest load of each measure, in fair shares; shapes [K]."""

    low: Float64
    high: Float64
    giving: bool
    """Whether more must leave the overfull (by the first measure) than the empty lack."""

    @classmethod
    def of(cls, band: float, count: int) -> Levels:
        """Return the band itself, a little narrowed."""
        edge = max(band - MARGIN, band / 2)
        return cls(np.full(count, 1 - edge), np.full(count, 1 + edge), True)

    def distance(self, loads: Float64) -> Float64:
        """Return the squared distance from the levels, elementwise; the last axis is measures."""
        off = np.maximum(loads - self.high, self.low - loads)
        np.maximum(off, 0.0, out=off)
        off *= off
        return off


def levels(loads: Float64, counts: Bool, band: float) -> Levels:
    """Return the levels for loads [B, K] of the brokers that count."""
    plain = Levels.of(band, loads.shape[1])
    low, high, giving = plain.low.copy(), plain.high.copy(), True
    edge = float(high[0] - 1)
    for column in range(loads.shape[1]):
        one = np.sort(loads[counts, column])
        over = float(np.maximum(one - 1 - edge, 0).sum())
        under = float(np.maximum(1 - edge - one, 0).sum())
        if over > under:
            low[column] = min(_level(one, over), 1 + edge)
        elif under > over:
            high[column] = max(-_level(-one[::-1], under), 1 - edge)
        if column == 0:
            giving = over >= under
    return Levels(low, high, giving)


def _level(ascending: Float64, amount: float) -> float:
    """Return up to where the lowest must be filled to take `amount` in all."""
    filled = (amount + np.cumsum(ascending)) / np.arange(1, len(ascending) + 1)
    full = np.flatnonzero(np.append(ascending[1:], np.inf) >= filled)
    return float(filled[full[0]])


def neediest(
    levels: Levels, loads: Float64, takes: Bool, racks: Int64 | np.ndarray, most: int
) -> Int64:
    """Return up to `most` broker rows that data helps most, every rack among them if possible."""
    over, lack = np.maximum(loads - levels.high, 0), np.maximum(levels.low - loads, 0)
    need = 1e-3 * over.sum(axis=1) - lack.sum(axis=1) + 1e-6 * loads.sum(axis=1)
    order = np.argsort(np.where(takes, need, np.inf), kind="stable")
    order = order[takes[order]]
    kinds = len(np.unique(racks[order]))
    each = max(1, most // max(kinds, 1))
    place: dict[int, int] = {}
    chosen: list[int] = []
    for row in order.tolist():
        rack = int(racks[row])
        if place.get(rack, 0) < each and len(chosen) < most:
            place[rack] = place.get(rack, 0) + 1
            chosen.append(row)
    return np.array(chosen, np.int64)
