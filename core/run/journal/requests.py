"""Applies requests to a run's state: each changes what is wanted, nothing else.

What must be refused as it is taken up is journalled so (`refusal`): what cannot be read, and what
was asked after a cancel or a rollback that it would undo. A request for a move that has ended
meanwhile changes nothing. What a journal holds as taken up is taken in as it was then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from core.run.journal.move_state import MoveRequest, Phase, Role, RunMove
from core.run.journal.rates import RateBounds
from core.run.journal.run_state import RunState
from core.units import UNLIMITED

KINDS = ("cancel", "pause", "resume", "throttle", "skip", "retry", "retarget", "rollback")
AFTER_CANCEL = frozenset(("cancel", "resume", "rollback"))
"""All that a run takes up once it is being cancelled as a whole."""
OF_MOVES = frozenset(("skip", "retry", "retarget"))


def refusal(run: RunState, kind: str, p: Mapping[str, Any]) -> str:
    """Return why a request is not to be taken up, in one sentence, or ""."""
    if wrong := _invalid_reason(run, kind, p):
        return wrong
    undoes = undone_by(run, kind)
    return f"the run {undoes}" if undoes else ""


def undone_by(run: RunState, kind: str) -> str:
    """Return what a request would undo, as the end of a sentence about the run, or ""."""
    if run.cancel_requested and kind not in AFTER_CANCEL:
        return "is being cancelled: it is asked for nothing else"
    rolling_back = run.rollback_requested or run.rolling_back
    back = run.rolling_back and kind == "retry"  # of moves back
    if rolling_back and kind in OF_MOVES and not back:
        return "is being rolled back: its moves stay as they are"
    return ""


def _invalid_reason(run: RunState, kind: str, p: Mapping[str, Any]) -> str:
    """Return why a request cannot be taken in at all, in one sentence, or ""."""
    if kind not in KINDS:
        return f"this trimtab does not know what it is to {kind}"
    if wrong := unreadable(kind, p):
        return wrong
    if kind == "pause" and p.get("floor") and run.rate_bytes_per_s == UNLIMITED:
        return "an unlimited run has no throttle to lower: give it one first"
    for index in [p["move"]] if kind == "retarget" else p.get("moves") or ():
        if not 0 <= index < len(run.moves):
            return f"there is no move {index}"
    return ""


def unreadable(kind: str, p: Mapping[str, Any]) -> str:
    """Return what is wrong with the form of a request, whatever the run, or ""."""
    wrong = f"the request to {kind} cannot be read"
    match kind:
        case "retarget":
            if not (_is_whole(p.get("move")) and _are_whole(p.get("after")) and p["after"]):
                return f"{wrong}: it needs a move's number and brokers' ids"
            if min(p["after"]) < 0 or len(set(p["after"])) < len(p["after"]):
                return "a broker's id is never negative, and each broker is named once"
            ids = p.get("allow", [])
            if not (isinstance(ids, list) and all(isinstance(check_id, str) for check_id in ids)):
                return f"{wrong}: what it allows are no ids of checks"
        case "skip" | "retry" if not _are_whole(p.get("moves")):
            return f"{wrong}: it needs the numbers of moves"
        case "cancel" if p.get("moves") is not None and not _are_whole(p["moves"]):
            return f"{wrong}: it needs the numbers of moves, or none at all"
        case "throttle":
            try:
                bounds = RateBounds.from_json(p["auto"]) if p.get("auto") else None
            except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
                return f"{wrong}: its bounds are none"
            rate = bounds.min_bytes_per_s if bounds else p.get("rate_bytes_per_s")
            if not _is_whole(rate):
                return f"{wrong}: it needs a rate in bytes/s"
            if rate < 1 or (bounds and bounds.max_bytes_per_s < rate):
                return f"{rate} bytes/s is no rate to go on at"
        case _:
            pass
    return ""


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_whole(values: object) -> bool:
    return isinstance(values, list | tuple) and all(map(_is_whole, values))


def take(run: RunState, kind: str, p: Mapping[str, Any]) -> None:
    """Change what is wanted of a run and its moves; what makes no sense changes nothing."""
    if _invalid_reason(run, kind, p):
        return
    run.rate_control = run.rate_control.with_request(kind, p)
    match kind:
        case "cancel" if p.get("moves") is None:
            open_ = run.in_flight or run.queued
            once_more = run.cancel_requested and bool(run.waiting)
            run.leave_copies |= run.preflight and once_more
            run.leave_requested |= run.preflight and not open_
            run.cancel_requested, run.rollback_requested = True, False
            _cancel_all(run)
        case "cancel":
            for m in _named(run, p["moves"]):
                _cancel(m)
        case "pause":
            run.paused = True
        case "resume":
            run.paused, run.removals = False, 0
            run.throttles.mends.clear()
        case "throttle":
            run.limit_late |= run.rate_bytes_per_s == UNLIMITED
            run.rate_bytes_per_s = run.rate_control.rate_bytes_per_s
            if run.rate_control.bounds is not None:
                run.rate_bytes_per_s = run.rate_control.bounds.max_bytes_per_s
        case "skip":
            for m in _named(run, p["moves"]):
                if m.phase is Phase.QUEUED:
                    m.request, m.retarget = MoveRequest.SKIP, None
        case "retry":
            _retry(run, p["moves"])
        case "retarget":
            for m in _named(run, [p["move"]]):
                if m.phase is not Phase.DONE:
                    _cancel(m)
                    m.retarget, m.allowed = tuple(p["after"]), frozenset(p.get("allow", ()))
                    run.stopped = ""
        case "rollback" if not run.rolling_back:
            run.rollback_requested, run.cancel_requested = True, False
            run.leave_requested = run.leave_copies = False
            _cancel_all(run)
        case _:
            pass


def _named(run: RunState, indices: list[int]) -> Iterator[RunMove]:
    """Yield moves that nothing stands in for yet."""
    return (m for m in (run.moves[i] for i in indices) if not m.replaced)


def _cancel_all(run: RunState) -> None:
    """Cancel every move and end a pause: what cannot be taken back goes on, not at the floor."""
    run.paused, run.removals = False, 0
    run.rate_control = run.rate_control.with_request("resume", {})
    for m in run.moves:
        _cancel(m)


def _cancel(m: RunMove) -> None:
    m.retarget = None
    if not m.phase.ended:
        m.request = MoveRequest.CANCEL


def _retry(run: RunState, indices: list[int]) -> None:
    retried = [
        i
        for i in indices
        if run.moves[i].phase in (Phase.FAILED, Phase.CANCELLED, Phase.SKIPPED)
        and not run.moves[i].replaced
        and (not run.rolling_back or run.moves[i].role is Role.ROLLBACK)
    ]
    if retried:
        run.stopped, run.cancel_requested = "", False
        run.place_last(retried)
