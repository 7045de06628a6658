"""What a plan cannot mend, in sentences: what is not known, too big, too few or limited. Pure."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from core.cluster.state import Int64
from core.load.snapshot import Load
from core.plan.disk_room import disks_of, whole_bytes
from core.plan.plan import Plan
from core.plan.planner.fields import Field, Names
from core.plan.planner.led import carried, electable, leaders
from core.plan.planner.limits import INF
from core.plan.planner.measures import LED, SHOWN, Measure
from core.plan.planner.placement import TINY, Placement
from core.plan.planner.problem import NOBODY, Problem
from core.plan.planner.stuck import NAMED
from core.plan.planner.wanted import Wanted, chosen
from core.units import counted, format_bytes, format_rate

WHOLE = (Measure.IN, Measure.OUT, Measure.DISK)
"""Measures of which one partition may be more than a broker's share."""


def unknown(given: Problem, load: Load, wanted: Wanted, names: Names) -> list[str]:
    """Say how much of the load is not known: it is never taken for idle without a word."""
    state = given.state
    notes = []
    rates = int(np.isnan(load.in_bytes_per_s).sum())
    if rates:
        notes.append(
            f"What is produced to {rates:,} of {state.partition_count:,} partitions is not known: "
            + (
                "it is taken to be what it is for the others, by size."
                if rates < state.partition_count
                else "they are planned for by size and count."
            )
        )
    reads = int((np.isnan(load.out_bytes_per_s) & ~np.isnan(load.in_bytes_per_s)).sum())
    if reads:
        notes.append(
            f"What is read of {reads:,} of {state.partition_count:,} partitions is not known: "
            + (
                "it is taken to be what it is for the others, by what is produced."
                if (~np.isnan(load.out_bytes_per_s)).any()
                else "of what they send only what followers fetch is counted."
            )
        )
    sizes = int((state.partition_size_bytes < 0).sum())
    if sizes:
        notes.append(
            f"The size of {sizes:,} of {state.partition_count:,} partitions is not known: "
            f"{_unsized(given, wanted, names)}."
        )
    return notes


def _unsized(given: Problem, wanted: Wanted, names: Names) -> str:
    """Say what comes of partitions of which no size is known."""
    if wanted.leaders_only:
        return "shares of disk are counted without them"
    if wanted.limits.most_bytes < INF:
        return f"they are not copied, as {names[Field.MAX_BYTES]} cannot be held against them"
    if np.isfinite(given.room_bytes[given.counts]).any():
        return "they are copied to no broker that tells its free disk"
    return "what they copy is not counted"


def alone(given: Problem) -> list[str]:
    """Say that there are no two brokers between which anything could be evened out."""
    up, of = int(given.counts.sum()), given.brokers
    if up > 1 or of < 2:
        return []
    who = f"Only broker {given.ids[given.counts][0]}" if up else "None"
    return [f"{who} of {of} brokers is up and may take part: nothing can be evened out."]


def left_alone(given: Problem) -> list[str]:
    """Say which partitions are left as they are though they may be touched, and why."""
    state, still = given.state, given.asked & ~given.movable
    moving = state.moving
    leaderless = (state.leader < 0) & ~moving
    counts = {
        "moving already": int((still & moving).sum()),
        "without a leader": int((still & leaderless).sum()),
        "out of sync or on a broker that is down": int((still & ~moving & ~leaderless).sum()),
    }
    return [
        f"{counted(count, 'partition')} {'is' if count == 1 else 'are'} {words} and left as "
        f"{'it is' if count == 1 else 'they are'}."
        for words, count in counts.items()
        if count
    ]


def not_empty(on: Placement, wanted: Wanted) -> list[str]:
    """Say that brokers keep replicas of topics that were not chosen, though others leave them."""
    given = on.problem
    leaving = np.isin(given.ids, np.array(wanted.leaving, np.int32))
    held = leaving[on.at] & (on.at != NOBODY) & ~chosen(given.state, wanted)[:, None]
    if not held.any():
        return []
    brokers = np.unique(on.at[held])
    one = len(brokers) == 1
    return [
        f"{_brokers(given.ids[brokers].tolist()).capitalize()} {'is' if one else 'are'} not empty "
        f"then: {counted(int(held.sum()), 'replica')} of topics that were not chosen "
        f"{'stays' if held.sum() == 1 else 'stay'} on {'it' if one else 'them'}."
    ]


