"""The planner: from what an operator wants to a whole plan, its effect, and what no plan can do.

What has to move goes first (brokers that leave, racks). Then leaders are chosen among the
replicas that there are; only when that is not enough do data move, and leaders are chosen anew.
The same input gives the same plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from core.cluster.state import Bool, ClusterState, TopicPartition
from core.errors import UsageError
from core.load.snapshot import Float64, Load
from core.plan.plan import Move, Plan
from core.plan.planner import forced
from core.plan.planner.leading import even_leaders
from core.plan.planner.measures import HOSTED, LED, MEASURES, SHOWN, Measure
from core.plan.planner.moving import NO_LIMITS, Limits, Moving
from core.plan.planner.placement import Placement
from core.plan.planner.problem import BAND, NOBODY, Problem, problem
from core.units import format_bytes


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an operator wants of a plan; ids are brokers' and patterns are of topic names."""

    leaders_only: bool = False
    drain: tuple[int, ...] = ()
    fill: tuple[int, ...] = ()
    """Brokers that alone receive: new ones."""
    replace: tuple[tuple[int, int], ...] = ()
    racks_only: bool = False
    replicas: int | None = None
    """How many replicas every partition should have."""
    exclude: tuple[int, ...] = ()
    topics: str | None = None
    keep: str | None = None
    band: float = BAND
    limits: Limits = NO_LIMITS


@dataclass(frozen=True, slots=True)
class Because:
    """Why a partition is in a plan: a broker's measure before and after all of it, in shares."""

    broker: int
    measure: Measure
    before: float
    after: float

    @property
    def words(self) -> str:
        return f"b{self.broker} {self.measure.words} {self.before:.0%} → {self.after:.0%}"


@dataclass(frozen=True, eq=False)
class Suggested:
    """A whole plan. `before` and `after` are [B, MEASURES] in fair shares, 1 is even."""

    plan: Plan
    brokers: tuple[int, ...]
    counts: Bool
    """Which of them should carry their fair share."""
    active: Bool
    """Which measures are known."""
    before: Float64
    after: Float64
    moves: int
    leader_moves: int
    bytes: int
    because: Mapping[TopicPartition, Because] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    undone: bool = False
    """Whether something that had to move stays where it is; a note says what."""

    def within(self, band: float, *, leaders_only: bool = False) -> bool:
        """Return whether every broker that counts ends within the band in all known measures."""
        columns = [m for m in SHOWN if self.active[m] and (m in LED or not leaders_only)]
        off = np.abs(self.after[self.counts][:, columns] - 1)
        return not off.size or bool(off.max() <= band + 1e-9)


def suggest(state: ClusterState, load: Load, wanted: Wanted) -> Suggested:
    """Return the plan for what is wanted; raises UsageError for wants that contradict."""
    _refuse(state, wanted)
    old = tuple(one for one, _ in wanted.replace)
    asked = partial(
        problem,
        state,
        load,
        band=wanted.band,
        excluded=wanted.exclude,
        leaving=(*wanted.drain, *old),
        filling=wanted.fill or None,
        frozen=_frozen(state, wanted),
    )
    given = asked(replicas_wanted=wanted.replicas)
    start = Placement(given if wanted.replicas is None else asked())
    found, undone = _forced(given, wanted) if _must_move(wanted) else (_evened(given, wanted), [])
    return _told(
        start,
        found,
        [*_unknown(state, load), *undone, *_small_racks(given), *_too_big(given)],
        bool(undone),
    )


def _must_move(wanted: Wanted) -> bool:
    return bool(wanted.replace or wanted.drain or wanted.racks_only or wanted.replicas)


def _forced(given: Problem, wanted: Wanted) -> tuple[Placement, list[str]]:
    """Return where replicas go that must go, and what could not be done, in sentences."""
    on, limits = Placement(given), wanted.limits
    row = {int(broker): at for at, broker in enumerate(given.ids)}
    if wanted.replace:
        pairs = [(row[old], row[new]) for old, new in wanted.replace]
        return on, _stays(given, forced.replace(on, pairs, limits))
    if wanted.drain:
        return on, _stays(given, forced.empty(on, [row[b] for b in wanted.drain], limits))
    if wanted.replicas is not None:
        less = forced.resize(on, wanted.replicas, limits)
        why = f"cannot have {wanted.replicas} replicas: too few brokers have room, or a limit."
        return on, [f"{len(less)} partitions {why}"] if less else []
    doubled = forced.repair_racks(on, np.flatnonzero(given.movable), limits)
    why = "keep two replicas in one rack: no broker of another rack has room, or they are moving."
    return on, [f"{len(doubled)} partitions {why}"] if doubled else []


