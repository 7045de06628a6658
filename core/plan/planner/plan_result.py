"""PlanResult: a suggested plan's moves with their reasons, and whether the goal is met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from core.cluster.metadata import TopicPartition
from core.cluster.state import Bool, Int32, Int64
from core.load.load import Float64
from core.plan.plan import Move, Plan
from core.plan.planner.log_dir_balancing import LogDirPlan
from core.plan.planner.model.measures import (
    LEADER_MEASURES,
    NOBODY,
    REPLICA_MEASURES,
    SHOWN,
    Measure,
)
from core.plan.planner.model.placement import Placement, not_in
from core.plan.planner.plan_request import PlanRequest


@dataclass(frozen=True, slots=True)
class MoveReason:
    """Why a partition is in a plan: a broker's measure before and after all of it, in shares.

    One that should hold nothing has no share; then `leaves` is set. Where another number of
    replicas, or racks, were asked for, `requested` says so in words.
    """

    broker: int
    measure: Measure
    before: float
    after: float
    leaves: bool = False
    requested: str = ""

    @property
    def words(self) -> str:
        if self.leaves:
            return f"leaves b{self.broker}"
        if self.requested:
            return self.requested
        return f"b{self.broker} {self.measure.words} {self.before:.0%} → {self.after:.0%}"


@dataclass(frozen=True, eq=False)
class PlanResult:
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
    """What is copied of partitions whose size is known."""
    unsized: int = 0
    """Replicas that are copied of partitions whose size is not."""
    reasons: Mapping[TopicPartition, MoveReason] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    incomplete: bool = False
    """Whether something that had to be done is not; a note says what."""
    elects: bool = False
    """Whether a note advises an election, which moves leaders and no data."""
    dirs: LogDirPlan | None = None
    """What was chosen between log dirs, where that was wanted; it is part of the plan."""

    def within(self, band: float, *, leaders_only: bool = False) -> bool:
        """Return whether every broker that counts ends within the band in all known measures."""
        columns = [m for m in (LEADER_MEASURES if leaders_only else SHOWN) if self.active[m]]
        off = np.abs(self.after[self.counts][:, columns] - 1)
        return not off.size or bool(off.max() <= band + 1e-9)

    def filled(self, brokers: Collection[int], band: float, *, or_more: bool = False) -> bool:
        """Return whether none of these brokers ends below the band, or newly above it.

        `or_more` is fine where nobody else may receive what has to move.
        """
        rows = np.flatnonzero(self.counts & np.isin(self.brokers, list(brokers)))
        known = np.ix_(rows, np.array([m for m in SHOWN if self.active[m]], np.int64))
        before, after = self.before[known], self.after[known]
        lacks = after < 1 - band - 1e-9
        above = after > np.maximum(1 + band, before) + 1e-9
        return not (lacks | (above & (not or_more))).any()


def build_result(
    start: Placement, target: Placement, notes: list[str], incomplete: bool, *, racks: bool = False
) -> PlanResult:
    """Return the plan from one placement to another, and why; `racks` is whether to spread them."""
    given, state = start.problem, start.problem.state
    width = start.at.shape[1]
    more = (target.at[:, width:] != NOBODY).any(axis=1)
    others = np.sort(start.at, axis=1) != np.sort(target.at[:, :width], axis=1)
    # Followers in another order serve nobody.
    other_leader = start.at[:, 0] != target.at[:, 0]
    changed = np.flatnonzero(other_leader | others.any(axis=1) | more)
    before, after = (
        _broker_ids(given.ids, start.at[changed]),
        _broker_ids(given.ids, target.at[changed]),
    )
    topics = [state.topics[at] for at in state.topic_of[changed].tolist()]
    reasons = _reasons(start, target, changed, racks=racks)
    moves = [
        Move(TopicPartition(topic.name, partition), old, new, topic.id, reason=why.words)
        for topic, partition, old, new, why in zip(
            topics, state.partition[changed].tolist(), before, after, reasons, strict=True
        )
    ]
    arriving = [len(move.adding) for move in moves]
    sizes = given.items[changed, Measure.DISK].tolist()
    return PlanResult(
        plan=Plan.of(moves, cluster_id=state.cluster_id),
        brokers=tuple(given.ids.tolist()),
        counts=given.counts,
        active=given.active,
        before=_shares(start),
        after=_shares(target),
        moves=sum(new > 0 for new in arriving),
        leader_moves=int((start.at[changed, 0] != target.at[changed, 0]).sum()),
        bytes=sum(new * int(max(size, 0)) for new, size in zip(arriving, sizes, strict=True)),
        unsized=int(np.array(arriving, np.int64)[~np.isfinite(given.needs_bytes[changed])].sum()),
        reasons={move.tp: why for move, why in zip(moves, reasons, strict=True)},
        notes=tuple(notes),
        incomplete=incomplete,
    )


def _broker_ids(ids: Int32, at: Int32) -> list[tuple[int, ...]]:
    """Return the brokers' ids of broker rows [n, W], in order."""
    named = np.where(at == NOBODY, NOBODY, ids[at]).tolist()
    if not (at == NOBODY).any():
        return [tuple(row) for row in named]
    return [tuple(ids_of[: int(n)]) for ids_of, n in zip(named, (at != NOBODY).sum(1), strict=True)]


