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
from core.plan.planner.conflicts import refuse_conflicts
from core.plan.planner.evenness import election_notes
from core.plan.planner.infeasible import InfeasibleReplica, held_replicas, infeasible_sentences
from core.plan.planner.log_dir_balancing import balance_log_dirs
from core.plan.planner.model.measures import LEADER_MEASURES, NOBODY, REPLICA_MEASURES, Measure
from core.plan.planner.model.placement import Placement
from core.plan.planner.model.problem import (
    Problem,
    brokers_outside,
    build_problem,
    scoped,
    with_moves,
    with_replica_counts,
)
from core.plan.planner.plan_request import (
    FLAGS,
    Field,
    Limits,
    Names,
    PlanRequest,
    chosen_partitions,
    frozen_partitions,
    kept_partitions,
)
from core.plan.planner.plan_result import PlanResult, build_result
from core.plan.planner.search import mandatory_moves
from core.plan.planner.search.leader_changes import balance_leaders
from core.plan.planner.search.mandatory_moves import exchange_dropped
from core.plan.planner.search.refinement import escape_dead_end, revert_needless
from core.plan.planner.search.replica_moves import ReplicaMoves
from core.plan.planner.search.replica_swaps import ReplicaSwaps

FOR_LEADERS = 0.1
"""The part of the time for choosing leaders that copies leave."""
FOR_DIRS = 0.1
"""The part of the time for choosing log dirs that all before it leaves."""
INSIDE = 0.9
"""How far off brokers may end that had to be evened out, in bands: not on the very edge, or the
next change of load takes them out again."""
ATTEMPTS = 3
"""How often replicas are moved anew where brokers stay outside the band."""


def suggest_plan(
    state: ClusterState, load: Load, request: PlanRequest, names: Names = FLAGS
) -> PlanResult:
    """Return the plan for a request; raises UsageError for wants that contradict each other.

    Its notes call the request's fields by their `names`.
    """
    refuse_conflicts(state, request, names)
    if request.disks:
        return _with_dirs(state, load, request, names)
    given = _problem(state, load, request, request.replicas)
    start = Placement(given if request.replicas is None else _problem(state, load, request))
    target, incomplete = (
        _force_moves(given, request, names) if request.forces else (Placement(given), [])
    )
    incomplete += notes.hidden_stay(state, request.leaving)
    incomplete += notes.kept(
        request.kept, {*request.leaving, *brokers_outside(state, request.brokers, request.exclude)}
    )
    if request.fill:
        _fill_brokers(target, request)
    elif request.brokers:
        incomplete += _gather_replicas(target, request, names)
    elif not request.forces:
        target = _balance_brokers(given, request)
    is_off = not request.forces or request.fill or request.brokers
    off = _unevenness_notes(target, request, names, bool(incomplete)) if is_off else []
    incomplete += notes.over_capacity(start, target, request, names)
    elsewhere = election_notes(target) if is_off and not request.fill else []
    incomplete += elsewhere
    incomplete += notes.alone(given) if is_off and not (request.fill or request.brokers) else []
    known = [
        *notes.unknown(given, load, request, names),
        *(notes.hidden_down(state, request.leaving) or notes.hidden(state)),
        *notes.left_alone(given),
        *notes.capacities(given),
    ]
    # What stands in the way comes first, then what is not known.
    few = infeasible.small_racks(target.problem) if is_off or target.moved else []
    sentences = [*incomplete, *few, *off, *notes.not_empty(state, request), *known]
    plan = build_result(start, target, sentences, bool(incomplete), racks=request.racks_only)
    more = notes.no_disk_sizes(given, plan.moves)
    return replace(plan, notes=(*plan.notes, *more), elects=bool(elsewhere))


