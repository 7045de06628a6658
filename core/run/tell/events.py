"""A run as JSON: events, one a line, for those who follow it, and one whole document."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from core.run.record.history import History
from core.run.record.records import Kind, Record
from core.run.tell.documents import left, rounded
from core.run.tell.runs import read_journal
from core.run.tell.view import RunState, RunView
from core.units import format_time

Event = dict[str, Any]

FIRST_SECONDS, STEADY_SECONDS = 0.2, 3.0
"""How long a journal is left alone: at first, and once a run takes minutes. It grows each second or
two then, and whoever reads it takes processor time from brokers on the same machine."""
NEAR_PART = 20
"""It is read again after so small a part of the time left."""
DUTY = 20
"""Reading a long journal again takes time, which brokers on the same machine would miss; it is
left alone for twenty times as long."""
LONGEST_SECONDS = 10.0
_OUTCOMES = {RunState.DIED: RunState.INCOMPLETE, RunState.ROLLED_BACK: RunState.CANCELLED}


def follow(cluster_id: str, run: str) -> Iterator[tuple[RunView, tuple[Event, ...]]]:
    """Yield a run's view with the events that are new, at least once, until it has ended."""
    seen, moved = 0, -1
    first = time.monotonic()
    while True:
        began = time.monotonic()
        look = read_journal(cluster_id, run)
        view, records, history = look.view, look.records, look.history
        events = [
            event for record in records if record.seq > seen for event in of_record(record, history)
        ]
        seen = records[-1].seq
        if view.moved_bytes != moved and view.total_bytes:
            moved = view.moved_bytes
            events.insert(_before_the_end(events), progress(view))
        if view.state.ended:
            events.append(end(view))
        yield view, tuple(events)
        if view.state.ended:
            return
        now = time.monotonic()
        time.sleep(pause(now - first, now - began, view.left_seconds))


def pause(followed_seconds: float, read_seconds: float, left_seconds: float | None) -> float:
    """Return how long to wait before a journal is read again, which took so long; s.

    An end that is near is not told late.
    """
    near = STEADY_SECONDS if left_seconds is None else left_seconds / NEAR_PART
    steady = max(FIRST_SECONDS, min(STEADY_SECONDS, followed_seconds / 50, near))
    return max(steady, min(DUTY * read_seconds, LONGEST_SECONDS))


def _before_the_end(events: list[Event]) -> int:
    """Return where progress belongs among new events: before what came of it."""
    after = ("moved", "restored", "ended")
    return next((i for i, event in enumerate(events) if event["event"] in after), len(events))


def of_record(record: Record, history: History) -> Iterator[Event]:
    """Yield what one record says to somebody who follows the run."""
    p = record.payload
    match record.kind:
        case Kind.STARTED:
            yield _event(
                record,
                history,
                "started",
                pid=p["pid"],
                cluster_id=history.cluster_id,
                moves=len(history.moves),
                rate_bytes_per_s=history.rate_bytes_per_s,
                estimated_seconds=_estimated(history.estimate),
            )
        case Kind.THROTTLE_SET:
            batch = history.throttles[p["batch"]]
            yield _event(
                record,
                history,
                "throttled",
                batch=p["batch"] + 1,
                lists=[i.to_json() for i in batch.lists],
                rates=[r.to_json() for r in batch.rates],
            )
        case Kind.RATE_SET:
            late = history.throttles[p["batch"]].late
            yield _event(
                record,
                history,
                "throttled",
                batch=p["batch"] + 1,
                lists=[],
                rates=[r.to_json() for r in late if [r.broker, r.side.value] in p["rates"]],
            )
        case Kind.SUBMITTED if p["moves"]:
            yield _event(
                record,
                history,
                "submitted",
                batch=p["batch"] + 1,
                batches=history.batches,
                partitions=[_partition(history, i) for i in p["moves"]],
            )
        case Kind.MOVED:
            for entry in p["moves"]:
                yield _event(
                    record,
                    history,
                    "moved",
                    **_partition(history, entry["index"]),
                    outcome=entry["phase"],
                    why=entry["why"] or None,
                )
        case Kind.PAIRS_REMOVED:
            lists = [{"topic": t, "side": s, "pairs": pairs} for t, s, pairs in p["lists"]]
            yield _event(record, history, "restored", lists=lists)
        case Kind.RATE_RESTORED:
            yield _event(record, history, "restored", rates=list(p["rates"]))
        case Kind.WAITING if p["why"]:
            yield _event(record, history, "waiting", why=p["why"])
        case Kind.POSTPONED:
            yield _event(record, history, "waiting", why=p["why"])
        case Kind.THROTTLE_FAILED:
            yield _event(record, history, "waiting", why=f"{p['why']}; what was set is taken back")
        case Kind.REQUEST:
            yield _event(
                record, history, "request", request=p["kind"], who=p["who"], host=p["host"]
            )


def progress(view: RunView) -> Event:
    return {
        "at": format_time(view.seen_at),
        "run": view.run,
        "event": "progress",
        "moved_bytes": view.moved_bytes,
        "total_bytes": view.total_bytes,
        "bytes_per_s": rounded(view.bytes_per_s),
        "left_seconds": rounded(view.left_seconds),
    }


def end(view: RunView) -> Event:
    """Return the last event; a run whose process died ended incomplete, and left something.

    One that was rolled back has its journal's outcome, cancelled, and says why.
    """
    outcome, why = _OUTCOMES.get(view.state, view.state).value, view.why
    if view.state is RunState.ROLLED_BACK:
        why = "rolled back"
    event = {
        "at": format_time(view.ended_at or view.seen_at),
        "run": view.run,
        "event": "ended",
        "outcome": outcome,
        "why": why or None,
        "moved_bytes": view.moved_bytes,
        "seconds": rounded(view.elapsed_seconds),
        "estimated_seconds": view.estimated_seconds,
    }
    return event | ({"left": left(view.leftovers)} if view.leftovers else {})


def _event(record: Record, history: History, event: str, **more: Any) -> Event:
    return {"at": format_time(record.at), "run": history.run, "event": event, **more}


def _partition(history: History, index: int) -> dict[str, Any]:
    move = history.moves[index].move
    return {"topic": move.tp.topic, "partition": move.tp.partition, "replicas": list(move.after)}


def _estimated(estimate: Mapping[str, Any] | None) -> float | None:
    return estimate.get("seconds") if estimate else None
