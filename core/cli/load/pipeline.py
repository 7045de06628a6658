"""`trimtab pipeline`: turns load samples into snapshots, on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

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
from core.cluster.connect import java_client_properties
from core.daemons.lease import is_leased, lease_file, lease_holder
from core.daemons.process import resident_bytes, stop_signals
from core.errors import RefusedError, UsageError
from core.load import load_paths as layout
from core.load.daemon import pipeline_trouble
from core.load.samples_topic import TOPIC
from core.load.snapshot.manifest import cluster_ids, read_manifest
from core.load.store import Root
from core.pipeline.ledger import Batch, Jobs
from core.pipeline.session import Session, open_session
from core.units import counted, format_bytes, format_duration, format_time, parse_duration

if TYPE_CHECKING:
    from core.pipeline.job import Job
    from core.pipeline.publish import Published


T = TypeVar("T")

publish_to_option = click.option(
    "--publish-to",
    metavar="ADDRESS",
    help="Publish snapshots below this folder or store, like s3://BUCKET/PREFIX; default: --root.",
)


@click.group(cls=Group)
def pipeline() -> None:
    """Turn load samples into snapshots, on Spark."""


@dataclass(frozen=True, slots=True)
class JobChoice:
    """Which samples a job takes: of one cluster from the spool, of all there, or from a topic."""

    every: bool = False
    topic: str | None = None
    publish_to: str | None = None
    master: str | None = None

    @property
    def name(self) -> str | None:
        """Return the name of the job's own files; None for one cluster, whose id it is."""
        if self.topic is not None:
            return f"{layout.TOPIC_PREFIX}{self.topic}"
        return layout.EVERY if self.every else None


