"""The six measures that a plan balances, and what each replica adds to them.

Four follow from where replicas are, three from who leads; no leader change alters the first.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from core.cluster.state import Bool, ClusterState, Int32
from core.load.load import Float64


class Measure(IntEnum):
    """A column of every array of measures."""

    DISK = 0
    IN = 1
    """What is written to a broker, as leader and as follower alike."""
    REPLICAS = 2
    MAY_SEND = 3
    """What a broker would send if each partition's replicas took turns at leading it: while this
    is even, leaders can be chosen so that what is really sent is."""
    LEADERS = 4
    LEADER_IN = 5
    OUT = 6
    """What leaders send: to consumers, and once to every follower."""

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS: Final = {
    Measure.DISK: "disk",
    Measure.IN: "in",
    Measure.REPLICAS: "replicas",
    Measure.MAY_SEND: "what may be sent",
    Measure.LEADERS: "leaders",
    Measure.LEADER_IN: "leader in",
    Measure.OUT: "out",
}

MEASURES: Final = len(Measure)
REPLICA_MEASURES: Final = (Measure.DISK, Measure.IN, Measure.REPLICAS, Measure.MAY_SEND)
"""What moves with every replica."""
LEADER_MEASURES: Final = (Measure.LEADERS, Measure.LEADER_IN, Measure.OUT)
"""What moves with leadership."""
SHOWN: Final = tuple(measure for measure in Measure if measure is not Measure.MAY_SEND)
"""What an operator is told of."""


HEADROOM = 0.10
"""The part of what a broker can take in and send that a plan leaves free, as of its disk."""
RATES = (Measure.IN, Measure.OUT)


def capacities(state: ClusterState, ids: Int32, max_replicas: float) -> Float64:
    """Return what each broker can carry, shape [B, MEASURES]; inf where nobody says."""
    capacity = np.full((len(ids), MEASURES), np.inf)
    capacity[:, Measure.REPLICAS] = max_replicas
    for row, broker in enumerate(ids.tolist()):
        known = state.broker_by_id.get(broker)
        if known is not None:
            capacity[row, Measure.IN] = known.in_capacity_bytes_per_s or np.inf
            capacity[row, Measure.OUT] = known.out_capacity_bytes_per_s or np.inf
    return capacity


def ceilings(capacity: Float64, total: Float64, counts: Bool) -> Float64:
    """Return what a plan may let brokers carry, shape [B, MEASURES]: capacities less the headroom.

    There is none to keep where all that count cannot carry the `total` [MEASURES] with it.
    """
    ceiling = capacity.copy()
    for measure in RATES:
        spared = (1 - HEADROOM) * capacity[:, measure]
        if spared[counts].sum() >= total[measure]:
            ceiling[:, measure] = spared
    return ceiling


NOBODY = -1
"""No replica in this column: the partition has fewer than the widest one."""
