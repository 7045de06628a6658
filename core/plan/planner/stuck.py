"""What has to move and cannot: why each replica stays, told in sentences. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from core.cluster.state import Bool, ClusterState, Int32
from core.plan.planner.fields import Field, Names
from core.plan.planner.measures import Measure
from core.plan.planner.placement import Placement
from core.plan.planner.problem import Problem
from core.units import counted, format_bytes

NAMED = 3
"""Partitions that a sentence names."""


class Obstacle(Enum):
    """What keeps a replica from going anywhere, beside limits; the values finish a sentence."""

    MOVING = "moving already; plan again when that has ended"
    LEADERLESS = "without a leader; bring its brokers up first"
    BEHIND = "out of sync or on a broker that is down; plan again when they are in sync"
    LEFT_ALONE = "on brokers that are to be left as they are"
    BROKERS = "no other broker is there that holds none of them; add brokers, or lower their number"
    EXCLUDED = "all other brokers that hold none of them are to be left as they are"
    HOLDS_ONE = "the broker that takes the place holds one already"
    RACKS = "every broker that could take them is in a rack that holds one"
    CAPACITY = "no broker that could take them can take in or send so much more"
    UNSIZED = (
        "their size is not known, so that no limit of bytes and no free disk can be held "
        "against it; ask again when their brokers tell it"
    )
    ROOM = "no broker that could take them has that much disk to fill"


@dataclass(frozen=True, slots=True)
class Stuck:
    """A replica of a partition row that stays on a broker row, or one that cannot come."""

    partition: int
    why: Obstacle | Field


def kept(state: ClusterState, leaving: Collection[int], left_alone: Bool) -> list[Stuck]:
    """Return what stays on brokers, given by their ids, because its topic is one to keep."""
    rows = state.partition_of_replica[staying(state, leaving)]
    return [Stuck(row, Field.KEEP) for row in rows[left_alone[rows]].tolist()]


def staying(state: ClusterState, brokers: Collection[int]) -> Bool:
    """Return which replicas, shape [R], brokers hold that nobody takes off them already."""
    return np.isin(state.replica_broker, np.array([*brokers], np.int32)) & ~state.removing


def untouchable(given: Problem, partition: int) -> Obstacle:
    """Return why a partition that is not movable is not."""
    state = given.state
    at = state.replica_slice(partition)
    if (state.adding[at] | state.removing[at]).any():
        return Obstacle.MOVING
    return Obstacle.LEADERLESS if state.leader[partition] < 0 else Obstacle.BEHIND


def nobody_else(given: Problem, held: Int32) -> Obstacle:
    """Return why there is no broker to take a replica beside those that hold one."""
    known = given.state.broker_by_id
    left = np.setdiff1d(given.ids[~given.gives], given.ids[held]).tolist()
    alive = any((broker := known.get(id)) is not None and broker.alive for id in left)
    return Obstacle.EXCLUDED if alive else Obstacle.BROKERS


def stay(on: Placement, stuck: Sequence[Stuck], names: Names) -> list[str]:
    """Say which replicas stay where they are."""
    return _told(on, stuck, "stay where they are", names)


def stay_doubled(on: Placement, stuck: Sequence[Stuck], names: Names) -> list[str]:
    """Say which replicas go on sharing a rack."""
    return _told(on, stuck, "share a rack with another one", names)


def keep_number(on: Placement, stuck: Sequence[Stuck], wanted: int, names: Names) -> list[str]:
    """Say which partitions do not get the replicas that are wanted."""
    return _told(on, stuck, f"are missing or too many for {wanted} of each partition", names)


def _told(on: Placement, stuck: Sequence[Stuck], do: str, names: Names) -> list[str]:
    """Return a sentence for each reason, the one that most are stuck for first."""
    given = on.problem
    sizes = given.items[:, Measure.DISK]
    whys: dict[Obstacle | Field, list[int]] = {}
    for one in stuck:
        whys.setdefault(one.why, []).append(one.partition)
    found = []
    for why, rows in sorted(whys.items(), key=lambda item: -len(item[1])):
        shown = list(dict.fromkeys(rows))
        listed = ", ".join(str(given.state.tp(row)) for row in shown[:NAMED])
        more = f" and {len(shown) - NAMED} more" if len(shown) > NAMED else ""
        size = float(sizes[rows].sum())
        subject = counted(len(rows), "replica")
        sized = np.isfinite(given.needs_bytes[rows]).all()
        of = format_bytes(size) if sized else "of unknown size"
        found.append(
            f"{subject} ({of}) {_singular(do, len(rows))}, {listed}{more}: "
            f"{_because(on, why, rows, size, names)}."
        )
    return found


def _singular(do: str, count: int) -> str:
    if count != 1:
        return do
    verb, _, rest = do.partition(" ")
    return f"{'is' if verb == 'are' else verb + 's'} {rest}".replace(
        "where they are", "where it is"
    )


def _because(
    on: Placement, why: Obstacle | Field, rows: Sequence[int], size: float, names: Names
) -> str:
    match why:
        case Field.MAX_BYTES:
            needs = f"all of it needs {format_bytes(on.moved_bytes + size)}"
        case Field.MAX_MOVES:
            needs = f"all of it needs {on.moved + len(rows)}"
        case Field.MAX_PER_BROKER:
            needs = "a broker that has to give or take more waits"
        case Field.MAX_REPLICAS:
            return f"{names[why]} allows no broker that could take them more; raise it"
        case Obstacle.ROOM:
            return f"{why.value} ({_most_room(on, rows)}); add disk, or lower retention"
        case Obstacle.CAPACITY:
            return f"{why.value}; add brokers, or lower what is produced"
        case Field.KEEP:
            return f"of topics to keep; lift {names[why]} for what has to go"
        case Obstacle.EXCLUDED:
            return f"{why.value}; lift {names[Field.EXCLUDE]} for one"
        case Obstacle.HOLDS_ONE:
            return f"{why.value}; ask for {names[Field.DRAIN]} instead"
        case Obstacle.RACKS:
            ignore = names[Field.IGNORE_RACKS]
            return f"{why.value}; add one in another rack, or ask for {ignore}"
        case Obstacle():
            return str(why.value)
        case _:
            needs = "give it longer"
    return f"{names[why]} allows no more, {needs}; raise it, or plan the rest when this is done"


def _most_room(on: Placement, rows: Sequence[int]) -> str:
    """Say how much may still be filled of those that do not hold all of these partitions."""
    able = [
        broker
        for broker in np.flatnonzero(on.problem.counts).tolist()
        if not np.isin(rows, on.held(broker)).all()
    ]
    most = max(0.0, float(on.one_room_bytes[able].max(initial=0.0)))
    whole = float(np.maximum(on.room_bytes[able], 0.0).sum())
    return f"{format_bytes(most)} at most, {format_bytes(whole)} in all"
