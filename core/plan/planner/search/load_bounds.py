"""Load bounds: how much each broker must give or take to reach the band with the fewest bytes.

What stands above the band must leave, what is missing below it must come. The larger of the two
sums must be moved by anybody; so the other side is let go further into the band, until the sums
are equal and every byte that is moved serves both ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.cluster.state import Bool, Int64
from core.load.load import Float64

MARGIN = 0.002
"""How much further than the band's edge is aimed, so that the last crumbs need no moves."""


@dataclass(frozen=True, slots=True)
class LoadBounds:
    """Lowest and highest load of each broker and measure, in fair shares, at most its ceiling."""

    low: Float64
    high: Float64
    giving: bool
    """Whether more must leave the overfull (by the first measure) than the empty lack."""

    @classmethod
    def of(cls, band: float, ceilings: Float64) -> LoadBounds:
        """Return the band itself, a little narrowed, as far as ceilings [B, K] allow."""
        edge, limits = edge_of(band), ceilings - MARGIN
        return cls(np.minimum(1 - edge, limits), np.minimum(1 + edge, limits), True)

    def distance(self, loads: Float64, brokers: int | Int64) -> Float64:
        """Return the squared distance of brokers' loads [..., K] from their bounds, elementwise."""
        off = np.maximum(loads - self.high[brokers], self.low[brokers] - loads)
        np.maximum(off, 0.0, out=off)
        off *= off
        return off


def edge_of(band: float) -> float:
    """Return how far from its share a broker is aimed to be: a little less than the band."""
    return max(band - MARGIN, band / 2)


def balanced_bounds(loads: Float64, counts: Bool, band: float, ceilings: Float64) -> LoadBounds:
    """Return the bounds for loads [B, K] of the brokers that count; ceilings are [B, K], too."""
    plain = LoadBounds.of(band, ceilings)
    low, high, giving = plain.low.copy(), plain.high.copy(), True
    edge = edge_of(band)
    for column in range(loads.shape[1]):
        order = np.argsort(loads[counts, column], kind="stable")
        load, top, bottom = (of[counts, column][order] for of in (loads, plain.high, plain.low))
        over = float(np.maximum(load - top, 0).sum())
        under = float(np.maximum(bottom - load, 0).sum())
        if over > under:
            low[:, column] = np.minimum(_fill_level(load, over), plain.high[:, column])
        elif under > over:
            level = max(-_fill_level(-load[::-1], under), 1 - edge)
            high[:, column] = np.minimum(level, plain.high[:, column])
        if column == 0:
            giving = over >= under
    return LoadBounds(low, high, giving)


def _fill_level(ascending: Float64, amount: float) -> float:
    """Return up to where the lowest must be filled to take `amount` in all."""
    filled = (amount + np.cumsum(ascending)) / np.arange(1, len(ascending) + 1)
    full = np.flatnonzero(np.append(ascending[1:], np.inf) >= filled)
    return float(filled[full[0]])


def neediest(
    bounds: LoadBounds, loads: Float64, takes: Bool, racks: Int64 | np.ndarray, max_count: int
) -> Int64:
    """Return up to `max_count` broker rows that data helps most, of every rack if possible."""
    over, lack = np.maximum(loads - bounds.high, 0), np.maximum(bounds.low - loads, 0)
    need = 1e-3 * over.sum(axis=1) - lack.sum(axis=1) + 1e-6 * loads.sum(axis=1)
    order = np.argsort(np.where(takes, need, np.inf), kind="stable")
    order = order[takes[order]]
    kinds = len(np.unique(racks[order]))
    each = max(1, max_count // max(kinds, 1))
    place: dict[int, int] = {}
    chosen: list[int] = []
    for row in order.tolist():
        rack = int(racks[row])
        if place.get(rack, 0) < each and len(chosen) < max_count:
            place[rack] = place.get(rack, 0) + 1
            chosen.append(row)
    return np.array(chosen, np.int64)
