"""Orders moves by how much each relieves the worst broker for the bytes it copies.

Pure. A broker's pressure is what it receives, sends and stores, each beside its fair share (an
equal part among those that are up, by capacity where all have one); the highest is the worst.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.cluster.state import ClusterState
from core.load.load import Float64, Load
from core.load.view.heat import Metric, alive_brokers, fair_parts
from core.plan.effect import MoveFacts, current_totals, leader_after, move_facts
from core.plan.plan import Plan

RECEIVED, SENT, STORED = range(3)
MIN_RELIEF = 1e-9
"""What a move must take off a broker's pressure to count as a relief."""

MEASURES = ("in", "out", "disk")
"""What RECEIVED, SENT and STORED are called."""

MoveEffect = Mapping[tuple[int, int], float]
"""What a move changes, by row of `ClusterState.brokers` and what is pressed there."""


@dataclass(frozen=True, slots=True)
class Relief:
    """The broker and measure that a move relieves most: shares before and after the whole plan."""

    broker: int
    measure: str
    before: float
    after: float

    @property
    def words(self) -> str:
        return f"b{self.broker} {self.measure} {self.before:.0%} → {self.after:.0%}"


def order_moves(
    state: ClusterState, load: Load, plan: Plan, copied_bytes: Sequence[float]
) -> list[int]:
    """Return the indices of all moves: again and again what relieves the broker that is worst.

    Of its moves the one that takes most off it for each byte copied; moves that relieve nobody
    come last, the smallest first. `copied_bytes` has one entry a move.
    """
    now, unit = pressures(state, load)
    relieving, effects = _relief_and_effects(state, load, plan, now, unit, copied_bytes)
    now = now.copy()
    waiting = np.zeros(len(now), np.bool_)
    waiting[list(relieving)] = True
    taken = [False] * len(plan)
    order: list[int] = []
    while waiting.any():
        row = int(np.argmax(np.where(waiting, now.max(axis=1), -np.inf)))
        queue = relieving[row]
        while queue and taken[queue[0][1]]:
            heapq.heappop(queue)
        if not queue:
            waiting[row] = False
            continue
        index = heapq.heappop(queue)[1]
        taken[index] = True
        order.append(index)
        for at, change in effects[index].items():
            now[at] += change
    rest = [index for index in range(len(plan)) if not taken[index]]
    return order + sorted(rest, key=lambda index: (copied_bytes[index], index))


def find_reliefs(state: ClusterState, load: Load, plan: Plan) -> list[Relief | None]:
    """Return for each move what it relieves most, None where it relieves nobody."""
    now, unit = pressures(state, load)
    _, effects = _relief_and_effects(state, load, plan, now, unit, [1.0] * len(plan))
    after = now.copy()
    for effect in effects:
        for at, change in effect.items():
            after[at] += change
    reliefs: list[Relief | None] = []
    for effect in effects:
        felt = ((change * float(now[at]), at) for at, change in effect.items())
        strongest, (row, what) = min(felt, default=(0.0, (0, 0)))
        relief = None
        if strongest < -MIN_RELIEF:
            shares = float(now[row, what]), max(float(after[row, what]), 0.0)
            relief = Relief(int(state.broker_ids[row]), MEASURES[what], *shares)
        reliefs.append(relief)
    return reliefs


def pressures(state: ClusterState, load: Load) -> tuple[Float64, Float64]:
    """Return each broker's pressures, shape [B, 3], 1 is fair; and what one byte adds there.

    A replica of unknown size has its partition's; what is not known of all brokers presses nobody.
    """
    now = current_totals(state, load)
    stored = np.zeros(len(state.brokers))
    at = np.searchsorted(state.broker_ids, state.replica_broker)
    whole = state.partition_size_bytes[state.partition_of_replica]
    sizes = np.where(state.size_bytes < 0, whole, state.size_bytes)
    np.add.at(stored, at, np.maximum(sizes, 0))
    columns = {Metric.IN: now.in_bytes_per_s, Metric.OUT: now.out_bytes_per_s, Metric.SIZE: stored}
    alive = alive_brokers(state)
    pressure, unit = np.zeros((2, len(state.brokers), 3))
    for what, (metric, values) in enumerate(columns.items()):
        # What is on a broker that is down presses as it would elsewhere.
        parts = np.where(alive, fair_parts(state, metric), 1 / max(int(alive.sum()), 1))
        fair = float(np.nansum(values)) * parts
        pressed = fair > 0
        pressure[pressed, what] = np.nan_to_num(values)[pressed] / fair[pressed]
        unit[pressed, what] = 1 / fair[pressed]
    return pressure, unit


def _relief_and_effects(
    state: ClusterState,
    load: Load,
    plan: Plan,
    pressure: Float64,
    unit: Float64,
    copied_bytes: Sequence[float],
) -> tuple[dict[int, list[tuple[float, int]]], list[MoveEffect]]:
    """Return each broker row's moves, most relief for a byte first, and all moves' effects."""
    at = {int(broker): row for row, broker in enumerate(state.broker_ids)}
    relieving: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
    effects: list[MoveEffect] = []
    for index, fact in enumerate(move_facts(state, load, plan)):
        effect: defaultdict[tuple[int, int], float] = defaultdict(float)
        for broker, what, change in _changes(fact):
            if broker in at:
                effect[at[broker], what] += change * float(unit[at[broker], what])
        effects.append(effect)
        felt: defaultdict[int, float] = defaultdict(float)
        for (row, what), change in effect.items():
            felt[row] += change * float(pressure[row, what])
        for row, change in felt.items():
            if change < -MIN_RELIEF:
                relieving[row].append((change / max(copied_bytes[index], 1.0), index))
    for queue in relieving.values():
        heapq.heapify(queue)
    return relieving, effects


def _changes(fact: MoveFacts) -> Iterator[tuple[int, int, float]]:
    """Yield (broker, what, by how much) that a move changes; all replicas receive what comes in."""
    if fact.now is None:
        return
    then = leader_after(fact.move, fact.leader)
    for sign, brokers, leading in ((-1, fact.now, fact.leader), (1, fact.move.after, then)):
        for broker in brokers:
            yield broker, STORED, sign * fact.size_bytes
            if broker == leading:
                yield broker, RECEIVED, sign * fact.produced
                sent = fact.consumed + fact.produced * (len(brokers) - 1)
                yield broker, SENT, sign * sent
