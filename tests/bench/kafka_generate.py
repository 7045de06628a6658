"""What Kafka's `--generate` would propose for a whole cluster: its rule, played here.

A port of what ReassignPartitionsCommand asks since Kafka 4 (StripedReplicaPlacer): each topic
anew, racks and the brokers of each taking turns from a random start. It knows neither sizes nor
rates, nor where replicas are. All brokers are up.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np

from core.cluster.state import ClusterState


class Turns:
    """The brokers of a rack; every partition that asks begins one further."""

    def __init__(self, brokers: list[int], random: Random) -> None:
        self.brokers = sorted(brokers)
        self._offset, self._taken, self._round = random.randrange(len(brokers)), 0, 0

    def next(self, now: int) -> int | None:
        """Return the next broker for the partition of this round, None when all have been."""
        count = len(self.brokers)
        if self._round != now:
            self._round, self._taken, self._offset = now, 0, (self._offset + 1) % count
        if self._taken >= count:
            return None
        self._taken += 1
        return self.brokers[(self._taken - 1 + self._offset) % count]


class Striped:
    """One topic's placing. `racks` are the brokers by rack, in the order in which they start."""

    def __init__(self, racks: Mapping[str, list[int]], random: Random) -> None:
        self._random = random
        self._racks = {name: Turns(brokers, random) for name, brokers in racks.items()}
        self._names = sorted(racks)
        self._offset, self._round = random.randrange(len(racks)), 0
        self._count = sum(map(len, racks.values()))

    def place(self, replicas: int) -> list[int]:
        """Return the next partition's replicas, its preferred leader first."""
        if self._round == self._count > 1:
            self._random.shuffle(self._names)
            for rack in self._racks.values():
                self._random.shuffle(rack.brokers)
            self._round = 0
        kinds = len(self._names)
        at = skipped = self._offset % kinds
        first = self._racks[self._names[at]].next(self._round)
        assert first is not None, "a rack has a broker"
        held = [first]
        while len(held) < replicas:
            if at == skipped:  # the leader's rack waits once, until the others have had theirs
                skipped = -1
            elif (broker := self._racks[self._names[at]].next(self._round)) is not None:
                held.append(broker)
            at = (at + 1) % kinds
        self._round += 1
        self._offset = self._offset % kinds + 1
        return held


def generated(state: ClusterState, seed: int) -> np.ndarray:
    """Return brokers [P, RF] as the tool would propose them for all topics and all brokers."""
    random, racks = Random(seed), dict[str, list[int]]()
    for broker in state.brokers:
        racks.setdefault(broker.rack or "", []).append(broker.id)
    rows: list[list[int]] = []
    for topic in state.topics:
        of = state.partitions_of(topic.name)
        placing = Striped(racks, random)
        rows += [placing.place(len(state.replicas(row))) for row in of]
    return np.array(rows, np.int32)