def fixed(on: Placement, wanted: Wanted, names: Names) -> list[str]:
    """Say on which broker what may not be touched is more than the band allows, by itself."""
    given, measures = on.problem, _told(on, wanted)
    shares = on.shares_of(~given.asked)[:, measures]
    over = np.where(given.counts[:, None], shares - 1 - given.band, 0.0)
    if over.max(initial=0.0) <= TINY:
        return []
    broker, column = np.unravel_index(int(over.argmax()), over.shape)
    are, them, do = "are", "them", "choose more"
    if wanted.keep:
        who, are, them = f"What {names[Field.KEEP]} leaves alone", "is", "it"
        do = "lift it for some"
    elif wanted.topics:
        who = "Topics that were not chosen"
    else:
        who, do = "Partitions that are to rest", "wait for them"
    return [
        f"{who} {are} {shares[broker, column]:.0%} of broker {given.ids[broker]}'s share of "
        f"{Measure(measures[column]).words}: no plan evens that out beside {them}; {do}."
    ]


def full(on: Placement) -> list[str]:
    """Say which brokers had no disk left for what would have helped."""
    rows = np.flatnonzero(on.short_of_room)
    if not len(rows):
        return []
    most = max(0.0, float(on.one_room_bytes[rows].max()))
    ids = on.problem.ids[rows].tolist()
    return [
        f"{_have(ids)} no disk left for what would help ({format_bytes(most)} may be filled at "
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


def capacities(given: Problem) -> list[str]:
    """Say what is not known of brokers: racks of some, capacities of some, all disks' sizes."""
    ids = given.ids[given.counts].tolist()
    known = [given.state.broker_by_id[broker] for broker in ids]
    notes = []
    bare = [broker.id for broker in known if broker.rack is None]
    if 0 < len(bare) < len(known) and (given.racks != NOBODY).any():
        notes.append(
            f"{_have(bare)} no rack while others have one: nothing goes there from a rack; "
            "set broker.rack."
        )
    unsized = [b.id for b in known if whole_bytes(disks_of(b.log_dirs)) is None]
    if 0 < len(unsized) < len(known):
        notes.append(
            f"{_have(unsized)} disks of unknown size: shares of disk are equal parts, "
            "and nothing keeps those from filling up."
        )
    for side, capacity in (
        ("in", [b.in_capacity_bytes_per_s for b in known]),
        ("out", [b.out_capacity_bytes_per_s for b in known]),
    ):
        absent = [b.id for b, size in zip(known, capacity, strict=True) if not size]
        if 0 < len(absent) < len(known):
            notes.append(
                f"{_have(absent)} no capacity of {side}: shares of it are equal parts; "
                "give all brokers one, or none."
            )
    return notes


def no_disk_sizes(given: Problem, copies: int) -> list[str]:
    """Say that nothing is known of disks, where a plan copies to them."""
    known = [given.state.broker_by_id[broker] for broker in given.ids[given.counts].tolist()]
    if not copies or any(whole_bytes(disks_of(b.log_dirs)) is not None for b in known):
        return []
    return ["No broker tells the size of its disks: nothing keeps them from filling up."]


def kept(plan: Plan, leaving: Set[int]) -> list[str]:
    """Say which moves that are planned already leave replicas on brokers that are to have none."""
    found = [str(move.tp) for move in plan if not leaving.isdisjoint(move.after)]
    if not found:
        return []
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return [
        f"{', '.join(found[:NAMED])}{more}: what is planned already leaves replicas on brokers "
        "that are to have none; drop it, and plan again."
    ]


def few_racks(given: Problem, replicas: int | None) -> list[str]:
    """Say that replicas have to share racks, whatever the plan; `replicas` are wanted of each."""
    state, known = given.state, given.state.broker_by_id
    there = [(one := known.get(b)) is not None and one.alive for b in given.ids.tolist()]
    racks = given.racks[np.array(there) & (given.counts | ~given.gives)]
    kinds = len(np.unique(racks[racks != NOBODY]))
    if not kinds:
        return ["No broker has a rack, so that none is shared or not: set broker.rack."]
    staying = state.partition_of_replica[~state.removing]
    held = np.bincount(staying, minlength=state.partition_count)[given.asked]
    most = replicas or int(held.max(initial=0))
    if most <= kinds:
        return []
    rows = len(held) if replicas else int((held > kinds).sum())
    where = "one rack" if kinds == 1 else f"{kinds} racks"
    return [
        f"{counted(rows, 'partition')} with up to {most} replicas in {where}: some share one "
        "whatever the plan; add brokers in another rack."
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
        hit.append((Field.MAX_PER_BROKER, f"{_brokers(full)} can take part in no more"))
    if limits.time_is_up(on):
        hit.append((Field.TIME_BUDGET, "it is over"))
    return [
        f"{names[field]} allows no more: {why}; raise it, or plan again when this is done."
        for field, why in hit
    ]


def over_capacity(start: Placement, found: Placement, wanted: Wanted, names: Names) -> list[str]:
    """Say which brokers end above what they can carry, one sentence for each measure.

    Where only what has to move does, not those that were so before and get no more. Where others
    lead than the preferred replicas, both count: what brokers carry at first, and once leaders have
    been elected. Brokers that the plan may not give anything can still be handed leadership.
    """
    given, notes = found.problem, []
    ways = [
        (start.carried, found.carried),
        (carried(start, leaders(start)), carried(found, leaders(found))),
    ]
    sure = ways
    if given.sure is not given.items:  # by a guess it may be less, and by what is known more
        sure = [
            (start.surely_carried, found.surely_carried),
            (
                carried(start, leaders(start), surely=True),
                carried(found, leaders(found), surely=True),
            ),
        ]
    limited_at_all = np.asarray(np.isfinite(given.capacity).any(axis=0))
    for measure in Measure:
        if not limited_at_all[measure] or (wanted.leaders_only and measure not in LED):
            continue
        most, ends = given.capacity[:, measure], np.zeros(given.brokers)
        for (before, after), (surely, then) in zip(ways, sure, strict=True):
            over = after[:, measure] > most * (1 + TINY)
            more = after[:, measure] > before[:, measure] * (1 + TINY)
            more |= then[:, measure] > surely[:, measure] * (1 + TINY)
            over &= more if wanted.forces else more | given.counts
            ends = np.where(over, np.maximum(ends, after[:, measure]), ends)
        rows = sorted(np.flatnonzero(ends).tolist(), key=lambda row: most[row] - ends[row])
        if not rows:
            continue
        end, can = ends[rows[0]], most[rows[0]]
        if measure is Measure.REPLICAS:
            words = f"with {end:.0f} replicas; {names[Field.MAX_REPLICAS]} allows {can:.0f}"
        else:
            does = "take in" if measure is Measure.IN else "send"
            words = f"at {format_rate(end)} {measure.words}; it can {does} {format_rate(can)}"
        others = given.ids[rows[1:]].tolist()
        too = f" (above theirs, too: {_brokers(others)})" if others else ""
        if not given.counts[rows[0]]:
            help = "it comes to lead what others give up; plan with it, too"
        elif found.carried[rows[0], measure] > can * (1 + TINY):
            help = "add brokers, or carry less"
        elif electable(found)[leaders(found) == rows[0]].any():
            help = "trimtab elect gives leaders back first"
        else:
            help = "what it leads for others goes back once they are up and in sync"
        notes.append(f"Broker {given.ids[rows[0]]} ends {words}{too}: {help}.")
    return notes


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


def _brokers(ids: Sequence[int]) -> str:
    return f"{'broker' if len(ids) == 1 else 'brokers'} {','.join(map(str, ids))}"


def _have(ids: Sequence[int]) -> str:
    return f"{_brokers(ids).capitalize()} {'has' if len(ids) == 1 else 'have'}"
