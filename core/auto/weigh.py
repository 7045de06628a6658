"""Whether a draft is worth what it costs, and allowed: then it is acted by, else why not. Pure."""

from __future__ import annotations

from core.auto.decision import Act, Reason
from core.auto.draft import Draft
from core.auto.observed import (
    LEAST_GAIN,
    Observed,
    excess,
    imbalance_of,
    is_outside,
    share_bytes,
    sight_of,
)
from core.auto.settings import Settings
from core.plan.checks.catalogue import Severity
from core.plan.checks.check_plan import check_plan
from core.plan.planner.evenness import Evenness
from core.units import counted, format_bytes


def weighed(settings: Settings, observed: Observed, draft: Draft) -> Act | Reason:
    """Return the part of the draft's plan if it is worth it and no check speaks against it."""
    state, before = observed.state, observed.imbalance
    assert before is not None
    off = before.sentence
    if draft.budget.is_short and not draft.is_whole:
        return Reason("budget", f"{off}, but {_short(settings, draft)}")
    even, aim = draft.even, settings.aim_band
    gain = excess(even, aim) - excess(even, aim, after=True)
    if not draft.part.moves or gain < LEAST_GAIN or not _relieves(settings, draft.then):
        why = f": {draft.notes[0]}" if draft.notes else ", and no move within the rules helps."
        return Reason("nothing-helps", off + why)
    costs = draft.part_bytes / max(share_bytes(state), 1.0)
    if gain < settings.least_benefit * costs:
        return Reason(
            "little-benefit",
            f"{off}, but to copy {costs:.0%} of a broker's data for {gain:.0%} of a share "
            f"is not worth it ({settings.least_benefit:g} for each is).",
        )
    moving = observed.reassignments
    for finding in check_plan(state, sight_of(observed).load, draft.part, reassignments=moving):
        if finding.severity >= Severity.UNSAFE:
            against = f"{finding.id}: {finding.sentence}"
            return Reason("refused", f"{off}, but a check speaks against the plan: {against}")
    return Act(
        plan=draft.part,
        why=Reason("act", _why(settings, observed, draft)),
        copies=sum(move.moves_data for move in draft.part),
        leaders=sum(move.before[0] != move.after[0] for move in draft.part),
        bytes=draft.part_bytes,
    )


def _relieves(settings: Settings, then: Evenness) -> bool:
    """Return whether the goal brings any broker that is outside a good way nearer.

    That others get more even, who are not so far off, is not what a run was begun for: with a
    partition too large to even out it would be done again and again.
    """
    before, after = then.off(then.before), then.off(then.after)
    nearer = (before - after)[is_outside(settings, before)]
    return bool(nearer.max(initial=0.0) >= settings.start_band - settings.inner_band - 1e-9)


def _short(settings: Settings, draft: Draft) -> str:
    """Say what is left of the hour's budget, and what would need more."""
    bytes_left, moves_left = draft.budget.bytes, draft.budget.moves
    of = f"{format_bytes(settings.most_bytes_per_hour)} and {settings.most_moves_per_hour:,}"
    return (
        f"{format_bytes(bytes_left)} and {counted(moves_left, 'move')} are left of the hour's "
        f"{of}: too little to go on with a plan of {_size(draft.whole_bytes, len(draft.whole))}."
    )


def _why(settings: Settings, observed: Observed, draft: Draft) -> str:
    assert observed.imbalance is not None
    off = f"{observed.imbalance.sentence}{sight_of(observed).words}"
    many = counted(len(draft.part), "partition")
    if any(move.moves_data for move in draft.part):
        does = f"{many} moved, {format_bytes(draft.part_bytes)} to copy"
    else:
        does = f"{many} led by another of its replicas, nothing to copy"
    if not draft.is_whole:
        does += f" (of a plan of {_size(draft.whole_bytes, len(draft.whole))})"
    after = imbalance_of(settings, draft.even, after=True)
    return f"{off}: {does}, and then {after.words}."


def _size(copied: float, moves: int) -> str:
    return f"{counted(moves, 'move')} and {format_bytes(copied)}"