def _evened(given: Problem, wanted: Wanted) -> Placement:
    """Return brokers made even: by leaders alone where that is enough, else by copies too.

    What ends worse than it began, because nothing can be evened out, is not proposed.
    """
    led = Placement(given)
    if not wanted.fill:
        even_leaders(led)
        if wanted.leaders_only or not _off(led):
            return led
    on = Placement(given)
    Moving(on, HOSTED, wanted.limits).carry_out()
    even_leaders(on)
    if on.off_by(np.array(LED)).any():
        Moving(on, tuple(Measure), wanted.limits).carry_out()
        even_leaders(on)
    return min((Placement(given), led, on), key=_off) if not wanted.fill else on


def _off(on: Placement) -> float:
    """Return how far a placement is from the band, all in all."""
    return float((on.off_by(np.arange(MEASURES)) ** 2).sum())


# -- what is wanted ------------------------------------------------------------------------------


def _refuse(state: ClusterState, wanted: Wanted) -> None:
    """Raise UsageError for brokers that do not exist, and for wants that contradict each other."""
    known = state.broker_by_id
    old = [one for one, _ in wanted.replace]
    new = [other for _, other in wanted.replace]
    for broker in (*wanted.drain, *wanted.fill, *wanted.exclude, *old, *new):
        if broker not in known:
            raise UsageError(
                f"There is no broker {broker}.",
                next=f"The brokers are {', '.join(map(str, state.broker_ids.tolist()))}.",
            )
    for broker in (*wanted.fill, *new):
        if not known[broker].alive:
            raise UsageError(
                f"Broker {broker} is down and cannot receive anything.", next="Start it first."
            )
    asked = {
        "--leaders": wanted.leaders_only,
        "--drain": bool(wanted.drain),
        "--add": bool(wanted.fill),
        "--replace": bool(wanted.replace),
        "--racks": wanted.racks_only,
        "--rf": wanted.replicas is not None,
    }
    chosen = [name for name, is_asked in asked.items() if is_asked]
    if len(chosen) > 1:
        raise UsageError(
            f"{' and '.join(chosen)} want different things.", next="Ask for one plan at a time."
        )
    alive = sum(broker.alive for broker in state.brokers)
    if wanted.replicas is not None and not 1 <= wanted.replicas <= alive:
        raise UsageError(
            f"{wanted.replicas} replicas on {alive} brokers that are up: one each at most.",
            next=f"Ask for 1 to {alive}.",
        )
    both = set(wanted.drain) & set(wanted.exclude)
    if both:
        raise UsageError(
            f"Broker {min(both)} is to be drained and to be left as it is.",
            next="Take it out of --drain or of --exclude.",
        )


def _frozen(state: ClusterState, wanted: Wanted) -> Bool:
    """Return the partitions that must not be touched, by their topics' names."""
    names = [topic.name for topic in state.topics]
    only = _pattern(wanted.topics, "--topics") if wanted.topics else None
    keep = _pattern(wanted.keep, "--keep") if wanted.keep else None
    touched = np.array(
        [
            (only is None or bool(only.fullmatch(name)))
            and not (keep is not None and keep.fullmatch(name))
            for name in names
        ],
        np.bool_,
    )
    if len(names) and not touched.any():
        raise UsageError(
            "No topic is left to plan for.", next="Check the patterns of --topics and --keep."
        )
    return ~touched[state.topic_of]


