"""Where the replicas of a new topic go: by Kafka's own rule, or by what brokers carry.

Pure. Racks first, for both: as many different ones as there are, then each as often as any other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from core.cluster.state import ClusterState
from core.cluster.topics import is_legal_name
from core.errors import UsageError
from core.load.load import Float64, Load
from core.plan.planner.infeasible import brokers_do
from core.plan.planner.model.measures import (
    LEADER_MEASURES,
    MEASURES,
    NOBODY,
    REPLICA_MEASURES,
    Measure,
)
from core.plan.planner.model.placement import Placement
from core.plan.planner.model.problem import build_problem
from core.units import counted, format_bytes

Replicas = tuple[int, ...]
"""Broker ids, preferred leader first."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What each new partition is expected to carry; None is the mean of those that there are."""

    in_bytes_per_s: float | None = None
    size_bytes: float | None = None


def refuse_topic(state: ClusterState, topic: str, replicas: int) -> None:
    """Raise UsageError for a topic that cannot be made, or that is there already."""
    if not is_legal_name(topic):
        raise UsageError(
            f"{topic!r} is no name for a topic.",
            next="Letters, digits, dot, dash and underscore, 249 of them at most.",
        )
    if state.topic(topic) is not None:
        raise UsageError(
            f"Topic {topic} is there already.", next="Move its partitions: trimtab plan suggest."
        )
    refuse_replicas(state, replicas, next="Ask for 1 to {alive}.")


def refuse_replicas(state: ClusterState, replicas: int, *, next: str) -> None:
    """Raise UsageError for more replicas than brokers up; `next` may name {alive} and {down}."""
    alive = len(state.alive_ids)
    down = ", ".join(str(broker.id) for broker in state.brokers if not broker.alive)
    if replicas > alive:
        raise UsageError(
            f"{replicas} replicas on {alive} brokers that are up: one each at most.",
            next=next.format(alive=alive, down=down),
        )


