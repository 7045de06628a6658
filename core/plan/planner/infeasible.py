"""Why replicas cannot move and brokers cannot get even, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from core.cluster.state import Bool, ClusterState, Int32, Int64
from core.plan.planner.model.measures import LEADER_MEASURES, SHOWN, Measure
from core.plan.planner.model.placement import TINY, Placement
from core.plan.planner.model.problem import Problem
from core.plan.planner.plan_request import (
    Field,
    Names,
    PlanRequest,
    chosen_partitions,
    kept_partitions,
    probe_partitions,
)
from core.units import counted, format_bytes, id_list, name_list


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
class InfeasibleReplica:
    """A replica of a partition row that stays on a broker row, or one that cannot come."""

    partition: int
    why: Obstacle | Field


def held_replicas(state: ClusterState, brokers: Collection[int]) -> Bool:
    """Return which replicas, shape [R], brokers hold that nobody takes off them already."""
    return np.isin(state.replica_broker, np.array([*brokers], np.int32)) & ~state.removing


def why_untouchable(given: Problem, partition: int) -> Obstacle:
    """Return why a partition that is not movable is not."""
    state = given.state
    at = state.replica_slice(partition)
    if (state.adding[at] | state.removing[at]).any():
        return Obstacle.MOVING
    return Obstacle.LEADERLESS if state.leader[partition] < 0 else Obstacle.BEHIND


def why_no_broker(given: Problem, held: Int32) -> Obstacle:
    """Return why there is no broker to take a replica beside those that hold one."""
    left = np.setdiff1d(given.ids[~given.gives], given.ids[held]).tolist()
    alive = not set(left).isdisjoint(given.state.alive_ids)
    return Obstacle.EXCLUDED if alive else Obstacle.BROKERS


def infeasible_sentences(
    on: Placement,
    infeasible: Sequence[InfeasibleReplica],
    names: Names,
    do: str = "stay where they are",
) -> list[str]:
    """Say what replicas that no move can help `do`, the commonest reason first."""
    given = on.problem
    sizes = given.items[:, Measure.DISK]
    whys: dict[Obstacle | Field, list[int]] = {}
    for replica in infeasible:
        whys.setdefault(replica.why, []).append(replica.partition)
    sentences = []
    for why, rows in sorted(whys.items(), key=lambda item: -len(item[1])):
        tps = [given.state.tp(row) for row in dict.fromkeys(rows)]
        size = float(sizes[rows].sum())
        sized = np.isfinite(given.needs_bytes[rows]).all()
        of = format_bytes(size) if sized else "of unknown size"
        does = do
        if len(rows) == 1:
            verb, _, rest = do.replace("where they are", "where it is").partition(" ")
            does = f"{'is' if verb == 'are' else verb + 's'} {rest}"
        sentences.append(
            f"{counted(len(rows), 'replica')} ({of}) {does}, {name_list(tps)}: "
            f"{_reason_words(on, why, rows, size, names)}."
        )
    return sentences


def _reason_words(
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
            return f"{why.value} ({_room_text(on, rows)}); add disk, or lower retention"
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


def _room_text(on: Placement, rows: Sequence[int]) -> str:
    """Say how much may still be filled of those that do not hold all of these partitions."""
    able = [
        broker
        for broker in np.flatnonzero(on.problem.counts).tolist()
        if not np.isin(rows, on.held(broker)).all()
    ]
    largest = max(0.0, float(on.one_room_bytes[able].max(initial=0.0)))
    whole = float(np.maximum(on.room_bytes[able], 0.0).sum())
    return f"{format_bytes(largest)} at most, {format_bytes(whole)} in all"


WHOLE = (Measure.IN, Measure.OUT, Measure.DISK)
"""Measures of which one partition may be more than a broker's share."""


def fixed(on: Placement, request: PlanRequest, names: Names) -> list[str]:
    """Say on which broker what may not be touched is more than the band allows, by itself."""
    given, measures = on.problem, _measures_reported(on, request)
    hidden = given.hidden * on.per_share
    shares = (on.shares_of(~given.touchable) + hidden)[:, measures]
    over = np.where(given.counts[:, None], shares - 1 - given.band, 0.0)
    if over.max(initial=0.0) <= TINY:
        return []
    broker, column = (int(at) for at in np.unravel_index(int(over.argmax()), over.shape))
    measure = Measure(measures[column])
    requested = chosen_partitions(given.state, request)
    alone = kept_partitions(given.state, request) & requested
    frozen = np.zeros(len(alone), np.bool_)
    frozen[[row for tp in request.frozen if (row := given.state.find(tp)) is not None]] = True
    probes = probe_partitions(given.state) & ~given.touchable & requested & ~alone & ~frozen
    planned = ~given.touchable & requested & ~alone & ~frozen & ~probes
    causes = [
        (alone, f"What {names[Field.KEEP]} leaves alone is", "it; lift it for some"),
        (~requested, "What was not chosen is", "it; choose more topics"),
        (frozen & requested & ~alone, "What is to rest is", "it; wait"),
        (probes, "What clients are probed on is", "it; trimtab probe --remove"),
        (planned, "What is planned already is", "it; drop some"),
    ]
    parts = [(float(on.shares_of(rows)[broker, measure]), who, do) for rows, who, do in causes]
    show = "them; allow DESCRIBE on them, and they can be moved"
    parts.append((float(hidden[broker, measure]), "Topics that are hidden are", show))
    share, who, do = max(parts, key=lambda part: part[0])
    if share <= 1 + given.band:  # only all of them together are too much
        who, do, share = "What may not be touched is", "it", float(shares[broker, column])
    return [
        f"{who} {share:.0%} of broker {given.ids[broker]}'s share of {measure.words}: no plan "
        f"evens that out beside {do}."
    ]


