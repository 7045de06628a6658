"""The planner: from what an operator wants to a whole plan.

What has to move goes first (replicas too few or too many, racks, brokers that leave), then new
brokers are filled. Where nothing of that is wanted, leaders are chosen among the replicas that
there are; only when that is not enough do data move, and leaders are chosen anew. The same input
gives the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.planner import infeasible, notes
from core.plan.planner.actual_leaders import led_elsewhere
from core.plan.planner.conflicts import refuse
from core.plan.planner.infeasible import keep_number, kept, stay, stay_doubled
from core.plan.planner.log_dirs import even_dirs
from core.plan.planner.model.measures import HOSTED, LED, NOBODY, Measure
from core.plan.planner.model.placement import Placement
from core.plan.planner.model.problem import Problem, problem, resized
from core.plan.planner.model.scope import outside, scoped, with_moves, without_racks
from core.plan.planner.request import FLAGS, Limits, Names, Wanted, chosen, to_keep, untouched
from core.plan.planner.result import Suggested, told
from core.plan.planner.search import mandatory_moves
from core.plan.planner.search.fewer_replicas import even_dropped
from core.plan.planner.search.leader_changes import even_leaders
from core.plan.planner.search.refinement import leave_dead_end, take_back
from core.plan.planner.search.replica_moves import Moving
from core.plan.planner.search.replica_swaps import Swapping

FOR_LEADERS = 0.1
"""The part of the time for choosing leaders that copies leave."""
FOR_DIRS = 0.1
"""The part of the time for choosing log dirs that all before it leaves."""
INSIDE = 0.9
"""How far off brokers may end that had to be evened out, in bands: not on the very edge, or the
next change of load takes them out again."""
ATTEMPTS = 3
"""How often replicas are moved anew where brokers stay outside the band."""


def suggest(state: ClusterState, load: Load, wanted: Wanted, names: Names = FLAGS) -> Suggested:
    """Return the plan for what is wanted; raises UsageError for wants that contradict.

    What it says calls the fields of what is wanted by their `names`.
    """
    refuse(state, wanted, names)
    if wanted.disks:
        return _with_dirs(state, load, wanted, names)
    given = _problem(state, load, wanted, wanted.replicas)
    start = Placement(given if wanted.replicas is None else _problem(state, load, wanted))
    found, undone = _forced(given, wanted, names) if wanted.forces else (Placement(given), [])
    undone += notes.hidden_stay(state, wanted.leaving)
    undone += notes.kept(
        wanted.kept, {*wanted.leaving, *outside(state, wanted.brokers, wanted.exclude)}
    )
    if wanted.fill:
        _filled(found, wanted)
    elif wanted.brokers:
        undone += _gathered(found, wanted, names)
    elif not wanted.forces:
        found = _evened(given, wanted)
    is_off = not wanted.forces or wanted.fill or wanted.brokers
    off = _off_notes(found, wanted, names, bool(undone)) if is_off else []
    undone += notes.over_capacity(start, found, wanted, names)
    elsewhere = led_elsewhere(found) if is_off and not wanted.fill else []
    undone += elsewhere
    undone += notes.alone(given) if is_off and not (wanted.fill or wanted.brokers) else []
    known = [
        *notes.unknown(given, load, wanted, names),
        *(notes.hidden_down(state, wanted.leaving) or notes.hidden(state)),
        *notes.left_alone(given),
        *notes.capacities(given),
    ]
    # What stands in the way comes first, then what is not known.
    few = infeasible.small_racks(found.problem) if is_off or found.moved else []
    said = [*undone, *few, *off, *notes.not_empty(state, wanted), *known]
    plan = told(start, found, said, bool(undone), racks=wanted.racks_only)
    more = notes.no_disk_sizes(given, plan.moves)
    return replace(plan, notes=(*plan.notes, *more), elects=bool(elsewhere))


def _with_dirs(state: ClusterState, load: Load, wanted: Wanted, names: Names) -> Suggested:
    """Return the plan between brokers, and in it where what lands and what stays is to lie."""
    if wanted.only_dirs:
        still = Placement(_problem(state, load, wanted))
        brokers = told(still, still, [], False)
    else:
        first = wanted.limits.keeping(FOR_DIRS)
        brokers = suggest(
            state, load, replace(wanted, disks=False, balance=False, limits=first), names
        )
    dirs = even_dirs(state, wanted, brokers.plan)
    return replace(
        brokers,
        plan=dirs.plan,
        moves=sum(bool(move.receiving) for move in dirs.plan),
        bytes=brokers.bytes + dirs.bytes,
        notes=(*brokers.notes, *dirs.notes),
        undone=brokers.undone or dirs.undone,
        dirs=dirs,
    )


def _problem(
    state: ClusterState, load: Load, wanted: Wanted, replicas: int | None = None
) -> Problem:
    others = outside(state, wanted.brokers, wanted.exclude)
    given = problem(
        state,
        load,
        band=wanted.band,
        excluded=wanted.exclude,
        leaving={*wanted.leaving, *others},
        filling=wanted.fill or None,
        frozen=untouched(state, wanted),
        replicas_wanted=replicas,
        most_replicas=wanted.most_replicas,
    )
    if wanted.ignore_racks:
        given = without_racks(given)
    if wanted.kept:
        given = with_moves(given, wanted.kept)
    return scoped(given, wanted.brokers) if wanted.brokers else given


def _off_notes(found: Placement, wanted: Wanted, names: Names, undone: bool) -> list[str]:
    """Say what keeps brokers from getting even: partitions that are too big, and limits.

    What is `undone` has told of its limits already.
    """
    stopped = infeasible.limited(found, wanted, names) if _off(found) and not undone else []
    if _off(found, HOSTED) and not wanted.leaders_only:
        stopped += infeasible.full(found)
    if _off(found):
        stopped = [*infeasible.fixed(found, wanted, names), *stopped]
    said = [*infeasible.too_big(found, wanted, stopped=undone or bool(stopped)), *stopped]
    return said or ([] if undone else infeasible.not_found(found, wanted))


def _forced(given: Problem, wanted: Wanted, names: Names) -> tuple[Placement, list[str]]:
    """Return where replicas go that must go, and what could not be done, in sentences.

    The number of replicas comes first, so that none is copied that goes anyway; then racks, which
    begin with what has to leave. What is left on brokers that leave goes last.
    """
    on, limits = Placement(given), wanted.limits
    row = {int(broker): at for at, broker in enumerate(given.ids)}
    found = []
    if wanted.replicas is not None:
        stuck = mandatory_moves.resize(on, wanted.replicas, limits)
        found += keep_number(on, stuck, wanted.replicas, names)
        on.recount()
        # Of what had to stay as it was, leaders send to as many followers as they have.
        numbers = (on.at != NOBODY).sum(axis=1)
        given = resized(given, np.where(given.movable, numbers, given.held))
        on.problem = scoped(given, wanted.brokers) if wanted.brokers else given
        on.share_out()
        even_dropped(on, limits)
    if wanted.racks_only:
        found += stay_doubled(on, mandatory_moves.repair_racks(on, limits), names)
        found += notes.few_racks(given, wanted.replicas)
        on.recount()
    if wanted.leaving:
        pairs = [(row[old], row[new]) for old, new in wanted.replace]
        stuck = mandatory_moves.replace(on, pairs, limits)
        stuck += mandatory_moves.empty(on, [row[broker] for broker in wanted.drain], limits)
        alone = to_keep(given.state, wanted) & chosen(given.state, wanted)
        stuck += kept(given.state, wanted.leaving, alone)
        found += stay(on, stuck, names)
        on.recount()
        _lead_drained(on, [row[broker] for broker in wanted.drain], limits)
    return on, found


def _lead_drained(on: Placement, drained: Sequence[int], limits: Limits) -> None:
    """Choose who leads what brokers led that are drained: it changes anyway, and costs nothing."""
    given = on.problem
    led = np.isin(given.replicas[:, 0], drained) & (on.at[:, 0] != given.replicas[:, 0])
    on.problem = replace(given, movable=given.movable & led)
    even_leaders(on, limits)
    on.problem = given


def _filled(on: Placement, wanted: Wanted) -> None:
    """Move data to the new brokers, and none of them above the band, and have them lead.

    What has taken a replaced one's place stays there.
    """
    given, limits = on.problem, wanted.limits
    keeps = np.isin(given.ids, np.array(wanted.new, np.int32))
    on.problem = replace(given, gives=given.gives & ~keeps)
    on.bound_at(given.takes, 1 + given.band)
    _move(on, HOSTED, limits.keeping(FOR_LEADERS))
    even_leaders(on, limits, only=given.takes)
    if on.off_by(np.array(LED))[given.takes].any():
        _move(on, tuple(Measure), limits)
        even_leaders(on, limits, only=given.takes)


def _gathered(on: Placement, wanted: Wanted, names: Names) -> list[str]:
    """Put what may be touched on the brokers that alone are to hold it, and even those out."""
    others = outside(on.problem.state, wanted.brokers, wanted.exclude)
    rows = np.flatnonzero(np.isin(on.problem.ids, others)).tolist()
    told_of = stay(on, mandatory_moves.empty(on, rows, wanted.limits), names)
    on.recount()
    even_leaders(on)
    if _off(on):
        _even(on, wanted.limits)
    return told_of


def _evened(given: Problem, wanted: Wanted) -> Placement:
    """Return brokers made even: by leaders alone where that is enough, else by copies too.

    What ends worse than it began, because nothing can be evened out, is not proposed.
    """
    start = Placement(given)
    # Leaders change nothing of what follows from where replicas are.
    hosted = _off(start, HOSTED)
    if wanted.leaders_only or not hosted:
        led = _led(given, wanted.limits)
        if wanted.leaders_only or not _off(led):
            return led
    on = _aimed(given, _even_whole, wanted.limits)
    if _off(on) < hosted:
        return on
    best = min((start, _led(given, wanted.limits), on), key=_off)
    best.short_of_bytes, best.short_of_room = on.short_of_bytes, on.short_of_room
    return best


def _aimed(
    given: Problem, even: Callable[[Placement, Limits], object], limits: Limits
) -> Placement:
    """Return what evening out leads to, aimed inside the band; at its edge if not all get there.

    Then nothing is copied that only brings some of them further in, unless it ends nearer so.
    """
    inside = Placement(replace(given, band=INSIDE * given.band))
    even(inside, limits)
    done = not _off(inside) or limits.time_is_up(inside)
    inside.problem = given
    if done:
        return inside
    on = Placement(given)
    even(on, limits)
    return min((on, inside), key=_off)


def _even(on: Placement, limits: Limits) -> None:
    """Move data until brokers are even, for leaders' sake too where choosing them is not enough."""
    spent = _move(on, HOSTED, limits.keeping(FOR_LEADERS))
    even_leaders(on, limits)
    if _off(on, LED) and not spent:
        _move(on, tuple(Measure), limits)
        even_leaders(on, limits)


