"""Calibration data from a run: the estimated and the actual duration of its copying. Pure.

Only runs that nothing disturbed teach: they had the rate that was reckoned with all the time, and
copied whatever they had planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from core.plan.copies import Side
from core.plan.estimate.calibration import Lesson
from core.plan.estimate.uncertainty import AROUND_RANGE, AROUND_SECONDS
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind, Record
from core.run.journal.run_state import RunState
from core.units import UNLIMITED

MIN_SECONDS = 20.0
"""What is over sooner tells more of a burst than of a rate."""
_DISTURBING = frozenset(
    (
        *(Kind.DISTURBED, Kind.CRASHED, Kind.POSTPONED, Kind.RATE_INTENT, Kind.RATES_CHANGING),
        *(Kind.THROTTLE_FAILED, Kind.PAIRS_TAKING, Kind.PAIRS_PUTTING, Kind.MOVES_ADDED),
        *(Kind.CANCELLING, Kind.MEASURED, Kind.RETENTION_LOWERING),
    )
)
"""Records of what an estimate knows nothing of."""


def lesson_of(records: Iterable[Record], run: RunState) -> Lesson | None:
    """Return what a run teaches, None where it was disturbed, or nothing is to be learned of it.

    Its time is from the first submission to the end of the last move.
    """
    estimate = run.estimate
    if estimate is None or not _is_representative(run) or _was_disturbed(records):
        return None
    copied = [m for m in run.moves if m.move.moves_data]
    begun = [m.submitted_at for m in copied if m.submitted_at is not None]
    ended = [m.ended_at for m in copied if m.ended_at is not None]
    if not begun or not ended:
        return None
    took = (max(ended) - min(begun)).total_seconds()
    try:
        return _lesson(estimate, took, run.rate_bytes_per_s)
    except (KeyError, TypeError, ValueError, IndexError):
        return None  # an estimate of another form; the run itself is told all the same


def _is_representative(run: RunState) -> bool:
    """Return whether a run was carried out as it was estimated, alone and from beginning to end."""
    return (
        run.ended is Outcome.DONE
        and all(m.phase is Phase.DONE and m.tries == 1 and not m.replaced for m in run.moves)
        and not run.foreign_before
        and run.rate_control.bounds is None
        and run.start_at is None
    )


def _was_disturbed(records: Iterable[Record]) -> bool:
    started = 0
    for record in records:
        p = record.payload
        started += record.kind is Kind.STARTED
        intended = p["rates"] if record.kind is Kind.THROTTLE_INTENT else ()
        if (
            record.kind in _DISTURBING
            or any(rate["rate_bytes_per_s"] is None for rate in intended)  # theirs, kept
            or (record.kind is Kind.REQUEST and not p.get("refused"))
            or (record.kind is Kind.WAITING and p["why"])
            or started > 1
        ):
            return True
    return False


def _lesson(estimate: Mapping[str, Any], took: float, rate: int) -> Lesson | None:
    sides = {Side(row["side"]) for row in estimate["rows"]}
    if took < MIN_SECONDS or not sides <= {Side.LEADER, Side.FOLLOWER}:
        return None  # what is copied between log dirs has a limit of its own
    copied = [row["bytes"] for row in estimate["rows"]]
    if None in copied:
        return None
    busiest = max(map(int, copied), default=0)
    if rate == UNLIMITED:
        return Lesson(None, took, busiest)
    calibrated = estimate.get("calibration")
    own = "uncalibrated_" if calibrated else ""
    source = calibrated or estimate
    seconds, between = source[f"{own}seconds"], source[f"{own}range_seconds"]
    if seconds is None or estimate["limit"] is None or seconds - AROUND_SECONDS < MIN_SECONDS:
        return None
    low, high = (float(end) - around for end, around in zip(between, AROUND_RANGE, strict=True))
    side = Side(estimate["limit"]["side"])
    return Lesson(side, took, busiest, float(seconds) - AROUND_SECONDS, (low, high))


def to_json(lesson: Lesson) -> dict[str, Any]:
    """Return a lesson as it is remembered of a run that has ended."""
    return asdict(lesson) | {"side": lesson.side and lesson.side.value}


def from_json(document: Mapping[str, Any]) -> Lesson:
    """Return a lesson from its document; raises KeyError, TypeError or ValueError."""
    side, ends = document["side"], document["range_seconds"]
    return Lesson(
        side and Side(side),
        float(document["took_seconds"]),
        int(document["busiest_bytes"]),
        document["estimated_seconds"],
        ends and (float(ends[0]), float(ends[1])),
    )
