"""Runs as JSON: events, one a line, and the documents of `runs ls` and `runs show`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from core.run.journal.records import Kind, Record
from core.run.journal.run_state import RunState
from core.run.reporting.config_changes import changes
from core.run.reporting.runs import (
    RunReading,
    read_journal,
    refuse_damaged,
    summary_to_json,
)
from core.run.reporting.views import Leftovers, RunStatus, RunSummary, RunView
from core.units import format_time


def left(leftovers: Leftovers) -> dict[str, Any]:
    """Return what a dead run left in the cluster as a document."""
    return {
        "moves": [{"topic": tp.topic, "partition": tp.partition} for tp in leftovers.moves],
        "lists": [
            {"topic": topic, "side": side, "pairs": list(pairs)}
            for topic, side, pairs in leftovers.lists
        ],
        "rates": [
            {"broker": r.broker, "side": r.side.value, "rate_bytes_per_s": r.rate_bytes_per_s}
            for r in leftovers.rates
        ],
        "retention": [
            {"topic": r.topic, "retention_ms": r.retention_ms, "before": r.before}
            for r in leftovers.retention
        ],
    }


def summary_document(run: RunSummary) -> dict[str, Any]:
    """Return one entry of `runs ls --json`."""
    document = summary_to_json(run) | {"seconds": rounded(run.seconds)}
    del document["moved_away"]
    return document


@refuse_damaged
def run_document(look: RunReading) -> dict[str, Any]:
    """Return the document of `runs show --json`."""
    view, created = look.view, look.records[0].payload
    return {
        "run": view.run,
        "cluster_id": view.cluster_id,
        "cluster_name": view.cluster_name,
        "state": view.state.value,
        "why": view.why or None,
        "pid": view.pid,
        "who": view.who,
        "from": created.get("from") or None,
        "options": dict(created["options"]),
        "started_at": format_time(view.started_at),
        "ended_at": format_time(view.ended_at) if view.ended_at else None,
        "seconds": rounded(view.elapsed_seconds),
        "estimated_seconds": view.estimated_seconds,
        "rate_bytes_per_s": view.rate_bytes_per_s,
        "total_bytes": view.total_bytes,
        "moved_bytes": view.moved_bytes,
        "bytes_per_s": rounded(view.bytes_per_s),
        "average_bytes_per_s": rounded(view.average_bytes_per_s),
        "left_seconds": rounded(view.left_seconds),
        "left_range_seconds": [rounded(s) for s in view.left_range] if view.left_range else None,
        "batches": view.batches,
        "moves": [
            {
                "topic": m.tp.topic,
                "partition": m.tp.partition,
                "before": list(m.before),
                "after": list(m.after),
                "state": m.state.value,
                "why": m.why or None,
                "batch": m.batch,
                "total_bytes": m.total_bytes,
                "moved_bytes": m.moved_bytes,
                "bytes_per_s": rounded(m.bytes_per_s),
                "left_seconds": rounded(m.left_seconds),
                "done_at": format_time(m.done_at) if m.done_at else None,
            }
            | (
                {"log_dirs": [{"broker": b, "path": p} for b, p in m.dir_moves]}
                if m.dir_moves
                else {}
            )
            for m in view.moves
        ],
        "brokers": [
            {
                "broker": b.broker,
                "side": b.side,
                "bytes_per_s": rounded(b.bytes_per_s),
                "limit_bytes_per_s": b.limit_bytes_per_s,
                "why": b.why or None,
            }
            for b in view.brokers
        ],
        "requests": [
            {
                "at": format_time(r.at),
                "request": r.kind,
                "what": r.what,
                "who": r.who,
                "taken": r.taken,
                "refused": r.refused or None,
            }
            for r in view.requests
        ],
        "configs": [change.to_json() for change in changes(look.records, look.state)],
        "story": [
            {"at": format_time(e.at), "kind": e.kind, "level": e.level.value, "text": e.text}
            for e in view.events
        ],
        "left": left(view.leftovers) if view.leftovers else None,
    }


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


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
_OUTCOMES = {RunStatus.DIED: RunStatus.INCOMPLETE, RunStatus.ROLLED_BACK: RunStatus.CANCELLED}


def follow(cluster_id: str, run: str) -> Iterator[tuple[RunView, tuple[Event, ...]]]:
    """Yield a run's view with the events that are new, at least once, until it has ended."""
    last_seq, moved = 0, -1
    first = time.monotonic()
    while True:
        began = time.monotonic()
        look = read_journal(cluster_id, run)
        view, records, state = look.view, look.records, look.state
        events = [
            event
            for record in records
            if record.seq > last_seq
            for event in of_record(record, state)
        ]
        last_seq = records[-1].seq
        if view.moved_bytes != moved and view.total_bytes:
            moved = view.moved_bytes
            after = ("moved", "restored", "ended")  # what came of it
            at = next((i for i, e in enumerate(events) if e["event"] in after), len(events))
            events.insert(at, progress(view))
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