def _with_dirs(state: ClusterState, load: Load, request: PlanRequest, names: Names) -> PlanResult:
    """Return the plan between brokers, and in it where what lands and what stays is to lie."""
    if request.only_dirs:
        still = Placement(_problem(state, load, request))
        brokers = build_result(still, still, [], False)
    else:
        first = request.limits.reserving(FOR_DIRS)
        brokers = suggest_plan(
            state, load, replace(request, disks=False, balance=False, limits=first), names
        )
    dirs = balance_log_dirs(state, request, brokers.plan)
    return replace(
        brokers,
        plan=dirs.plan,
        moves=sum(bool(move.receiving) for move in dirs.plan),
        bytes=brokers.bytes + dirs.bytes,
        notes=(*brokers.notes, *dirs.notes),
        incomplete=brokers.incomplete or dirs.incomplete,
        dirs=dirs,
    )


def _problem(
    state: ClusterState, load: Load, request: PlanRequest, replicas: int | None = None
) -> Problem:
    others = brokers_outside(state, request.brokers, request.exclude)
    given = build_problem(
        state,
        load,
        band=request.band,
        excluded=request.exclude,
        leaving={*request.leaving, *others},
        filling=request.fill or None,
        frozen=frozen_partitions(state, request),
        target_replicas=replicas,
        max_replicas=request.max_replicas,
    )
    if request.ignore_racks:  # nothing is kept apart, all shares are even
        racks = np.full_like(given.racks, NOBODY)
        given = replace(given, racks=racks, parts=given.even_parts)
    if request.kept:
        given = with_moves(given, request.kept)
    return scoped(given, request.brokers) if request.brokers else given


def _unevenness_notes(
    target: Placement, request: PlanRequest, names: Names, incomplete: bool
) -> list[str]:
    """Say what keeps brokers from getting even; what is `incomplete` has told of limits already."""
    stopped = infeasible.limited(target, request, names) if _off(target) and not incomplete else []
    if _off(target, REPLICA_MEASURES) and not request.leaders_only:
        stopped += infeasible.full(target)
    if _off(target):
        stopped = [*infeasible.fixed(target, request, names), *stopped]
    sentences = [
        *infeasible.too_big(target, request, stopped=incomplete or bool(stopped)),
        *stopped,
    ]
    return sentences or ([] if incomplete else infeasible.not_found(target, request))


def _force_moves(given: Problem, request: PlanRequest, names: Names) -> tuple[Placement, list[str]]:
    """Return where replicas go that must go, and what could not be done, in sentences.

    The number of replicas comes first, so that none is copied that goes anyway; then racks, which
    begin with what has to leave. What is left on brokers that leave goes last.
    """
    on, limits = Placement(given), request.limits
    row = {int(broker): at for at, broker in enumerate(given.ids)}
    sentences = []
    if request.replicas is not None:
        infeasible_replicas = mandatory_moves.set_replica_count(on, request.replicas, limits)
        missing = f"are missing or too many for {request.replicas} of each partition"
        sentences += infeasible_sentences(on, infeasible_replicas, names, missing)
        on.recount()
        # Of what had to stay as it was, leaders send to as many followers as they have.
        numbers = (on.at != NOBODY).sum(axis=1)
        given = with_replica_counts(given, np.where(given.movable, numbers, given.held))
        on.problem = scoped(given, request.brokers) if request.brokers else given
        on.share_out()
        exchange_dropped(on, limits)
    if request.racks_only:
        infeasible_replicas = mandatory_moves.repair_racks(on, limits)
        sentences += infeasible_sentences(
            on, infeasible_replicas, names, "share a rack with another one"
        )
        sentences += notes.few_racks(given, request.replicas)
        on.recount()
    if request.leaving:
        pairs = [(row[old], row[new]) for old, new in request.replace]
        infeasible_replicas = mandatory_moves.replace_brokers(on, pairs, limits)
        drained = [row[broker] for broker in request.drain]
        infeasible_replicas += mandatory_moves.empty_brokers(on, drained, limits)
        state = given.state
        alone = kept_partitions(state, request) & chosen_partitions(state, request)
        rows = state.partition_of_replica[held_replicas(state, request.leaving)]
        infeasible_replicas += [
            InfeasibleReplica(at, Field.KEEP) for at in rows[alone[rows]].tolist()
        ]
        sentences += infeasible_sentences(on, infeasible_replicas, names)
        on.recount()
        # Who leads what drained brokers led changes anyway, and choosing it costs nothing.
        given, first = on.problem, on.problem.replicas[:, 0]
        new_leader = np.isin(first, drained) & (on.at[:, 0] != first)
        on.problem = replace(given, movable=given.movable & new_leader)
        balance_leaders(on, limits)
        on.problem = given
    return on, sentences


