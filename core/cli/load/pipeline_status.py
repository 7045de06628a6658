"""`trimtab pipeline status`: what it prints of one cluster, and of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.cluster.known_names import own_name
from core.daemons.lease import lease_file, lease_holder
from core.daemons.process import resident_bytes
from core.load.daemon import pipeline_trouble
from core.load.snapshot.manifest import read_manifest
from core.load.store import Root
from core.pipeline.ledger import Batch, Jobs
from core.units import format_bytes, format_duration, format_time

HEADER = ("cluster", "snapshot", "waiting", "read", "late", "quarantined")


def status_row(document: Mapping[str, Any]) -> Sequence[str]:
    """Return a cluster's row: how old its load is, what waits, what was refused."""
    counts = document["counts"] or {"read": 0, "late": 0, "quarantined": {}}
    age = document["age_seconds"]
    return (
        own_name(document["cluster_id"]),
        "none yet" if age is None else f"{format_duration(age)} old",
        f"{document['waiting_segments']}",
        f"{counts['read']:,}",
        f"{counts['late']:,}",
        f"{sum(counts['quarantined'].values()):,}",
    )


def status_text(document: Mapping[str, Any]) -> str:
    """Return what `pipeline status` prints of a cluster."""
    facts = {}
    for role in ("collector", "pipeline"):
        pid = document[f"{role}_pid"]
        facts[role] = f"runs, pid {pid}" if pid else "does not run"
    if document["memory_bytes"]:
        facts["pipeline"] += f", {format_bytes(document['memory_bytes'])}"
    if document["trouble"]:
        facts["trouble"] = document["trouble"]
    age, known_id = document["age_seconds"], document["snapshot_id"]
    facts["snapshot"] = f"{known_id}, {format_duration(age)} old" if known_id else "none yet"
    if last := document["last_batch"]:
        rows = f"{last['rows']:,} samples in {last['seconds']:.1f} s"
        facts["last batch"] = f"{rows}, {last['rows_per_second']:,.0f} a second"
        if last["job"] != document["cluster_id"]:
            facts["job"] = f"{last['job']}, of many clusters"
    facts["waiting"] = f"{document['waiting_segments']} segments"
    if document["counts"]:
        facts["samples"] = format_counts(document["counts"])
    return "".join(f"{name:<12}{text}\n" for name, text in facts.items())


def status_document(
    root: Path, cluster_id: str, snapshots: Root, jobs: Jobs | None = None
) -> dict[str, Any]:
    """Return what `pipeline status --json` prints; `snapshots` is where they are published."""
    manifest = read_manifest(snapshots, cluster_id)
    jobs = jobs or Jobs(root)
    last = jobs.last_batch(cluster_id)
    collector = lease_holder(lease_file(root, cluster_id, "collector"))
    job = cluster_id if last is None else last[0]
    running = lease_holder(lease_file(root, job, "pipeline"))
    age = None if manifest is None else (datetime.now(UTC) - manifest.window_end).total_seconds()
    return {
        "cluster_id": cluster_id,
        "root": str(root),
        "collector_pid": collector.pid if collector else None,
        "pipeline_pid": running.pid if running else None,
        "memory_bytes": resident_bytes(running.pid) if running else None,
        "trouble": pipeline_trouble(root, cluster_id),
        "snapshot_id": manifest.snapshot_id if manifest else None,
        "published_at": format_time(manifest.published_at) if manifest else None,
        "age_seconds": age,
        "last_batch": None if last is None else _batch_document(*last),
        "waiting_segments": jobs.waiting_segments(cluster_id),
        "counts": asdict(manifest.counts) if manifest else None,
    }


def _batch_document(job: str, batch: Batch) -> dict[str, Any]:
    return {
        "job": job,
        "at": format_time(batch.began_at),
        "rows": batch.rows,
        "seconds": batch.seconds,
        "rows_per_second": round(batch.rows / batch.seconds, 1) if batch.seconds else 0.0,
    }


def format_counts(counts: dict[str, Any]) -> str:
    """Return the counts of a snapshot as one line."""
    refused = ", ".join(f"{count:,} {reason}" for reason, count in counts["quarantined"].items())
    came = ", ".join(
        f"{counts[what]:,} {what}" for what in ("read", "accepted", "duplicate", "late")
    )
    return f"{came}, quarantined: {refused or 'none'}"