def _reasons(start: Placement, target: Placement, rows: Int64, *, racks: bool) -> list[MoveReason]:
    """Return for each partition the broker and measure furthest off of those that it relieves.

    A replica that goes relieves what is full, one that comes what is empty; so does leadership.
    """
    given = start.problem
    before, after = start.at[rows], target.at[rows]
    gone, come = not_in(before, after), not_in(after, before)
    other_leader = before[:, :1] != after[:, :1]
    sides = [
        (before, gone, _furthest_measures(start, target, REPLICA_MEASURES, 1.0)),
        (after, come, _furthest_measures(start, target, REPLICA_MEASURES, -1.0)),
        (before[:, :1], other_leader, _furthest_measures(start, target, LEADER_MEASURES, 1.0)),
        (after[:, :1], other_leader, _furthest_measures(start, target, LEADER_MEASURES, -1.0)),
    ]
    brokers = np.hstack([at for at, _, _ in sides])
    off = np.hstack([np.where(is_one, far[at], -np.inf) for at, is_one, (far, _) in sides])
    of = np.hstack([measure[at] for at, _, (_, measure) in sides])
    best = np.argmax(off, axis=1)[:, None]
    relieved = np.take_along_axis(off, best, 1)[:, 0] > -np.inf  # not so where followers swap
    broker = np.where(relieved, np.take_along_axis(brokers, best, 1)[:, 0], 0)
    measure = np.where(relieved, np.take_along_axis(of, best, 1)[:, 0], Measure.DISK)
    return [
        MoveReason(*why)
        for why in zip(
            given.ids[broker].tolist(),
            [_MEASURES[at] for at in measure.tolist()],
            _shares(start)[broker, measure].tolist(),
            _shares(target)[broker, measure].tolist(),
            (relieved & ~given.counts[broker]).tolist(),
            _request_reasons(start, target, rows, racks=racks),
            strict=True,
        )
    ]


def _request_reasons(start: Placement, target: Placement, rows: Int64, *, racks: bool) -> list[str]:
    """Return for each partition which number or which rack it is moved for, "" for neither."""
    had, has = ((on.at[rows] != NOBODY).sum(axis=1) for on in (start, target))
    texts = [
        f"from {old} to {new} replicas" if old != new else ""
        for old, new in zip(had.tolist(), has.tolist(), strict=True)
    ]
    if racks:
        kinds, then = (_racks(on, rows) for on in (start, target))
        for at in np.flatnonzero((had == has) & (kinds < then)).tolist():
            texts[at] = _fullest_rack_text(start, int(rows[at]))
    return texts


def _racks(on: Placement, rows: Int64) -> Int64:
    """Return in how many racks each partition has a replica."""
    at = on.at[rows]
    held = np.sort(np.where(at == NOBODY, NOBODY, on.problem.racks[at]), axis=1)
    known = held != NOBODY
    first = np.ones_like(known)
    first[:, 1:] = held[:, 1:] != held[:, :-1]
    return np.asarray((known & first).sum(axis=1), np.int64)


def _fullest_rack_text(on: Placement, row: int) -> str:
    """Say which rack holds most replicas of a partition, "" where none holds several."""
    known = on.problem.state.broker_by_id
    held = (on.problem.ids[at] for at in on.at[row].tolist() if at != NOBODY)
    names = Counter(broker.rack for id in held if (broker := known.get(int(id))) and broker.rack)
    return next((f"rack {rack} held {n}" for rack, n in names.most_common(1) if n > 1), "")


def _furthest_measures(
    start: Placement, target: Placement, measures: Sequence[Measure], sign: float
) -> tuple[Float64, Int64]:
    """Return how far each broker is above its share (below, by the sign), and in which measure.

    A broker that should hold nothing is always furthest; one that gets no nearer comes last.
    """
    given = start.problem
    known = [m for m in measures if m in SHOWN and given.active[m]]
    if not known:
        return np.full(given.brokers, -np.inf), np.full(given.brokers, Measure.DISK, np.int64)
    now, then = start.loads[:, known] - 1, target.loads[:, known] - 1
    off = sign * now
    off[np.abs(then) >= np.abs(now)] -= FAR
    if sign > 0:
        off[~given.counts] = np.inf
    return off.max(axis=1), np.array(known, np.int64)[off.argmax(axis=1)]


def _shares(on: Placement) -> Float64:
    """Return what brokers carry in shares; sums of what came and went are none below nothing."""
    return np.maximum(on.loads, 0.0)


_MEASURES = tuple(Measure)
FAR = 1e6
"""Shares that no broker is off by."""


def is_reached(plan: PlanResult, request: PlanRequest) -> bool:
    """Return whether the plan does all that was wanted."""
    if plan.dirs is not None and not plan.dirs.reached:
        return False
    return request.only_dirs or brokers_reached(plan, request)


def brokers_reached(plan: PlanResult, request: PlanRequest) -> bool:
    """Return whether brokers end as was wanted, whatever their log dirs."""
    if plan.incomplete:
        return False
    if request.fill:
        return plan.filled(request.fill, request.band, or_more=request.forces)
    if request.forces and not request.brokers:
        return True
    return plan.within(request.band, leaders_only=request.leaders_only)


def explain_no_plan(plan: PlanResult, request: PlanRequest, between: str, *, reached: bool) -> str:
    """Say why a plan has no move (`between` brokers, say); `reached`: there was none to do."""
    if reached:
        return f"Nothing to do{between}: it is so already."
    if plan.elects:
        return "An election comes first: no move is suggested before it."
    within = " within these limits" if request.limits.are_set else ""
    return f"No move{between} helps{within}."