def full(on: Placement) -> Iterator[str]:
    """Say which brokers had no disk left for what would have helped."""
    rows = np.flatnonzero(on.short_of_room)
    if len(rows):
        largest = max(0.0, float(on.one_room_bytes[rows].max()))
        have = brokers_do(on.problem.ids[rows].tolist(), "has", "have")
        yield (
            f"{have} no disk left for what would help ({format_bytes(largest)} may be "
            "filled at most); add disk, or lower retention."
        )


def _measures_reported(on: Placement, request: PlanRequest) -> Int64:
    """Return the measures that are to be even, and that an operator is told of."""
    measures = LEADER_MEASURES if request.leaders_only else SHOWN
    return np.array([m for m in measures if on.problem.active[m]], np.int64)


def not_found(on: Placement, request: PlanRequest) -> list[str]:
    """Say which broker ends furthest outside the band, where nothing is known to be in the way."""
    measures = _measures_reported(on, request)
    off = on.off_by(measures)
    if off.max(initial=0.0) <= TINY:
        return []
    broker, column = np.unravel_index(int(off.argmax()), off.shape)
    measure = Measure(measures[column])
    tried = "change of leaders" if request.leaders_only else "move, swap or change of leaders"
    return [
        f"Broker {on.problem.ids[broker]} ends at {on.loads[broker, measure]:.0%} of its share of "
        f"{measure.words}: no {tried} was found that brings it nearer."
    ]


def limited(on: Placement, request: PlanRequest, names: Names) -> list[str]:
    """Say which limits may have kept a plan from doing more; that of bytes where it surely did."""
    given, limits = on.problem, request.limits
    hit = []
    if on.short_of_bytes:
        used = format_bytes(on.moved_bytes)
        hit.append((Field.MAX_BYTES, f"{used} of {format_bytes(limits.max_bytes)} are used"))
    if on.moved >= limits.max_moves:
        hit.append((Field.MAX_MOVES, f"all {on.moved} are used"))
    if not limits.ready(on).all():
        full = given.ids[~limits.ready(on)].tolist()
        hit.append((Field.MAX_PER_BROKER, f"{broker_list(full)} can take part in no more"))
    if limits.time_is_up(on):
        hit.append((Field.TIME_BUDGET, "it is over"))
    return [
        f"{names[field]} allows no more: {why}; raise it, or plan again when this is done."
        for field, why in hit
    ]


def small_racks(given: Problem) -> list[str]:
    """Name brokers that carry more because their rack has few: no plan that keeps racks helps."""
    measure = Measure.DISK if given.active[Measure.DISK] else Measure.REPLICAS
    with np.errstate(divide="ignore", invalid="ignore"):
        more = np.where(given.counts, given.parts[:, measure] / given.even_parts[:, measure], 0.0)
    peak = float(np.nan_to_num(more).max(initial=0.0))
    if peak <= 1 + given.band:
        return []
    have = brokers_do(given.ids[more >= peak - 1e-6].tolist(), "has", "have")
    return [
        f"{have} to carry {peak:.0%} of the mean: few brokers in the rack hold a replica of every "
        "partition. No plan that keeps racks evens that out; shares are counted by rack."
    ]


def too_big(on: Placement, request: PlanRequest, *, stopped: bool) -> list[str]:
    """Name partitions that alone are more than a broker's share and the band: no plan helps.

    Where nothing else `stopped` the plan, also the largest movable one that is wider than the band.
    """
    given, notes = on.problem, []
    for measure in WHOLE:
        if request.leaders_only and measure not in LEADER_MEASURES:
            continue
        whole = given.items[:, measure] * (1 if measure is Measure.OUT else given.held)
        share = whole.sum() * given.parts[given.counts, measure].max(initial=0.0)
        if not share > 0:
            continue
        largest = np.argsort(-given.items[:, measure], kind="stable")[:3].tolist()
        parts = [float(given.items[row, measure] / share) for row in largest]

        def named(row: int, part: float, of: Measure = measure) -> str:
            return f"{given.state.tp(row)} alone is {part:.0%} of a broker's share of {of.words}: "

        wide = [part > 1 + given.band for part in parts]
        notes += [
            f"{named(row, part)}no plan evens that out; split the topic."
            for row, part, is_wide in zip(largest, parts, wide, strict=True)
            if is_wide
        ]
        off = bool(on.off_by(np.array([measure])).any()) and not stopped
        requested = np.where(given.touchable, given.items[:, measure], 0.0)
        row = int(requested.argmax())
        part = float(requested[row] / share)
        if off and not wide[0] and part > 2 * given.band:
            notes.append(
                f"{named(row, part)}pieces of that size hardly fit a band of ±{given.band:.0%}; "
                "split the topic, or widen the band."
            )
    return notes


def broker_list(ids: Sequence[int]) -> str:
    """Return brokers by their ids, as in the middle of a sentence."""
    return f"{'broker' if len(ids) == 1 else 'brokers'} {id_list(ids)}"


def brokers_do(ids: Sequence[int], singular: str, many: str) -> str:
    """Return what brokers do, as a sentence begins: the verb is `singular` of one broker."""
    return f"{broker_list(ids).capitalize()} {singular if len(ids) == 1 else many}"
