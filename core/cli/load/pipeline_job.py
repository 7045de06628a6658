"""Which job a command of the pipeline runs: its options, its lease and its Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from core import paths
from core.cli.common.context import Context
from core.cli.common.foreground import required_lease
from core.cli.common.output import say
from core.clock import SystemClock
from core.cluster.connect import java_client_properties
from core.daemons.lease import is_leased, lease_file
from core.errors import RefusedError, UsageError
from core.load import load_paths as layout
from core.load.samples_topic import TOPIC
from core.load.snapshot.manifest import cluster_ids
from core.pipeline.session import Session, open_session

if TYPE_CHECKING:
    from core.pipeline.job import Job
    from core.pipeline.publish import Published

    Report = Callable[[list[Published]], None]
    """Is told of a batch what it has published."""

T = TypeVar("T")

publish_to_option = click.option(
    "--publish-to",
    metavar="ADDRESS",
    help="Publish snapshots below this folder or store, like s3://BUCKET/PREFIX; default: --root.",
)


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


def collected_clusters(root: Path) -> set[str]:
    """Return the clusters that samples have been collected of."""
    return {path.name.removeprefix("cluster=") for path in root.glob("spool/cluster=*")}


def resolve_load(context: Context, root: Path | None, cluster_id: str | None) -> tuple[Path, str]:
    """Return where load is kept, and of which cluster: by id, by address, or the only one there."""
    root = root or paths.load_root()
    known = collected_clusters(root) | set(cluster_ids(root))
    return root, context.resolve_cluster_id(
        cluster_id, known, f"{root} has load of", "Run `trimtab collect` first."
    )


@contextmanager
def chosen_job(
    context: Context,
    choice: JobChoice,
    root: Path | None,
    cluster_id: str | None,
    report: Report,
    *,
    quick: bool = False,
) -> Iterator[Job]:
    """Hold the lease and a Spark session around the job that was chosen."""
    if choice.name is None:
        of = resolve_load(context, root, cluster_id)
        with open_job(*of, report, choice, quick=quick) as job:
            yield job
        return
    if cluster_id is not None:
        raise UsageError("--cluster-id is for one cluster of the spool.", next="Leave it out.")
    root = root or paths.load_root()
    layout.mark(root)
    properties = None
    if choice.topic is not None:
        properties = java_client_properties(context.require_address())
    with open_job(root, choice.name, report, choice, quick=quick, properties=properties) as job:
        yield job


@contextmanager
def open_job(
    root: Path,
    name: str,
    report: Report,
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
        pipeline_lease(root, name),
        spark_session(
            quick=quick, master=choice.master, topics=topics, properties=properties
        ) as session,
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


def pipeline_lease(root: Path, name: str) -> AbstractContextManager[None]:
    """Return the lease of a pipeline; of all clusters' and one cluster's only one may run."""
    others = [layout.EVERY]
    if name == layout.EVERY:
        others = sorted(collected_clusters(root))
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
def spark_session(
    *,
    quick: bool,
    master: str | None = None,
    topics: bool = False,
    properties: Mapping[str, str] | None = None,
) -> Iterator[Session]:
    """Give a Spark session, with Kafka's connector where `topics` are read by these properties."""
    settings = {}
    if topics:
        from core.pipeline.topic import connector_settings

        settings = connector_settings(say, properties)
    session = open_session(master=master, quick=quick, settings=settings)
    try:
        yield session
    finally:
        session.stop()
