"""The smallest plan that helps: leaders alone where that is enough, else the fewest bytes; pure."""

from __future__ import annotations

from datetime import timedelta
from math import inf

import numpy as np

from core.auto.decision import Act, Reason
from core.auto.history import History
from core.auto.observed import (
    LEAST_GAIN,
    Imbalance,
    Observed,
    Sight,
    excess,
    imbalance_of,
    share_bytes,
)
from core.auto.reckoning import lateness, reckoned
from core.auto.settings import Settings
from core.cluster.state import ClusterState, TopicPartition
from core.errors import UsageError
from core.plan.check import check_plan
from core.plan.findings import Severity
from core.plan.plan import Move, Plan
from core.plan.planner.evenness import Evenness, evenness
from core.plan.planner.limits import Limits
from core.plan.planner.planner import suggest
from core.plan.planner.told import Suggested
from core.plan.planner.wanted import Wanted
from core.units import counted, format_bytes, format_duration

TRIES = 3
"""How often a plan that takes too long is made anew with fewer bytes."""
SPARE = 0.8
"""The part of the bytes that would just be copied in time: the next plan is another one."""


def smallest(settings: Settings, history: History, observed: Observed) -> Act | Reason:
    """Return the plan to carry out, or in one sentence why there is none.

    `observed` has a load, and brokers outside the band.
    """
    try:
        found = _leaders(settings, history, observed) or _copies(settings, history, observed)
        return _in_time(settings, history, observed, found)
    except UsageError as error:  # a topic of the settings that is not there any more
        return Reason("nothing-helps", f"{error.title} {error.next}")


def _leaders(settings: Settings, history: History, observed: Observed) -> Act | None:
    """Return the plan that only chooses leaders anew, if that is enough: it moves no data."""
    act, even = _planned(settings, history, observed, leaders_only=True)
    enough = not imbalance_of(settings, even, after=True).outside
    return act if enough and isinstance(act, Act) else None


def _copies(
    settings: Settings, history: History, observed: Observed, *, most_bytes: float = inf
) -> Act | Reason:
    return _planned(settings, history, observed, leaders_only=False, most_bytes=most_bytes)[0]


def _in_time(
    settings: Settings, history: History, observed: Observed, found: Act | Reason
) -> Act | Reason:
    """Return a plan whose run ends before hours in which nothing is begun, by its estimate."""
    if not (settings.avoid or settings.only):
        return found
    why = None
    for _ in range(1 + TRIES):
        if isinstance(found, Reason):
            break
        _, estimate = reckoned(settings, observed, found.plan)
        late, left = lateness(settings, observed, estimate)
        if not late:
            return found
        why = why or _too_long(settings, observed, late, left)
        if not found.bytes:
            break
        most = found.bytes * SPARE * left / (late + left)
        found = _copies(settings, history, observed, most_bytes=most)
    return why or found


def _too_long(settings: Settings, observed: Observed, late: float, left: float) -> Reason:
    assert observed.imbalance is not None
    at = (observed.now + timedelta(seconds=left)).astimezone()
    if settings.avoid.holds(at):
        ends = f"busy hours ({settings.avoid.text}) begin"
    else:
        ends = f"the maintenance window ({settings.only.text}) ends"
    return Reason(
        "too-long",
        f"{observed.imbalance.sentence}, but a run would take up to "
        f"{format_duration(late + left)}, and {ends} in {format_duration(left)}.",
    )


def _planned(
    settings: Settings,
    history: History,
    observed: Observed,
    *,
    leaders_only: bool,
    most_bytes: float = inf,
) -> tuple[Act | Reason, Evenness]:
    state, load = observed.state, _sight(observed).load
    spent_bytes, spent_moves = history.spent(observed.now)
    moves_left = settings.most_moves_per_hour - spent_moves
    wanted = Wanted(
        leaders_only=leaders_only,
        topics=settings.topics,
        keep=settings.keep,
        resting=history.resting(observed.now) | _of_unknown_size(state),
        band=settings.aim_band,
        limits=Limits(min(settings.most_bytes_per_hour - spent_bytes, most_bytes), moves_left),
    )
    found = suggest(state, load, wanted)
    plan = _within(found, moves_left)
    even = evenness(state, load, plan, band=settings.aim_band)
    return _weighed(settings, observed, found, plan, even), even


def _within(found: Suggested, most: int) -> Plan:
    """Return at most so many moves of a plan: all copies first, then leaders that help most.

    The planner's limit counts copies alone.
    """
    if len(found.plan) <= most:
        return found.plan
    moves = sorted(
        found.plan,
        key=lambda move: (not move.moves_data, -abs(found.because[move.tp].before - 1), move.tp),
    )
    return Plan.of(moves[:most], cluster_id=found.plan.cluster_id)


def _weighed(
    settings: Settings, observed: Observed, found: Suggested, plan: Plan, even: Evenness
) -> Act | Reason:
    """Return the plan if it is worth what it costs and no check speaks against it."""
    state, before = observed.state, observed.imbalance
    assert before is not None
    off = before.sentence
    gain = excess(even, settings.aim_band) - excess(even, settings.aim_band, after=True)
    if not plan.moves or gain < LEAST_GAIN:
        why = f": {found.notes[0]}" if found.notes else ", and no move within the rules helps."
        return Reason("nothing-helps", off + why)
    copied = copied_bytes(state, plan)
    costs = copied / max(share_bytes(state), 1.0)
    if gain < settings.least_benefit * costs:
        return Reason(
            "little-benefit",
            f"{off}, but to copy {costs:.0%} of a broker's data for {gain:.0%} of a share "
            f"is not worth it ({settings.least_benefit:g} for each is).",
        )
    findings = check_plan(state, _sight(observed).load, plan, reassignments=observed.reassignments)
    for finding in findings:
        if finding.severity >= Severity.UNSAFE:
            against = f"{finding.id}: {finding.sentence}"
            return Reason("refused", f"{off}, but a check speaks against the plan: {against}")
    after = imbalance_of(settings, even, after=True)
    return _act(plan, copied, _why(off, after, plan, copied, _sight(observed)))


def _act(plan: Plan, copied: float, why: str) -> Act:
    return Act(
        plan=plan,
        why=Reason("act", why),
        copies=sum(move.moves_data for move in plan),
        leaders=sum(move.before[0] != move.after[0] for move in plan),
        bytes=copied,
    )


def _why(off: str, after: Imbalance, plan: Plan, copied: float, sight: Sight) -> str:
    many = counted(len(plan), "partition")
    if any(move.moves_data for move in plan):
        does = f"{many} moved, {format_bytes(copied)} to copy"
    else:
        does = f"{many} led by another of its replicas, nothing to copy"
    return f"{off}{sight.words}: {does}, and then {after.words}."


def copied_bytes(state: ClusterState, plan: Plan) -> float:
    """Return what brokers copy for a plan of partitions whose sizes are known."""
    return float(sum(len(move.adding) * _size(state, move) for move in plan))


def _size(state: ClusterState, move: Move) -> int:
    row = state.find(move.tp)
    return 0 if row is None else max(int(state.partition_size_bytes[row]), 0)


def _of_unknown_size(state: ClusterState) -> frozenset[TopicPartition]:
    """Return the partitions that no budget can be held against."""
    rows = np.flatnonzero(state.partition_size_bytes < 0)
    return frozenset(state.tp(row) for row in rows.tolist())


def _sight(observed: Observed) -> Sight:
    assert observed.sight is not None
    return observed.sight
