"""`trimtab pipeline`: turns load samples into snapshots, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from core import paths
from core.cli.common.context import Context
from core.cli.common.foreground import required_lease
from core.cli.common.options import (
    Group,
    answer_options,
    cluster_id_option,
    json_option,
    root_option,
    yes_option,
)
from core.cli.common.output import Answer, emit, emit_line, say, write_text
from core.clock import SystemClock
from core.daemons.lease import lease_file, lease_holder
from core.daemons.process import stop_signals
from core.errors import RefusedError, UsageError
from core.load import load_paths as layout
from core.load.daemon import pipeline_trouble
from core.load.snapshot.manifest import cluster_ids, read_manifest
from core.load.store import Root
from core.pipeline.ledger import waiting_segments
from core.pipeline.session import Session, open_session
from core.units import counted, format_duration, format_time, parse_duration

if TYPE_CHECKING:
    from core.pipeline.intake import Published
    from core.pipeline.job import Job


publish_to_option = click.option(
    "--publish-to",
    metavar="ADDRESS",
    help="Publish snapshots below this folder or store, like s3://BUCKET/PREFIX; default: --root.",
)


@click.group(cls=Group)
def pipeline() -> None:
    """Turn load samples into snapshots, on Spark."""


@pipeline.command()
@click.option(
    "--trigger", default="15s", metavar="TIME", show_default=True, help="Time between two batches."
)
@publish_to_option
@root_option
@cluster_id_option
@json_option
@click.pass_obj
def run(
    context: Context,
    trigger: str,
    publish_to: str | None,
    root: Path | None,
    cluster_id: str | None,
    as_json: bool,
) -> None:
    """Publish snapshots as samples arrive, until Ctrl-C."""
    seconds = parse_duration(trigger)
    of = resolve_load(context, root, cluster_id)
    with _job(*of, _publisher(as_json), publish_to) as job:
        stop = stop_signals()
        job.run(seconds, lambda: not stop.is_set())


@pipeline.command()
@publish_to_option
@root_option
@cluster_id_option
@json_option
@click.pass_obj
def once(
    context: Context,
    publish_to: str | None,
    root: Path | None,
    cluster_id: str | None,
    as_json: bool,
) -> None:
    """Publish a snapshot of the samples collected so far, and exit."""
    root, cluster_id = resolve_load(context, root, cluster_id)
    if not layout.spool(root, cluster_id).is_dir():
        raise UsageError(
            f"No samples of {cluster_id} have been collected in {root}.",
            next="Run `trimtab collect` first.",
        )
    with _job(root, cluster_id, _publisher(as_json=False), publish_to, quick=True) as job:
        job.once()
    if as_json:
        emit(status_document(root, cluster_id, layout.root_of(publish_to) if publish_to else root))


@pipeline.command()
@root_option
@cluster_id_option
@answer_options
@click.pass_obj
def status(context: Context, root: Path | None, cluster_id: str | None, answer: Answer) -> None:
    """Show the processes, their delay, and the counts of samples.

    If snapshots are published elsewhere, name that place with --snapshots.
    """
    root, cluster_id = resolve_load(context, root, cluster_id)
    published = context.target.snapshots
    snapshots = layout.root_of(published) if published else root
    document = status_document(root, cluster_id, snapshots)
    if answer.as_json:
        emit(document, answer.output)
        return
    facts = {}
    for role in ("collector", "pipeline"):
        pid = document[f"{role}_pid"]
        facts[role] = f"runs, pid {pid}" if pid else "does not run"
    if document["trouble"]:
        facts["trouble"] = document["trouble"]
    age, known = document["age_seconds"], document["snapshot_id"]
    facts["snapshot"] = f"{known}, {format_duration(age)} old" if known else "none yet"
    facts["waiting"] = f"{document['waiting_segments']} segments"
    if document["counts"]:
        facts["samples"] = format_counts(document["counts"])
    write_text("".join(f"{name:<12}{text}\n" for name, text in facts.items()), answer.output)


@pipeline.command()
@root_option
@cluster_id_option
@yes_option
@json_option
@click.pass_obj
def rebuild(
    context: Context, root: Path | None, cluster_id: str | None, yes: bool, as_json: bool
) -> None:
    """Rebuild the snapshots from the segments of the last 48 hours.

    Use it after damage: Spark's checkpoint, batches, tables, windows and the newest snapshot are
    made again. Until then readers keep the present ones; windows older than the segments stay.
    """
    from core.load.spool import list_segments

    root, cluster_id = resolve_load(context, root, cluster_id)
    with _lease(root, cluster_id):
        if segments := list_segments(root, cluster_id):
            # How far back they go is said by the folders that they lie in.
            day, hour = (p.partition("=")[2] for p in min(s.parent for s in segments).parts)
            say(f"{counted(len(segments), 'segment')} kept, back to {day} {hour}:00 UTC.")
        if not yes:
            context.confirm(cluster_id, "rebuild", "Rebuilding", "nothing was changed")
        with _session(quick=True) as session:
            from core.pipeline.rebuild import rebuild as publish_anew

            found = publish_anew(session.spark, root, cluster_id, SystemClock(), _print_replayed)
    manifest = found.manifest
    if as_json:
        emit(
            {
                "cluster_id": cluster_id,
                "snapshot_id": manifest.snapshot_id if manifest else None,
                "published_at": format_time(manifest.published_at) if manifest else None,
                "segments": found.segments,
                "left_out": found.left_out,
                "windows": found.windows,
                "since": format_time(found.since) if found.since else None,
            }
        )
        return
    since = f" since {format_time(found.since)}" if found.since else ""
    say(
        f"{counted(found.segments, 'segment')} made {counted(found.windows, 'window')}{since} "
        f"anew; older windows are as they were. Snapshot: "
        f"{manifest.snapshot_id if manifest else 'none, as nobody is known to hold anything'}."
    )
    if found.left_out:
        say(f"{counted(found.left_out, 'damaged segment')} could not be read and is missing there.")


def _print_replayed(published: Published) -> None:
    until = f" until {format_time(published.newest)}" if published.newest else ""
    say(f"{published.counts.read} samples{until} processed")


def status_document(root: Path, cluster_id: str, snapshots: Root) -> dict[str, Any]:
    """Return what `pipeline status --json` prints; `snapshots` is where they are published."""
    manifest = read_manifest(snapshots, cluster_id)
    held = {
        role: lease_holder(lease_file(root, cluster_id, role)) for role in ("collector", "pipeline")
    }
    age = None if manifest is None else (datetime.now(UTC) - manifest.window_end).total_seconds()
    return {
        "cluster_id": cluster_id,
        "root": str(root),
        "collector_pid": held["collector"].pid if held["collector"] else None,
        "pipeline_pid": held["pipeline"].pid if held["pipeline"] else None,
        "trouble": pipeline_trouble(root, cluster_id),
        "snapshot_id": manifest.snapshot_id if manifest else None,
        "published_at": format_time(manifest.published_at) if manifest else None,
        "age_seconds": age,
        "waiting_segments": waiting_segments(root, cluster_id),
        "counts": asdict(manifest.counts) if manifest else None,
    }


def format_counts(counts: dict[str, Any]) -> str:
    """Return the counts of a snapshot as one line."""
    refused = ", ".join(f"{count:,} {reason}" for reason, count in counts["quarantined"].items())
    came = ", ".join(
        f"{counts[what]:,} {what}" for what in ("read", "accepted", "duplicate", "late")
    )
    return f"{came}, quarantined: {refused or 'none'}"


def resolve_load(context: Context, root: Path | None, cluster_id: str | None) -> tuple[Path, str]:
    """Return where load is kept, and of which cluster: by id, by address, or the only one there."""
    root = root or paths.load_root()
    collected = {path.name.removeprefix("cluster=") for path in root.glob("spool/cluster=*")}
    known = collected | set(cluster_ids(root))
    return root, context.resolve_cluster_id(
        cluster_id, known, f"{root} has load of", "Run `trimtab collect` first."
    )


def _publisher(as_json: bool) -> Any:
    def report(published: Published) -> None:
        counts, snapshot = published.counts, published.snapshot
        if as_json:
            emit_line(
                {
                    "at": format_time(snapshot.published_at) if snapshot else None,
                    "snapshot_id": snapshot.snapshot_id if snapshot else None,
                    "source_lag_seconds": published.source_lag_seconds,
                    "read": counts.read,
                    "accepted": counts.accepted,
                    "duplicate": counts.duplicate,
                    "late": counts.late,
                    "quarantined": dict(counts.quarantined),
                }
            )
        else:
            name = snapshot.snapshot_id if snapshot else "no snapshot yet"
            say(f"{name}: {counts.read} samples read, {counts.accepted} accepted")

    return report


@contextmanager
def _job(
    root: Path, cluster_id: str, report: Any, publish_to: str | None, *, quick: bool = False
) -> Iterator[Job]:
    """Hold the cluster's lease and a Spark session around a job."""
    snapshots = layout.root_of(publish_to) if publish_to else None
    with _lease(root, cluster_id), _session(quick=quick) as session:
        from core.pipeline.job import Job

        yield Job(session.spark, root, cluster_id, SystemClock(), report, snapshots)


def _lease(root: Path, cluster_id: str) -> AbstractContextManager[None]:
    busy = RefusedError(
        "Another pipeline on this machine publishes this cluster's load.",
        next="Stop it first; `trimtab pipeline status` shows it.",
    )
    return required_lease(root, cluster_id, "pipeline", busy)


@contextmanager
def _session(*, quick: bool) -> Iterator[Session]:
    session = open_session(quick=quick)
    try:
        yield session
    finally:
        session.stop()