def _pattern(text: str, option: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(
            f"{option} {text} is no regular expression: {error}.", next="Mend the pattern."
        ) from error


# -- what is told --------------------------------------------------------------------------------


def _unknown(state: ClusterState, load: Load) -> list[str]:
    """Say how much of the load is not known: it is never taken for idle without a word."""
    notes = []
    rates = int(np.isnan(load.in_bytes_per_s).sum())
    if rates:
        notes.append(
            f"What is produced to {rates} of {state.partition_count} partitions is not known: "
            "they are planned for by size and count."
        )
    sizes = int((state.partition_size_bytes < 0).sum())
    if sizes:
        notes.append(f"The size of {sizes} partitions is not known.")
    still = int((state.leader < 0).sum())
    if still:
        notes.append(f"{still} partitions have no leader and are left as they are.")
    return notes


def _small_racks(given: Problem) -> list[str]:
    """Name brokers that carry more because their rack has few: no plan that keeps racks helps."""
    measure = Measure.DISK if given.active[Measure.DISK] else Measure.REPLICAS
    with np.errstate(divide="ignore", invalid="ignore"):
        more = np.where(given.counts, given.parts[:, measure] / given.even_parts[:, measure], 0.0)
    most = float(np.nan_to_num(more).max(initial=0.0))
    if most <= 1 + given.band:
        return []
    alike = [str(broker) for broker in given.ids[more >= most - 1e-6].tolist()]
    who = f"Broker {alike[0]} carries" if len(alike) == 1 else f"Brokers {','.join(alike)} carry"
    return [
        f"{who} {most:.0%} of the mean: few brokers in the rack hold a replica of every "
        "partition. No plan that keeps racks evens that out; shares are counted by rack."
    ]


def _too_big(given: Problem) -> list[str]:
    """Name partitions that alone are more than a broker's share and the band: no plan helps."""
    notes = []
    able = given.counts
    for measure in (Measure.IN, Measure.OUT, Measure.DISK):
        whole = given.items[:, measure] * (
            1 if measure is Measure.OUT else (given.replicas >= 0).sum(axis=1)
        )
        share = whole.sum() * given.parts[able, measure].max(initial=0.0)
        if not share > 0:
            continue
        for row in np.argsort(-given.items[:, measure], kind="stable")[:3].tolist():
            part = given.items[row, measure] / share
            if part > 1 + given.band:
                notes.append(
                    f"{given.state.tp(row)} alone is {part:.0%} of a broker's share of "
                    f"{measure.words}: no plan evens that out; split the topic."
                )
    return notes


def _stays(given: Problem, stay: list[tuple[int, int]]) -> list[str]:
    if not stay:
        return []
    names = ", ".join(str(given.state.tp(row)) for row, _ in stay[:3])
    rest = f" and {len(stay) - 3} more" if len(stay) > 3 else ""
    size = sum(float(given.items[row, Measure.DISK]) for row, _ in stay)
    return [
        f"{len(stay)} replicas ({format_bytes(size)}) stay where they are, {names}{rest}: they are "
        "moving or out of sync, or no broker may take them (racks, room, limits)."
    ]


def _told(start: Placement, found: Placement, notes: list[str], undone: bool) -> Suggested:
    given, state = start.problem, start.problem.state
    width = start.at.shape[1]
    less = (found.at[:, width:] != NOBODY).any(axis=1)
    changed = np.flatnonzero((start.at != found.at[:, :width]).any(axis=1) | less)
    moves, because = [], {}
    copied = moved = led = 0
    for row in changed.tolist():
        before = tuple(given.ids[b].item() for b in start.at[row] if b != NOBODY)
        after = tuple(given.ids[b].item() for b in found.at[row] if b != NOBODY)
        topic = state.topics[int(state.topic_of[row])]
        move = Move(state.tp(row), before, after, topic.id)
        moves.append(move)
        copied += len(move.adding) * int(max(given.items[row, Measure.DISK], 0))
        moved += move.moves_data
        led += before[0] != after[0]
        because[move.tp] = _why(start, found, row)
    return Suggested(
        plan=Plan.of(moves, cluster_id=state.cluster_id),
        brokers=tuple(given.ids.tolist()),
        counts=given.counts,
        active=given.active,
        before=start.loads,
        after=found.loads,
        moves=moved,
        leader_moves=led,
        bytes=copied,
        because=because,
        notes=tuple(notes),
        undone=undone,
    )


def _why(start: Placement, found: Placement, row: int) -> Because:
    """Return the broker and measure that were furthest off of those that the move relieves."""
    given = start.problem
    best = (-np.inf, 0, Measure.DISK)
    before, after = start.at[row], found.at[row]
    gone = [int(b) for b in before if b != NOBODY and b not in after]
    come = [int(b) for b in after if b != NOBODY and b not in before]
    sides: list[tuple[int, tuple[Measure, ...], float]] = []
    sides += [(b, HOSTED, 1.0) for b in gone]
    sides += [(b, HOSTED, -1.0) for b in come]
    if before[0] != after[0]:
        sides += [(int(before[0]), LED, 1.0), (int(after[0]), LED, -1.0)]
    for broker, measures, sign in sides:
        for measure in measures:
            if not given.active[measure] or measure not in SHOWN:
                continue
            off = sign * (float(start.loads[broker, measure]) - 1)
            if not given.counts[broker] and sign > 0:
                off = np.inf
            if off > best[0]:
                best = (off, broker, measure)
    _, broker, measure = best
    return Because(
        int(given.ids[broker]),
        measure,
        float(start.loads[broker, measure]),
        float(found.loads[broker, measure]),
    )