def of_record(record: Record, run: RunState) -> Iterator[Event]:
    """Yield what one record says to somebody who follows the run."""
    for event, more in _events(record, run):
        yield {"at": format_time(record.at), "run": run.run_id, "event": event, **more}


def _events(record: Record, run: RunState) -> Iterator[tuple[str, dict[str, Any]]]:
    p = record.payload
    match record.kind:
        case Kind.STARTED:
            yield (
                "started",
                {
                    "pid": p["pid"],
                    "cluster_id": run.cluster_id,
                    "moves": len(run.moves),
                    "rate_bytes_per_s": run.rate_bytes_per_s,
                    "estimated_seconds": run.estimate.get("seconds") if run.estimate else None,
                },
            )
        case Kind.THROTTLE_SET:
            batch = run.throttles.batches[p["batch"]]
            lists, rates = [i.to_json() for i in batch.lists], [r.to_json() for r in batch.rates]
            yield "throttled", {"batch": p["batch"] + 1, "lists": lists, "rates": rates}
        case Kind.RATE_SET:
            late = run.throttles.batches[p["batch"]].late
            rates = [r.to_json() for r in late if [r.broker, r.side.value] in p["rates"]]
            yield "throttled", {"batch": p["batch"] + 1, "lists": [], "rates": rates}
        case Kind.SUBMITTED if p["moves"]:
            partitions = [_partition(run, i) for i in p["moves"]]
            batch_of = {"batch": p["batch"] + 1, "batches": run.batches}
            yield "submitted", {**batch_of, "partitions": partitions}
        case Kind.MOVED:
            for entry in p["moves"]:
                became = {"outcome": entry["phase"], "why": entry["why"] or None}
                yield "moved", {**_partition(run, entry["index"]), **became}
        case Kind.PAIRS_REMOVED:
            lists = [{"topic": t, "side": s, "pairs": pairs} for t, s, pairs in p["lists"]]
            yield "restored", {"lists": lists}
        case Kind.RATE_RESTORED:
            yield "restored", {"rates": list(p["rates"])}
        case Kind.WAITING if p["why"]:
            yield "waiting", {"why": p["why"]}
        case Kind.POSTPONED:
            yield "waiting", {"why": p["why"]}
        case Kind.THROTTLE_FAILED:
            yield "waiting", {"why": f"{p['why']}; what was set is taken back"}
        case Kind.REQUEST:
            yield "request", {"request": p["kind"], "who": p["who"], "host": p["host"]}


def progress(view: RunView) -> Event:
    return {
        "at": format_time(view.last_event_at),
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
    if view.state is RunStatus.ROLLED_BACK:
        why = "rolled back"
    event = {
        "at": format_time(view.ended_at or view.last_event_at),
        "run": view.run,
        "event": "ended",
        "outcome": outcome,
        "why": why or None,
        "moved_bytes": view.moved_bytes,
        "seconds": rounded(view.elapsed_seconds),
        "estimated_seconds": view.estimated_seconds,
    }
    return event | ({"left": left(view.leftovers)} if view.leftovers else {})


def _partition(run: RunState, index: int) -> dict[str, Any]:
    move = run.moves[index].move
    return {"topic": move.tp.topic, "partition": move.tp.partition, "replicas": list(move.after)}
