"""Notes on a plan, in sentences: what is unknown, missing, or left where it is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set

import numpy as np

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.disk_space import disks_of, free_bytes, whole_bytes
from core.plan.plan import Plan
from core.plan.planner.evenness import actual_leaders, electable, load_as_leader
from core.plan.planner.infeasible import broker_list, brokers_do, held_replicas
from core.plan.planner.model.measures import LEADER_MEASURES, NOBODY, Measure
from core.plan.planner.model.placement import TINY, Placement
from core.plan.planner.model.problem import Problem
from core.plan.planner.plan_request import INF, Field, Names, PlanRequest, chosen_partitions
from core.units import counted, format_rate, name_list


def unknown(given: Problem, load: Load, request: PlanRequest, names: Names) -> list[str]:
    """Say how much of the load is not known: it is never taken for idle without a word."""
    state = given.state
    unknown_in, unknown_out = np.isnan(load.in_bytes_per_s), np.isnan(load.out_bytes_per_s)
    taken = "it is taken to be what it is for the others, by"
    if request.leaders_only:
        unsized = "shares of disk are counted without them"
    elif request.limits.max_bytes < INF:
        unsized = f"they are not copied, as {names[Field.MAX_BYTES]} cannot be held against them"
    elif np.isfinite(given.room_bytes[given.counts]).any():
        unsized = "they are copied to no broker that tells its free disk"
    else:
        unsized = "what they copy is not counted"
    unknowns = [
        (
            "What is produced to",
            unknown_in,
            "they are planned for by size and count" if unknown_in.all() else f"{taken} size",
        ),
        (
            "What is read of",
            unknown_out & ~unknown_in,
            "of what they send only what followers fetch is counted"
            if unknown_out.all()
            else f"{taken} what is produced",
        ),
        ("The size of", state.partition_size_bytes < 0, unsized),
    ]
    return [
        f"{what} {int(which.sum()):,} of {state.partition_count:,} partitions is not known: {so}."
        for what, which, so in unknowns
        if which.any()
    ]


def hidden(state: ClusterState) -> list[str]:
    """Say that evenness is only that of topics which may be seen."""
    if state.hidden is None or state.hidden.is_complete:
        return []
    counts = "" if state.hidden.why_unknown else "Their bytes and replicas count, and stay. "
    return [f"{state.hidden.sentence} {counts}What is even is so for the topics that are seen."]


def hidden_stay(state: ClusterState, leaving: Collection[int]) -> Iterator[str]:
    """Say which brokers that are to be emptied keep replicas of hidden topics, or may."""
    if state.hidden is None or not leaving:
        return
    held = dict(zip(state.broker_ids.tolist(), state.hidden_replicas.tolist(), strict=True))
    if keep := sorted(broker for broker in leaving if held.get(broker)):
        count = counted(sum(held[broker] for broker in keep), "replica")
        yield (
            f"{brokers_do(keep, 'keeps', 'keep')} {count} of topics that are hidden: allow "
            "DESCRIBE on them, and plan again."
        )
    if (doubt := _unsure_brokers(state, leaving) - set(keep)) and not _are_unknown_down(state):
        get = "gets" if len(doubt) == 1 else "get"
        yield (
            f"Whether {broker_list(sorted(doubt))} {get} empty is not known: topics may be hidden "
            "there."
        )


def hidden_down(state: ClusterState, leaving: Collection[int]) -> list[str]:
    """Say of which brokers that are down nobody knows, and nothing else hints, what they hold."""
    doubt = sorted(_unsure_brokers(state, leaving))
    if not doubt or not _are_unknown_down(state):
        return []
    they_hold = "it holds" if len(doubt) == 1 else "they hold"
    return [
        f"{brokers_do(doubt, 'is', 'are')} down: whether {they_hold} replicas of topics that are "
        "hidden is not known. All others leave."
    ]


def _unsure_brokers(state: ClusterState, leaving: Collection[int]) -> set[int]:
    """Return of which brokers that leave it is not known whether they hold what is hidden."""
    hidden = state.hidden
    if hidden is None:
        return set()
    if hidden.count is None and not hidden.has_only_unknown_brokers:
        return set(leaving)
    return set(leaving).intersection(hidden.unknown_brokers)


def _are_unknown_down(state: ClusterState) -> bool:
    """Return whether nothing is hidden, as all brokers tell that are up."""
    if state.hidden is None or not state.hidden.has_only_unknown_brokers:
        return False
    return set(state.alive_ids).isdisjoint(state.hidden.unknown_brokers)


def alone(given: Problem) -> Iterator[str]:
    """Say that there are no two brokers between which anything could be evened out."""
    up, of = int(given.counts.sum()), given.brokers
    if up < 2 <= of:
        who = f"Only broker {given.ids[given.counts][0]}" if up else "None"
        yield f"{who} of {of} brokers is up and may take part: nothing can be evened out."


def left_alone(given: Problem) -> Iterator[str]:
    """Say which partitions are left as they are though they may be touched, and why."""
    state, still = given.state, given.touchable & ~given.movable
    moving = state.moving
    leaderless = (state.leader < 0) & ~moving
    counts = {
        "moving already": int((still & moving).sum()),
        "without a leader": int((still & leaderless).sum()),
        "out of sync or on a broker that is down": int((still & ~moving & ~leaderless).sum()),
    }
    for words, count in counts.items():
        if count:
            are, they_are = ("is", "it is") if count == 1 else ("are", "they are")
            yield f"{counted(count, 'partition')} {are} {words} and left as {they_are}."


def not_empty(state: ClusterState, request: PlanRequest) -> Iterator[str]:
    """Say that brokers keep replicas of topics that were not chosen, though others leave them."""
    chosen = chosen_partitions(state, request)[state.partition_of_replica]
    held = held_replicas(state, request.leaving) & ~chosen
    if held.any():
        brokers, count = np.unique(state.replica_broker[held]).tolist(), int(held.sum())
        yield (
            f"{brokers_do(brokers, 'is', 'are')} not empty then: {counted(count, 'replica')} of "
            f"topics that were not chosen {'stays' if count == 1 else 'stay'} on "
            f"{'it' if len(brokers) == 1 else 'them'}."
        )


def capacities(given: Problem) -> list[str]:
    """Say what is not known of brokers: racks of some, capacities of some, all disks' sizes."""
    ids = given.ids[given.counts].tolist()
    known = [given.state.broker_by_id[broker] for broker in ids]
    notes: list[str] = []

    def say(brokers: list[int], what: str) -> None:
        if 0 < len(brokers) < len(known):
            notes.append(f"{brokers_do(brokers, 'has', 'have')} {what}")

    if (given.racks != NOBODY).any():
        say(
            [b.id for b in known if b.rack is None],
            "no rack while others have one: nothing goes there from a rack; set broker.rack.",
        )
    unsized = [b.id for b in known if whole_bytes(disks_of(b.log_dirs)) is None]
    say(
        unsized,
        "disks of unknown size: shares of disk are equal parts, and nothing keeps those from "
        "filling up.",
    )
    unfree = [b.id for b in known if free_bytes(disks_of(b.log_dirs)) is None]
    if unfree := [id for id in unfree if id not in unsized]:
        notes.append(
            f"{brokers_do(unfree, 'has', 'have')} disks whose free space is not known: nothing "
            "keeps them from filling up."
        )
    rest = "shares of it are equal parts; give all brokers one, or none."
    say([b.id for b in known if not b.in_capacity_bytes_per_s], f"no capacity of in: {rest}")
    say([b.id for b in known if not b.out_capacity_bytes_per_s], f"no capacity of out: {rest}")
    return notes


