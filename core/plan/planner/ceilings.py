"""Ceilings: what a broker may carry at most: what it can take in and send, and replicas. Pure.

A part of what it can take in and send stays free as long as all brokers together have that much.
"""

from __future__ import annotations

import numpy as np

from core.cluster.state import Bool, ClusterState, Int32
from core.load.snapshot import Float64
from core.plan.planner.measures import MEASURES, Measure

HEADROOM = 0.10
"""The part of what a broker can take in and send that a plan leaves free, as of its disk."""
RATES = (Measure.IN, Measure.OUT)


def capacities(state: ClusterState, ids: Int32, most_replicas: float) -> Float64:
    """Return what each broker can carry, shape [B, MEASURES]; inf where nobody says."""
    found = np.full((len(ids), MEASURES), np.inf)
    found[:, Measure.REPLICAS] = most_replicas
    for row, broker in enumerate(ids.tolist()):
        known = state.broker_by_id.get(broker)
        if known is not None:
            found[row, Measure.IN] = known.in_capacity_bytes_per_s or np.inf
            found[row, Measure.OUT] = known.out_capacity_bytes_per_s or np.inf
    return found


def ceilings(capacity: Float64, total: Float64, counts: Bool) -> Float64:
    """Return what a plan may let brokers carry, shape [B, MEASURES]: capacities less the headroom.

    Where all that count could not carry the `total` [MEASURES] so, there is no headroom to keep.
    """
    found = capacity.copy()
    for measure in RATES:
        spared = (1 - HEADROOM) * capacity[:, measure]
        if spared[counts].sum() >= total[measure]:
            found[:, measure] = spared
    return found