def job_options(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command the options that say which job is meant, as one `job`."""

    @wraps(command)
    def call(
        *args: Any,
        source: str,
        topic: str | None,
        every: bool,
        publish_to: str | None,
        master: str | None,
        **rest: Any,
    ) -> T:
        if topic is not None and source != "kafka":
            raise UsageError("--topic is for samples in Kafka.", next="Add --source kafka.")
        if every and source == "kafka":
            raise UsageError("A topic is always read whole.", next="Leave out --all.")
        chosen = (topic or TOPIC) if source == "kafka" else None
        return command(*args, job=JobChoice(every, chosen, publish_to, master), **rest)

    options = (
        click.option(
            "--source",
            type=click.Choice(["spool", "kafka"]),
            default="spool",
            show_default=True,
            help="Read samples from the spool of this machine, or from a Kafka topic.",
        ),
        click.option("--topic", metavar="NAME", help=f"Kafka: topic to read (default: {TOPIC})."),
        click.option(
            "--all", "every", is_flag=True, help="Spool: take the samples of all clusters."
        ),
        publish_to_option,
        click.option(
            "--master",
            metavar="URL",
            help="Spark cluster to run on, like spark://HOST:7077 or yarn; default: this machine.",
        ),
    )
    for option in reversed(options):
        call = option(call)
    return call


@pipeline.command()
@click.option(
    "--trigger",
    default="15s",
    metavar="TIME",
    show_default=True,
    help="Time between two batches, at least; a fifth of the time at most goes to them.",
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
    with _chosen_job(context, job, root, cluster_id, _publisher(as_json)) as running:
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
        with _chosen_job(context, job, root, cluster_id, report, quick=True) as running:
            running.once()
        return
    root, cluster_id = resolve_load(context, root, cluster_id)
    if not layout.spool(root, cluster_id).is_dir():
        raise UsageError(
            f"No samples of {cluster_id} have been collected in {root}.",
            next="Run `trimtab collect` first.",
        )
    with _job(root, cluster_id, report, job, quick=True) as running:
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
        root = root or paths.load_root()
        snapshots = layout.root_of(published) if published else root
        known = sorted(_collected(root) | set(cluster_ids(snapshots)))
        jobs = Jobs(root)
        documents = [status_document(root, one, snapshots, jobs) for one in known]
        if answer.as_json:
            emit(documents, answer.output)
        else:
            write_text(_status_table(documents), answer.output)
        return
    root, cluster_id = resolve_load(context, root, cluster_id)
    document = status_document(root, cluster_id, layout.root_of(published) if published else root)
    if answer.as_json:
        emit(document, answer.output)
        return
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
        if last["job"] != cluster_id:
            facts["job"] = f"{last['job']}, of many clusters"
    facts["waiting"] = f"{document['waiting_segments']} segments"
    if document["counts"]:
        facts["samples"] = format_counts(document["counts"])
    write_text("".join(f"{name:<12}{text}\n" for name, text in facts.items()), answer.output)


def _status_table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each cluster: how old its load is, what waits, what was refused."""
    names = ("cluster", "snapshot", "waiting", "read", "late", "quarantined")
    rows = [names]
    for document in documents:
        counts = document["counts"] or {"read": 0, "late": 0, "quarantined": {}}
        age = document["age_seconds"]
        rows.append(
            (
                document["cluster_id"],
                "none yet" if age is None else f"{format_duration(age)} old",
                f"{document['waiting_segments']}",
                f"{counts['read']:,}",
                f"{counts['late']:,}",
                f"{sum(counts['quarantined'].values()):,}",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(names))]
    lines = (
        "  ".join(
            text.ljust(width) if i < 2 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
    return "\n".join(lines) + "\n"


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


def _collected(root: Path) -> set[str]:
    """Return the clusters that samples have been collected of."""
    return {path.name.removeprefix("cluster=") for path in root.glob("spool/cluster=*")}


def resolve_load(context: Context, root: Path | None, cluster_id: str | None) -> tuple[Path, str]:
    """Return where load is kept, and of which cluster: by id, by address, or the only one there."""
    root = root or paths.load_root()
    known = _collected(root) | set(cluster_ids(root))
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
def _chosen_job(
    context: Context,
    choice: JobChoice,
    root: Path | None,
    cluster_id: str | None,
    report: Any,
    *,
    quick: bool = False,
) -> Iterator[Job]:
    """Hold the lease and a Spark session around the job that was chosen."""
    if choice.name is None:
        of = resolve_load(context, root, cluster_id)
        with _job(*of, report, choice, quick=quick) as job:
            yield job
        return
    if cluster_id is not None:
        raise UsageError("--cluster-id is for one cluster of the spool.", next="Leave it out.")
    root = root or paths.load_root()
    layout.mark(root)
    properties = None
    if choice.topic is not None:
        properties = java_client_properties(context.require_address())
    with _job(root, choice.name, report, choice, quick=quick, properties=properties) as job:
        yield job


@contextmanager
def _job(
    root: Path,
    name: str,
    report: Any,
    choice: JobChoice,
    *,
    quick: bool = False,
    properties: Mapping[str, str] | None = None,
) -> Iterator[Job]:
    """Hold the lease of a job's name and a Spark session around it.

    `properties` are a Java client's, for a topic.
    """
    snapshots = layout.root_of(choice.publish_to) if choice.publish_to else None
    topics = choice.topic is not None
    with (
        _lease(root, name),
        _session(quick=quick, master=choice.master, topics=topics) as session,
    ):
        from core.pipeline.job import Job
        from core.pipeline.session import check_shared
        from core.pipeline.source import Source, Spool
        from core.pipeline.topic import SamplesTopic

        check_shared(session.spark, root)
        source: Source = Spool(root, None if choice.every else name)
        if choice.topic is not None:
            source = SamplesTopic(properties or {}, choice.topic)
        yield Job(session.spark, root, name, SystemClock(), report, snapshots, source)


def _lease(root: Path, name: str) -> AbstractContextManager[None]:
    """Return the lease of a pipeline; of all clusters' and one cluster's only one may run."""
    others = [layout.EVERY]
    if name == layout.EVERY:
        others = sorted(_collected(root))
    elif name.startswith(layout.TOPIC_PREFIX):
        others = []
    for other in others:
        if is_leased(lease_file(root, other, "pipeline")):
            whose = "all clusters'" if other == layout.EVERY else f"{other}'s"
            raise RefusedError(
                f"Another pipeline on this machine publishes {whose} load.",
                next="Stop it first; `trimtab pipeline status --all` shows it.",
            )
    busy = RefusedError(
        "Another pipeline on this machine publishes this load.",
        next="Stop it first; `trimtab pipeline status` shows it.",
    )
    return required_lease(root, name, "pipeline", busy)


@contextmanager
def _session(*, quick: bool, master: str | None = None, topics: bool = False) -> Iterator[Session]:
    """Give a Spark session, with Kafka's connector where `topics` are read."""
    settings = {}
    if topics:
        from core.pipeline.topic import connector_settings

        settings = connector_settings(say)
    session = open_session(master=master, quick=quick, settings=settings)
    try:
        yield session
    finally:
        session.stop()
