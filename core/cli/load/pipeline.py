"""`trimtab pipeline`: turns load samples into snapshots, on Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from core import paths
from core.cli.common.context import Context
from core.cli.common.options import (
    Group,
    answer_options,
    cluster_id_option,
    json_option,
    root_option,
    yes_option,
)
from core.cli.common.output import Answer, emit, emit_line, say, write_text
from core.cli.load.pipeline_job import (
    JobChoice,
    chosen_job,
    collected_clusters,
    job_options,
    open_job,
    pipeline_lease,
    resolve_load,
    spark_session,
)
from core.cli.load.pipeline_status import HEADER, status_document, status_row, status_text
from core.clock import SystemClock
from core.cluster.known_names import own_name
from core.daemons.process import stop_signals
from core.errors import UsageError
from core.load import load_paths as layout
from core.load.snapshot.manifest import cluster_ids
from core.pipeline.ledger import Jobs, summed_up
from core.units import counted, format_time, parse_duration

if TYPE_CHECKING:
    from core.pipeline.publish import Published


@click.group(cls=Group)
def pipeline() -> None:
    """Turn load samples into snapshots, on Spark."""


@pipeline.command()
@click.option(
    "--trigger",
    default="15s",
    metavar="TIME",
    show_default=True,
    help="Minimum time between two batches; they take at most a fifth of the time.",
)
@job_options
@root_option
@cluster_id_option
@json_option
@click.pass_obj
def run(
    context: Context,
    trigger: str,
    job: JobChoice,
    root: Path | None,
    cluster_id: str | None,
    as_json: bool,
) -> None:
    """Publish snapshots as samples arrive, until Ctrl-C."""
    seconds = parse_duration(trigger)
    with chosen_job(context, job, root, cluster_id, _publisher(as_json)) as running:
        stop = stop_signals()
        running.run(seconds, lambda: not stop.is_set())


@pipeline.command()
@job_options
@root_option
@cluster_id_option
@json_option
@click.pass_obj
def once(
    context: Context, job: JobChoice, root: Path | None, cluster_id: str | None, as_json: bool
) -> None:
    """Publish a snapshot of the samples collected so far, and exit."""
    report = _publisher(as_json=as_json and job.name is not None)
    if job.name is not None:
        with chosen_job(context, job, root, cluster_id, report, quick=True) as running:
            running.once()
        return
    root, cluster_id = resolve_load(context, root, cluster_id)
    if not layout.spool(root, cluster_id).is_dir():
        raise UsageError(
            f"No samples of {own_name(cluster_id)} have been collected in {root}.",
            next="Run `trimtab collect` first.",
        )
    with open_job(root, cluster_id, report, job, quick=True) as running:
        running.once()
    if as_json:
        published = layout.root_of(job.publish_to) if job.publish_to else root
        emit(status_document(root, cluster_id, published))


@pipeline.command()
@click.option("--all", "every", is_flag=True, help="Show all clusters, a line each.")
@root_option
@cluster_id_option
@answer_options
@click.pass_obj
def status(
    context: Context, every: bool, root: Path | None, cluster_id: str | None, answer: Answer
) -> None:
    """Show the processes, their delay, and the counts of samples.

    If snapshots are published elsewhere, name that place with --snapshots.
    """
    published = context.target.snapshots
    if every:
        place = root or paths.load_root()
        snapshots = layout.root_of(published) if published else place
        known = sorted(collected_clusters(place) | set(cluster_ids(snapshots)))
        jobs = Jobs(place)

        def document_of(cluster: str) -> dict[str, Any]:
            return status_document(place, cluster, snapshots, jobs)

        answer.write_table(
            known,
            document_of,
            HEADER,
            lambda cluster: status_row(document_of(cluster)),
            "  >>>>",
            none=f"No load of any cluster below {place}.",
        )
        return
    root, cluster_id = resolve_load(context, root, cluster_id)
    document = status_document(root, cluster_id, layout.root_of(published) if published else root)
    if answer.as_json:
        emit(document, answer.output)
        return
    write_text(status_text(document), answer.output)


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
    with pipeline_lease(root, cluster_id):
        if segments := list_segments(root, cluster_id):
            # How far back they go is said by the folders that they lie in.
            day, hour = (p.partition("=")[2] for p in min(s.parent for s in segments).parts)
            say(f"{counted(len(segments), 'segment')} kept, back to {day} {hour}:00 UTC.")
        if not yes:
            context.confirm(cluster_id, "rebuild", "Rebuilding", "nothing was changed")
        with spark_session(quick=True) as session:
            from core.pipeline.rebuild import rebuild as publish_anew

            outcome = publish_anew(session.spark, root, cluster_id, SystemClock(), _print_batch)
    manifest = outcome.manifest
    if as_json:
        emit(
            {
                "cluster_id": cluster_id,
                "snapshot_id": manifest.snapshot_id if manifest else None,
                "published_at": format_time(manifest.published_at) if manifest else None,
                "segments": outcome.segments,
                "left_out": outcome.left_out,
                "windows": outcome.windows,
                "since": format_time(outcome.since) if outcome.since else None,
            }
        )
        return
    since = f" since {format_time(outcome.since)}" if outcome.since else ""
    say(
        f"{counted(outcome.segments, 'segment')} made {counted(outcome.windows, 'window')}{since} "
        f"anew; older windows are as they were. Snapshot: "
        f"{manifest.snapshot_id if manifest else 'none, as nobody is known to hold anything'}."
    )
    if outcome.left_out:
        damaged = counted(outcome.left_out, "damaged segment")
        say(f"{damaged} could not be read and is missing there.")


def _print_batch(batch: list[Published]) -> None:
    for published in batch:
        until = f" until {format_time(published.newest)}" if published.newest else ""
        say(f"{published.counts.read} samples{until} processed")


def _publisher(as_json: bool) -> Callable[[list[Published]], None]:
    """Return what prints a batch: a line, or as JSON one for each cluster in it."""

    def report(batch: list[Published]) -> None:
        if as_json:
            for published in batch:
                emit_line(_document(published))
        elif len(batch) == 1:
            (published,) = batch
            name = published.snapshot.snapshot_id if published.snapshot else "no snapshot yet"
            say(f"{name}: {_counted(batch)}")
        elif batch:
            snapshots = sum(publication.snapshot is not None for publication in batch)
            say(
                f"{batch[0].key}: {counted(snapshots, 'snapshot')} of "
                f"{counted(len(batch), 'cluster')}: {_counted(batch)}"
            )

    return report


def _counted(batch: list[Published]) -> str:
    counts = summed_up([publication.counts for publication in batch])
    refused = sum(counts.quarantined.values())
    parts = [f"{counts.read:,} samples read", f"{counts.accepted:,} accepted"]
    parts += [f"{n:,} {what}" for n, what in ((counts.late, "late"), (refused, "quarantined")) if n]
    return ", ".join(parts)


def _document(published: Published) -> dict[str, Any]:
    """Return what became of a cluster's samples in a batch, as JSON says it."""
    counts, snapshot = published.counts, published.snapshot
    return {
        "cluster_id": published.cluster_id,
        "at": format_time(snapshot.published_at) if snapshot else None,
        "snapshot_id": snapshot.snapshot_id if snapshot else None,
        "source_lag_seconds": published.source_lag_seconds,
        "read": counts.read,
        "accepted": counts.accepted,
        "duplicate": counts.duplicate,
        "late": counts.late,
        "quarantined": dict(counts.quarantined),
    }
