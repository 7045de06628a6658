"""Balances log dirs: spreads each broker's bytes over its own disks. Pure.

What is planned between brokers comes first: what leaves by it counts no more, and what lands is put
where there is least. Who is outside the band gives or gets the fewest bytes that bring it inside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from core.cluster.metadata import Broker, TopicPartition
from core.cluster.state import ClusterState
from core.plan.plan import ANY, Move, Plan, log_dir_of, unchanged
from core.plan.planner.broker_log_dirs import BrokerDirs, DirShare, IncomingReplicas
from core.plan.planner.conflicts import refuse_conflicts
from core.plan.planner.notes import hidden
from core.plan.planner.plan_request import (
    ENDED_SECONDS,
    REPORT_SECONDS,
    PlanRequest,
    frozen_partitions,
)
from core.units import counted

NOTHING = Plan()


@dataclass(frozen=True, slots=True)
class DirReason:
    """Why a replica is in the plan: the log dir that it leaves, and the one that it goes to."""

    source: DirShare
    target: DirShare

    @property
    def relieved(self) -> DirShare:
        """Return the one of both that was further from its share."""
        return max(self.source, self.target, key=lambda share: abs(share.before - 1))

    @property
    def words(self) -> str:
        share = self.relieved
        return f"b{share.broker} {share.path} {share.before:.0%} → {share.after:.0%}"


@dataclass(frozen=True)
class LogDirPlan:
    """A whole plan between log dirs; `moves` counts replicas, `dirs` are all that were seen."""

    plan: Plan
    dirs: tuple[DirShare, ...]
    moves: int
    bytes: int
    reached: bool
    reasons: Mapping[TopicPartition, tuple[DirReason, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unknown: tuple[int, ...] = ()
    """Brokers of which too little is known to say whether their log dirs are even."""
    incomplete: bool = False
    """Whether a replica lands where no log dir has room for it; a note says which."""


def balance_log_dirs(
    state: ClusterState, request: PlanRequest, between: Plan = NOTHING
) -> LogDirPlan:
    """Return the plan that evens out the log dirs of every broker, or of those that are named.

    `between` is the plan between brokers: log dirs are chosen for what lands by it, too. Raises
    UsageError for brokers that do not exist.
    """
    refuse_conflicts(state, replace(request, disks=True))
    coming = IncomingReplicas.of(state, between, request.kept)
    # Replicas of partitions in sync, at rest, that may be touched.
    fixed = state.moving | frozen_partitions(state, request) | (state.leader < 0)
    fixed[state.partition_of_replica[~state.in_sync]] = True
    movable = (state.size_bytes > 0) & ~fixed[state.partition_of_replica]
    notes: list[str] = []
    chosen = [
        broker
        for broker in state.brokers
        if broker.alive
        and broker.id not in request.exclude
        and broker.id in (request.brokers or (broker.id,))
    ]
    brokers = []
    for broker in chosen:
        dirs = [log_dir for log_dir in broker.log_dirs if log_dir.error is None]
        offline = [log_dir.path for log_dir in broker.log_dirs if log_dir.error is not None]
        if offline:
            notes.append(
                f"Log dir {offline[0]} of broker {broker.id} is offline and left as it is."
            )
        if not broker.log_dirs:
            notes.append(f"What log dirs broker {broker.id} has is not known.")
        if len(dirs) > 1:
            brokers.append(BrokerDirs(state, broker.id, dirs, movable, request.band, coming))
    unsized = {b.id: count for b in chosen if (count := _count_unsized(state, b))}
    notes += [
        f"What {counted(count, 'replica')} of broker {id} take{'s' if count == 1 else ''}, or in "
        "which log dir, is not known: whether these are even cannot be said."
        for id, count in sorted(unsized.items())[:3]
    ]
    notes += [
        f"What is free in the log dirs of broker {node.id} is not known: nothing keeps them from "
        "filling up."
        for node in brokers
        if np.isinf(node.room).any()
    ][:3]
    unknown = tuple(sorted({*unsized, *(b.id for b in chosen if not b.log_dirs)}))
    limited = _carry_out(brokers, request, between, coming)
    off = [node for node in brokers if node.is_off]
    if not brokers and not notes and not unknown:
        notes.append("No broker has more than one log dir: there is nothing to even out.")
    homeless = [node for node in brokers if node.homeless]
    notes += [node.why_homeless(state) for node in homeless[:3]]
    notes += [node.why_off() for node in off[:3]]
    if request.only_dirs:
        notes += hidden(state)
    if off and limited:
        notes.append("A limit (bytes, moves or time) ends the plan before all log dirs are even.")
    moves, reasons = _moves(state, brokers, between)
    return LogDirPlan(
        Plan.of(moves, cluster_id=state.cluster_id),
        tuple(share for node in brokers for share in node.shares()),
        sum(len(node.moved) for node in brokers),
        round(sum(float(node.sizes[at]) for node in brokers for at in node.moved)),
        not off and not unknown,
        reasons,
        tuple(notes),
        unknown,
        bool(homeless),
    )


def _count_unsized(state: ClusterState, broker: Broker) -> int:
    """Return how many replicas of a broker have no known size or log dir, where it has several.

    Those in an offline log dir are known to lie there, as are new ones not to be whole.
    """
    dirs = [log_dir for log_dir in broker.log_dirs if log_dir.error is None]
    if len(dirs) < 2 or len(dirs) < len(broker.log_dirs):
        return 0
    paths = {log_dir.path for log_dir in dirs}
    elsewhere = [at for at, path in enumerate(state.log_dir_paths) if path not in paths]
    here = (state.replica_broker == broker.id) & ~(state.adding | state.removing)
    nowhere = (state.log_dir < 0) | np.isin(state.log_dir, elsewhere)
    return int((here & ((state.size_bytes < 0) | nowhere)).sum())


def _carry_out(
    brokers: Sequence[BrokerDirs], request: PlanRequest, between: Plan, coming: IncomingReplicas
) -> bool:
    """Move replicas, of the broker that is furthest off first; return whether a limit ended it."""
    limits = request.limits
    moves, copied = sum(len(move.adding) for move in between), coming.bytes
    min_seconds = ENDED_SECONDS + REPORT_SECONDS * len(between)
    open_ones = [node for node in brokers if node.is_off]
    while open_ones:
        late = limits.seconds_left() < min_seconds + REPORT_SECONDS * moves
        if moves >= limits.max_moves or limits.stop() or late:
            return True
        worst = max(open_ones, key=lambda node: (node.furthest, -node.id))
        part_in = coming.part_in.get(worst.id, 0) + len(worst.moved)
        if part_in < limits.max_per_broker and worst.step(limits.max_bytes - copied):
            moves += 1
            copied += float(worst.sizes[worst.moved[-1]])
        else:
            worst.is_infeasible = True
        open_ones = [node for node in open_ones if node.is_off and not node.is_infeasible]
    return any(
        node.short_of_bytes
        or coming.part_in.get(node.id, 0) + len(node.moved) >= limits.max_per_broker
        for node in brokers
        if node.is_off
    )


def _moves(
    state: ClusterState, brokers: Iterable[BrokerDirs], between: Plan
) -> tuple[list[Move], dict[TopicPartition, tuple[DirReason, ...]]]:
    """Return the moves, one for each partition, and why its replicas change their log dir."""
    named: defaultdict[TopicPartition, dict[int, str]] = defaultdict(dict)
    dirs_before: defaultdict[TopicPartition, dict[int, str]] = defaultdict(dict)
    reasons: defaultdict[TopicPartition, list[DirReason]] = defaultdict(list)
    for node in brokers:
        shares = node.shares()
        for row, at in node.landed.items():
            named[state.tp(row)][node.id] = node.paths[at]
        for replica in node.moved:
            source, target = int(node.begun[replica]), int(node.at[replica])
            tp = state.tp(int(node.rows[replica]))
            dirs_before[tp][node.id], named[tp][node.id] = node.paths[source], node.paths[target]
            reasons[tp].append(DirReason(shares[source], shares[target]))
    planned = between.by_partition
    moves = [move for move in between if move.tp not in named]
    for tp, dirs in named.items():
        move = planned.get(tp) or unchanged(state, tp)
        left = {b: path for b in move.removing if (path := log_dir_of(state, tp, b))}
        held = dirs_before[tp] | left
        to, since = (
            tuple(of.get(b, ANY) for b in on)
            for of, on in ((dirs, move.after), (held, move.before))
        )
        whys = filter(None, (move.reason, *(why.words for why in reasons.get(tp, ()))))
        moves.append(replace(move, log_dirs=to, log_dirs_before=since, reason=", ".join(whys)))
    return moves, {tp: tuple(why) for tp, why in reasons.items()}
