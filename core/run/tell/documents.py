"""Runs as JSON documents: what `runs ls --json` and `runs show --json` print."""

from __future__ import annotations

from typing import Any

from core.run.tell.changes import changes
from core.run.tell.runs import Reading
from core.run.tell.view import Leftovers, RunSummary
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
    return {
        "run": run.run,
        "cluster_id": run.cluster_id,
        "state": run.state.value,
        "started_at": format_time(run.started_at),
        "ended_at": format_time(run.ended_at) if run.ended_at else None,
        "moves": run.moves,
        "done": run.done,
        "total_bytes": run.total_bytes,
        "moved_bytes": run.moved_bytes,
        "seconds": rounded(run.seconds),
        "estimated_seconds": run.estimated_seconds,
        "rate_bytes_per_s": run.rate_bytes_per_s,
        "who": run.who,
    }


def run_document(look: Reading) -> dict[str, Any]:
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
        "configs": [change.to_json() for change in changes(look.records, look.history)],
        "story": [
            {"at": format_time(e.at), "kind": e.kind, "level": e.level.value, "text": e.text}
            for e in view.events
        ],
        "left": left(view.leftovers) if view.leftovers else None,
    }


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