def _even_whole(on: Placement, limits: Limits) -> None:
    """Even all out: small clusters leave dead ends, and what helps nothing is taken back."""
    _even(on, limits)
    leave_dead_end(on, limits)
    take_back(on, limits)


def _lead(on: Placement, limits: Limits) -> None:
    """Choose leaders until brokers are even; what helps nothing is taken back."""
    even_leaders(on, limits)
    take_back(on, limits)


def _move(on: Placement, measures: Sequence[Measure], limits: Limits) -> bool:
    """Move replicas, anew from where that led to when it has not led into the band, then swap.

    Return whether a limit allows no more.
    """
    for _ in range(ATTEMPTS):
        moving = Moving(on, measures, limits)
        took = moving.carry_out()
        if moving.spent:
            return True
        if not (took and _off(on, measures)):
            break
    Swapping(on, measures, limits).carry_out()
    return False


def _led(given: Problem, limits: Limits) -> Placement:
    """Return the best that leaders alone do."""
    start = Placement(given)
    return _aimed(given, _lead, limits) if _off(start, LED) else start


def _off(on: Placement, measures: Sequence[Measure] = tuple(Measure)) -> float:
    """Return how far a placement is from the band in some measures, all in all."""
    return float((on.off_by(np.array(measures)) ** 2).sum())
