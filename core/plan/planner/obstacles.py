"""What keeps brokers from getting even, in sentences: full disks, limits, what is too big. Pure."""

from __future__ import annotations

import numpy as np

from core.cluster.state import Int64
from core.plan.planner.fields import Field, Names
from core.plan.planner.measures import LED, SHOWN, Measure
from core.plan.planner.notes import have, some
from core.plan.planner.placement import TINY, Placement
from core.plan.planner.problem import Problem
from core.plan.planner.wanted import Wanted, chosen, probed, to_keep
from core.units import format_bytes

WHOLE = (Measure.IN, Measure.OUT, Measure.DISK)
"""Measures of which one partition may be more than a broker's share."""


def fixed(on: Placement, wanted: Wanted, names: Names) -> list[str]:
    """Say on which broker what may not be touched is more than the band allows, by itself."""
    given, measures = on.problem, _told(on, wanted)
    hidden = given.hidden * on.per_share
    shares = (on.shares_of(~given.asked) + hidden)[:, measures]
    over = np.where(given.counts[:, None], shares - 1 - given.band, 0.0)
    if over.max(initial=0.0) <= TINY:
        return []
    broker, column = (int(at) for at in np.unravel_index(int(over.argmax()), over.shape))
    measure = Measure(measures[column])
    asked = chosen(given.state, wanted)
    alone = to_keep(given.state, wanted) & asked
    resting = np.zeros(len(alone), np.bool_)
    resting[[row for tp in wanted.resting if (row := given.state.find(tp)) is not None]] = True
    probes = probed(given.state) & ~given.asked & asked & ~alone & ~resting
    planned = ~given.asked & asked & ~alone & ~resting & ~probes
    causes = [
        (alone, f"What {names[Field.KEEP]} leaves alone is", "it; lift it for some"),
        (~asked, "What was not chosen is", "it; choose more topics"),
        (resting & asked & ~alone, "What is to rest is", "it; wait"),
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


def full(on: Placement) -> list[str]:
    """Say which brokers had no disk left for what would have helped."""
    rows = np.flatnonzero(on.short_of_room)
    if not len(rows):
        return []
    most = max(0.0, float(on.one_room_bytes[rows].max()))
    ids = on.problem.ids[rows].tolist()
    return [
        f"{have(ids)} no disk left for what would help ({format_bytes(most)} may be filled at "
        "most); add disk, or lower retention."
    ]


def _told(on: Placement, wanted: Wanted) -> Int64:
    """Return the measures that are to be even, and that an operator is told of."""
    known = (m for m in SHOWN if on.problem.active[m])
    return np.array([m for m in known if m in LED or not wanted.leaders_only], np.int64)


def not_found(on: Placement, wanted: Wanted) -> list[str]:
    """Say which broker ends furthest outside the band, where nothing is known to be in the way."""
    measures = _told(on, wanted)
    off = on.off_by(measures)
    if off.max(initial=0.0) <= TINY:
        return []
    broker, column = np.unravel_index(int(off.argmax()), off.shape)
    measure = Measure(measures[column])
    tried = "change of leaders" if wanted.leaders_only else "move, swap or change of leaders"
    return [
        f"Broker {on.problem.ids[broker]} ends at {on.loads[broker, measure]:.0%} of its share of "
        f"{measure.words}: no {tried} was found that brings it nearer."
    ]


def limited(on: Placement, wanted: Wanted, names: Names) -> list[str]:
    """Say which limits may have kept a plan from doing more; that of bytes where it surely did."""
    given, limits = on.problem, wanted.limits
    hit = []
    if on.short_of_bytes:
        used = format_bytes(on.moved_bytes)
        hit.append((Field.MAX_BYTES, f"{used} of {format_bytes(limits.most_bytes)} are used"))
    if on.moved >= limits.most_moves:
        hit.append((Field.MAX_MOVES, f"all {on.moved} are used"))
    if not limits.ready(on).all():
        full = given.ids[~limits.ready(on)].tolist()
        hit.append((Field.MAX_PER_BROKER, f"{some(full)} can take part in no more"))
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
    most = float(np.nan_to_num(more).max(initial=0.0))
    if most <= 1 + given.band:
        return []
    alike = [str(broker) for broker in given.ids[more >= most - 1e-6].tolist()]
    who = f"Broker {alike[0]} has" if len(alike) == 1 else f"Brokers {','.join(alike)} have"
    return [
        f"{who} to carry {most:.0%} of the mean: few brokers in the rack hold a replica of every "
        "partition. No plan that keeps racks evens that out; shares are counted by rack."
    ]


def too_big(on: Placement, wanted: Wanted, *, stopped: bool) -> list[str]:
    """Name partitions that alone are more than a broker's share and the band: no plan helps.

    Where brokers end outside the band though nothing else `stopped` the plan, also the largest that
    is more than the band is wide, and may be moved.
    """
    given, notes = on.problem, []
    for measure in WHOLE:
        if wanted.leaders_only and measure not in LED:
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
        asked = np.where(given.asked, given.items[:, measure], 0.0)
        row = int(asked.argmax())
        part = float(asked[row] / share)
        if off and not wide[0] and part > 2 * given.band:
            notes.append(
                f"{named(row, part)}pieces of that size hardly fit a band of ±{given.band:.0%}; "
                "split the topic, or widen the band."
            )
    return notes
