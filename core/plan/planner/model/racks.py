"""Rack constraints, and the fair shares they leave: brokers of a small rack carry more.

No plan that keeps replicas spread changes what a whole rack holds beyond these bounds, so the fair
share of its brokers is their part of what their rack has to hold.
"""

from __future__ import annotations

import numpy as np

from core.cluster.state import Bool, Int32, Int64
from core.load.load import Float64
from core.plan.planner.model.measures import NOBODY

NO_RACK = -1


def rack_shares(
    parts: Float64,
    values: Float64,
    replicas: Int64,
    racks: Int32,
    counts: Bool,
    fixed: Float64 | None = None,
) -> Float64:
    """Return fair parts [B] of one measure as racks allow them.

    `parts` are the fair parts without racks, `values` [P] what a replica of each partition adds,
    `replicas` [P] how many it has, `fixed` [B] what brokers hold beside that. Brokers without a
    rack among those that count change nothing.
    """
    chosen = racks[counts]
    names = np.unique(chosen)
    if len(names) < 2 or NO_RACK in names or not values.sum() > 0:
        return parts
    fixed_values = [
        0.0 if fixed is None else fixed[counts & (racks == name)].sum() for name in names
    ]
    lowest = fixed_values + (values * (replicas // len(names))).sum()
    highest = fixed_values + (values * -(-replicas // len(names))).sum()
    weight = np.array([parts[counts & (racks == name)].sum() for name in names])
    held = _within(weight, float((values * replicas).sum() + sum(fixed_values)), lowest, highest)
    shares = parts.copy()
    for name, want, has in zip(names, weight, held, strict=True):
        if want > 0:
            shares[counts & (racks == name)] *= has / want
    return np.asarray(shares / shares.sum())


def _within(weight: Float64, total: float, lowest: Float64, highest: Float64) -> Float64:
    """Return each rack's part of the total by weight, each from its `lowest` to its `highest`."""
    fixed = np.full(len(weight), np.nan)
    for _ in range(len(weight)):
        free = np.isnan(fixed)
        if not free.any() or not weight[free].sum() > 0:
            break
        left = total - np.nansum(fixed)
        want = np.where(free, left * weight / weight[free].sum(), fixed)
        off = np.where(free, np.maximum(lowest - want, want - highest), 0.0)
        worst = int(np.argmax(off))
        if off[worst] <= 1e-9 * total:
            break
        fixed[worst] = lowest[worst] if want[worst] < lowest[worst] else highest[worst]
    free = np.isnan(fixed)
    left = total - np.nansum(fixed)
    rest = weight / weight[free].sum() if free.any() and weight[free].sum() > 0 else weight * 0
    return np.asarray(np.where(free, left * rest, fixed))


def barred(at: Int32, source: int, to: Int64, racks: Int32) -> Bool:
    """Return for assignments [n, W] and destinations [D] which may not take `source`'s replica.

    A rack may take one only while it holds fewer of the others than the source's rack holds now:
    then neither are fewer racks used, nor does the fullest get fuller. What leaves a broker without
    a rack fills no rack beyond the fullest of the others, or what so many replicas need.
    """
    places = [place.copy() for place in at.T]
    taking = to.astype(np.int32)[:, None]
    is_barred = np.zeros((len(to), len(at)), np.bool_)
    for brokers in places:
        is_barred |= brokers == taking
    names = np.unique(racks[racks != NOBODY])
    if not len(names):
        return is_barred.T
    rack = int(racks[source])
    others = np.zeros((len(names), len(at)), np.int8)
    here = np.zeros(len(at), np.int8)
    for brokers in places:
        theirs = np.where(brokers == NOBODY, NOBODY, racks[brokers])
        here += theirs == rack
        theirs[brokers == source] = NOBODY
        others += theirs == names[:, None]
    if rack == NOBODY:
        evenly = -(-(at != NOBODY).sum(axis=1) // len(names))
        here = np.maximum(evenly, others.max(axis=0)).astype(np.int8)
    full = (others >= here)[np.searchsorted(names, racks[to])]
    full[racks[to] == NOBODY] = rack != NOBODY
    is_barred |= full
    return is_barred.T
