"""A run's requests in words, and whether its process has applied them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from core.run.journal.records import Kind, Record, Request
from core.run.journal.replay import RunState
from core.run.journal.requests import unreadable
from core.run.reporting.views import RunRequest
from core.units import format_rate

NAMED = 2


def run_requests(
    records: Iterable[Record], pending: Iterable[Request], run: RunState
) -> tuple[RunRequest, ...]:
    """Return what was asked, oldest first; `pending` are those that no record tells of yet."""
    taken = [
        _request(record.at, record.payload["kind"], record.payload, run, taken=True)
        for record in records
        if record.kind is Kind.REQUEST
    ]
    return (*taken, *(_request(r.at, r.kind, r.payload, run, taken=False) for r in pending))


def ends_a_pause(payload: Mapping[str, Any]) -> bool:
    """Return whether a paused run that is asked for this is paused no longer."""
    match payload["kind"]:
        case "resume" | "rollback":
            return True
        case "cancel":
            return payload.get("moves") is None
        case _:
            return False


def request_words(kind: str, payload: Mapping[str, Any], run: RunState) -> str:
    """Return a request in words, like `cancel orders-3` or `throttle 50 MB/s`."""
    if unreadable(kind, payload):
        return kind
    named = payload.get("moves")
    match kind:
        case "pause":
            return "pause, and hold what is in flight" if payload.get("floor") else "pause"
        case "cancel":
            return "cancel the run" if named is None else f"cancel {_names(named, run)}"
        case "skip" | "retry":
            return f"{kind} {_names(named or (), run)}"
        case "retarget":
            after = ",".join(map(str, payload.get("after", ())))
            despite = f" (despite {', '.join(ids)})" if (ids := payload.get("allow")) else ""
            return f"retarget {_names([payload.get('move')], run)} to {after}{despite}"
        case "throttle":
            bounds = payload.get("auto")
            if bounds:
                least, most = bounds["least_bytes_per_s"], bounds["most_bytes_per_s"]
                return f"throttle auto, {format_rate(least)} – {format_rate(most)}"
            return f"throttle {format_rate(payload.get('rate_bytes_per_s'))}"
        case "rollback":
            return "roll back"
        case _:
            return kind


def _request(
    at: datetime, kind: str, payload: Mapping[str, Any], run: RunState, *, taken: bool
) -> RunRequest:
    return RunRequest(
        at,
        kind,
        request_words(kind, payload, run),
        f"{payload.get('who', '?')} on {payload.get('host', '?')}",
        taken,
        payload.get("refused") or "",
    )


def _names(indices: Iterable[Any], run: RunState) -> str:
    known = range(len(run.moves))
    names = [str(run.moves[i].move.tp) if i in known else f"move {i}" for i in indices]
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