def _fill_brokers(on: Placement, request: PlanRequest) -> None:
    """Move data to the new brokers, none of them above the band, and have them lead."""
    given, limits = on.problem, request.limits
    keeps = np.isin(given.ids, np.array(request.new, np.int32))
    on.problem = replace(given, gives=given.gives & ~keeps)
    on.bound_at(given.takes, 1 + given.band)
    _move(on, REPLICA_MEASURES, limits.reserving(FOR_LEADERS))
    balance_leaders(on, limits, only=given.takes)
    if on.off_by(np.array(LEADER_MEASURES))[given.takes].any():
        _move(on, tuple(Measure), limits)
        balance_leaders(on, limits, only=given.takes)


def _gather_replicas(on: Placement, request: PlanRequest, names: Names) -> list[str]:
    """Put what may be touched on the brokers that alone are to hold it, and even those out."""
    others = brokers_outside(on.problem.state, request.brokers, request.exclude)
    rows = np.flatnonzero(np.isin(on.problem.ids, others)).tolist()
    infeasible_replicas = mandatory_moves.empty_brokers(on, rows, request.limits)
    sentences = infeasible_sentences(on, infeasible_replicas, names)
    on.recount()
    balance_leaders(on)
    if _off(on):
        _even(on, request.limits)
    return sentences


def _balance_brokers(given: Problem, request: PlanRequest) -> Placement:
    """Return brokers made even: by leaders alone where that is enough, else by copies too.

    What ends worse than it began, because nothing can be evened out, is not proposed.
    """
    start = Placement(given)
    # Leaders change nothing of what follows from where replicas are.
    hosted = _off(start, REPLICA_MEASURES)
    if request.leaders_only or not hosted:
        by_leaders = _best_leaders(given, request.limits)
        if request.leaders_only or not _off(by_leaders):
            return by_leaders
    on = _aim_inside_band(given, _even_and_refine, request.limits)
    if _off(on) < hosted:
        return on
    best = min((start, _best_leaders(given, request.limits), on), key=_off)
    best.short_of_bytes, best.short_of_room = on.short_of_bytes, on.short_of_room
    return best


def _aim_inside_band(
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
    spent = _move(on, REPLICA_MEASURES, limits.reserving(FOR_LEADERS))
    balance_leaders(on, limits)
    if _off(on, LEADER_MEASURES) and not spent:
        _move(on, tuple(Measure), limits)
        balance_leaders(on, limits)


def _even_and_refine(on: Placement, limits: Limits) -> None:
    """Even all out: small clusters leave dead ends, and what helps nothing is taken back."""
    _even(on, limits)
    escape_dead_end(on, limits)
    revert_needless(on, limits)


def _even_leaders(on: Placement, limits: Limits) -> None:
    """Choose leaders until brokers are even; what helps nothing is taken back."""
    balance_leaders(on, limits)
    revert_needless(on, limits)


def _move(on: Placement, measures: Sequence[Measure], limits: Limits) -> bool:
    """Move replicas, anew while some are off, then swap; return whether a limit allows no more."""
    for _ in range(ATTEMPTS):
        moving = ReplicaMoves(on, measures, limits)
        took = moving.carry_out()
        if moving.spent:
            return True
        if not (took and _off(on, measures)):
            break
    ReplicaSwaps(on, measures, limits).carry_out()
    return False


def _best_leaders(given: Problem, limits: Limits) -> Placement:
    """Return the best that leaders alone do."""
    start = Placement(given)
    return _aim_inside_band(given, _even_leaders, limits) if _off(start, LEADER_MEASURES) else start


def _off(on: Placement, measures: Sequence[Measure] = tuple(Measure)) -> float:
    """Return how far a placement is from the band in some measures, all in all."""
    return float((on.off_by(np.array(measures)) ** 2).sum())