def no_disk_sizes(given: Problem, copies: int) -> Iterator[str]:
    """Say that nothing is known of disks, where a plan copies to them."""
    known = [given.state.broker_by_id[broker] for broker in given.ids[given.counts].tolist()]
    if copies and all(whole_bytes(disks_of(b.log_dirs)) is None for b in known):
        yield "No broker tells the size of its disks: nothing keeps them from filling up."


def kept(plan: Plan, leaving: Set[int]) -> Iterator[str]:
    """Say which moves that are planned already leave replicas on brokers that are to have none."""
    if tps := [move.tp for move in plan if not leaving.isdisjoint(move.after)]:
        yield (
            f"{name_list(tps)}: what is planned already leaves replicas on brokers that are to "
            "have none; drop it, and plan again."
        )


def few_racks(given: Problem, replicas: int | None) -> Iterator[str]:
    """Say that replicas have to share racks, whatever the plan; `replicas` are wanted of each."""
    state = given.state
    there = np.isin(given.ids, state.alive_ids)
    racks = given.racks[there & (given.counts | ~given.gives)]
    kinds = len(np.unique(racks[racks != NOBODY]))
    if not kinds:
        yield "No broker has a rack, so that none is shared or not: set broker.rack."
        return
    held_replicas = state.partition_of_replica[~state.removing]
    held = np.bincount(held_replicas, minlength=state.partition_count)[given.touchable]
    count = replicas or int(held.max(initial=0))
    if count > kinds:
        rows = len(held) if replicas else int((held > kinds).sum())
        where = "one rack" if kinds == 1 else f"{kinds} racks"
        yield (
            f"{counted(rows, 'partition')} with up to {count} replicas in {where}: some share one "
            "whatever the plan; add brokers in another rack."
        )