def place_round_robin(
    racks: Mapping[int, str | None], partitions: int, replicas: int, *, start: int = 0
) -> list[Replicas]:
    """Return what Kafka's AdminUtils assigns: leaders in turn, followers further and further off.

    `racks` are the brokers' racks; unless all have one, racks do not matter. Kafka begins at
    random, `start` says where.
    """
    known, brokers = None not in racks.values(), sorted(racks)
    if known:  # brokers with their racks in turn
        of_rack: defaultdict[str, list[int]] = defaultdict(list)
        for broker in brokers:
            of_rack[racks[broker] or ""].append(broker)
        turns = zip_longest(*(of_rack[rack] for rack in sorted(of_rack)))
        brokers = [broker for turn in turns for broker in turn if broker is not None]
    count, steps = len(brokers), len(set(racks.values())) if known else 1
    assignments = []
    for partition in range(partitions):
        first, shift = (partition + start) % count, (start + partition // count) * steps
        chosen, k = [brokers[first]], 0
        while len(chosen) < replicas:
            broker = brokers[(first + 1 + (shift + k) % (count - 1)) % count]
            k += 1
            used = {racks[b] for b in chosen}
            is_fresh = not known or racks[broker] not in used or len(used) == steps
            if is_fresh and broker not in chosen:
                chosen.append(broker)
        assignments.append(tuple(chosen))
    return assignments


def place_by_load(
    state: ClusterState, load: Load, partitions: int, replicas: int, expected: Expected
) -> list[Replicas]:
    """Return the placement that leaves brokers as even as can be, partition by partition.

    Racks come first, then brokers with room, then where it costs least evenness; who has least to
    lead and to send leads.
    """
    given = build_problem(state, load)
    on = Placement(given)
    item = _replica_load(given.items, load, replicas, expected)
    coming = item * partitions
    coming[list(REPLICA_MEASURES)] *= replicas
    whole = (on.carried[given.counts].sum(axis=0) + coming)[None, :] * given.parts
    share = np.divide(1.0, whole, out=np.zeros_like(whole), where=whole > 0)
    loads, more = on.carried * share, item[None, :] * share
    able = np.flatnonzero(given.takes)
    racks, room, size = given.racks, given.room_bytes.copy(), float(item[Measure.DISK])
    assignments = []
    for _ in range(partitions):
        chosen: list[int] = []
        for _ in range(replicas):
            used = Counter(int(racks[b]) for b in chosen if racks[b] != NOBODY)
            used[NOBODY] = 1  # without a rack: behind racks that are not used yet
            left = [int(b) for b in able if b not in chosen]
            fewest = min(used[int(racks[b])] for b in left)
            fresh = np.array([b for b in left if used[int(racks[b])] == fewest])
            roomy = size <= np.minimum(room, given.largest_bytes)[fresh]
            fresh = fresh[roomy] if roomy.any() else fresh
            best = int(fresh[np.argmin(_cost(loads, more, fresh, REPLICA_MEASURES))])
            chosen.append(best)
            room[best] -= size
            loads[best, list(REPLICA_MEASURES)] += more[best, list(REPLICA_MEASURES)]
        rows = np.array(chosen)
        order = rows[np.argsort(_cost(loads, more, rows, LEADER_MEASURES), kind="stable")]
        loads[order[0], list(LEADER_MEASURES)] += more[order[0], list(LEADER_MEASURES)]
        assignments.append(tuple(given.ids[order].tolist()))
    return assignments


def without_rack(state: ClusterState) -> list[str]:
    """Say which brokers that are up have no rack while others have one."""
    racked = {broker.id: broker.rack is not None for broker in state.brokers if broker.alive}
    bare = [id for id, has_one in racked.items() if not has_one]
    if not bare or len(bare) == len(racked):
        return []
    they = "it comes" if len(bare) == 1 else "they come"
    return [
        f"{brokers_do(bare, 'has', 'have')} no rack while others have one: {they} after racks that "
        "are not used yet; set broker.rack."
    ]


def without_room(
    state: ClusterState, load: Load, layout: Sequence[Replicas], expected: Expected
) -> list[str]:
    """Say which brokers have no room for what new partitions are expected to bring them."""
    given = build_problem(state, load)
    size = float(_replica_load(given.items, load, 1, expected)[Measure.DISK])
    brings = Counter(broker for replicas in layout for broker in replicas)
    sentences = []
    for row, broker in enumerate(given.ids.tolist()):
        room, count = float(given.room_bytes[row]), brings[broker]
        if count and (count * size > room or size > given.largest_bytes[row]):
            replicas = counted(count, "replica")
            sentences.append(
                f"Broker {broker} has no room for what {replicas} of {format_bytes(size)} bring: "
                f"{format_bytes(room)} may be filled; add disk, or expect less."
            )
    return sentences


def _replica_load(items: Float64, load: Load, replicas: int, expected: Expected) -> Float64:
    """Return what one replica (its leader, for measures of leaders) of a new partition adds."""
    usual = items.mean(axis=0) if len(items) else np.zeros(MEASURES)
    read = float(np.nan_to_num(load.out_bytes_per_s).mean()) if len(items) else 0.0
    rate, size = expected.in_bytes_per_s, expected.size_bytes
    if rate is not None and usual[Measure.IN] > 0:
        read *= rate / float(usual[Measure.IN])
    rate = float(usual[Measure.IN]) if rate is None else rate
    item = np.zeros(MEASURES)
    item[Measure.DISK] = usual[Measure.DISK] if size is None else size
    item[Measure.IN] = item[Measure.LEADER_IN] = rate
    item[Measure.REPLICAS] = item[Measure.LEADERS] = 1
    item[Measure.OUT] = item[Measure.MAY_SEND] = read + rate * (replicas - 1)
    return item


def _cost(loads: Float64, more: Float64, rows: np.ndarray, measures: Sequence[Measure]) -> Float64:
    """Return how much further from even each of these brokers gets by one replica more."""
    columns = np.array(measures)
    now, adds = loads[np.ix_(rows, columns)], more[np.ix_(rows, columns)]
    return np.asarray(((now + adds) ** 2 - now**2).sum(axis=1))