def over_capacity(
    start: Placement, target: Placement, request: PlanRequest, names: Names
) -> Iterator[str]:
    """Say which brokers end above what they can carry, one sentence for each measure.

    Where only what has to move does, not those that were so before and get no more. Where others
    lead than the preferred replicas, both count: what brokers carry at first, and once leaders have
    been elected. Brokers that the plan may not give anything can still be handed leadership.
    """
    given = target.problem
    both = [(on, actual_leaders(on)) for on in (start, target)]
    ways = [[on.carried for on, _ in both], [load_as_leader(on, leader) for on, leader in both]]
    sure = ways
    if given.sure is not given.items:  # by a guess it may be less, and by what is known more
        known = [load_as_leader(on, leader, surely=True) for on, leader in both]
        sure = [[on.known_carried for on, _ in both], known]
    limited_at_all = np.asarray(np.isfinite(given.capacity).any(axis=0))
    for measure in Measure:
        if not limited_at_all[measure] or (request.leaders_only and measure not in LEADER_MEASURES):
            continue
        limits, ends = given.capacity[:, measure], np.zeros(given.brokers)
        for (before, after), (surely, then) in zip(ways, sure, strict=True):
            over = after[:, measure] > limits * (1 + TINY)
            more = after[:, measure] > before[:, measure] * (1 + TINY)
            more |= then[:, measure] > surely[:, measure] * (1 + TINY)
            over &= more if request.forces else more | given.counts
            ends = np.where(over, np.maximum(ends, after[:, measure]), ends)
        rows = sorted(np.flatnonzero(ends).tolist(), key=lambda row: limits[row] - ends[row])
        if not rows:
            continue
        end, can = ends[rows[0]], limits[rows[0]]
        if measure is Measure.REPLICAS:
            words = f"with {end:.0f} replicas; {names[Field.MAX_REPLICAS]} allows {can:.0f}"
        else:
            does = "take in" if measure is Measure.IN else "send"
            words = f"at {format_rate(end)} {measure.words}; it can {does} {format_rate(can)}"
        others = given.ids[rows[1:]].tolist()
        too = f" (above theirs, too: {broker_list(others)})" if others else ""
        if not given.counts[rows[0]]:
            help = "it comes to lead what others give up; plan with it, too"
        elif target.carried[rows[0], measure] > can * (1 + TINY):
            help = "add brokers, or carry less"
        elif electable(target)[both[1][1] == rows[0]].any():
            help = "trimtab elect gives leaders back first"
        else:
            help = "what it leads for others goes back once they are up and in sync"
        yield f"Broker {given.ids[rows[0]]} ends {words}{too}: {help}."
