"""Where `collect` writes samples: `--to`, and what a topic takes beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import click

from core.cli.common.context import Context, Target
from core.cli.common.output import say
from core.cluster.client import NewTopic
from core.cluster.connect import Connection, open_topic_writer
from core.cluster.topics import is_legal_name
from core.errors import RIGHTS, AccessDeniedError, TrimtabError, UsageError
from core.load.collector.sinks import Sink, SpoolSink, TopicSink
from core.load.samples_topic import CONFIGS, PARTITIONS, REPLICAS, TOPIC
from core.units import counted

T = TypeVar("T")

_OPTIONS = (
    click.option(
        "--to",
        "to",
        type=click.Choice(["spool", "kafka"]),
        default="spool",
        show_default=True,
        help="Write samples to the spool of this machine, or to a Kafka topic.",
    ),
    click.option("--topic", metavar="NAME", help=f"Kafka: topic to write to (default: {TOPIC})."),
    click.option(
        "--to-bootstrap-server",
        metavar="HOST:PORT,…",
        help="Kafka: brokers to write to (default: the polled cluster).",
    ),
    click.option(
        "--to-command-config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Kafka: client properties for --to-bootstrap-server.",
    ),
)


@dataclass(frozen=True, slots=True)
class SinkChoice:
    """What the options say; without a topic, samples go to the spool."""

    topic: str | None = None
    bootstrap: str | None = None
    command_config: Path | None = None

    @contextmanager
    def open(self, context: Context, polled: Connection, root: Path) -> Iterator[Sink]:
        """Open what polls of the cluster `polled` are written to.

        Raises RefusedError for a topic of a cluster that is read_only, UsageError for one of a
        simulated cluster.
        """
        if self.topic is None:
            yield SpoolSink(root)
            return
        if self.bootstrap is None:
            with self._open_topic(context, polled, self.topic) as sink:
                yield sink
            return
        target = Target.choose(
            bootstrap=self.bootstrap,
            cluster_name=None,
            command_config=self.command_config,
            from_file=None,
            snapshots=None,
        )
        there = replace(context, target=target)
        with (
            there.connected() as connection,
            self._open_topic(there, connection, self.topic) as sink,
        ):
            yield sink

    @contextmanager
    def _open_topic(self, context: Context, connection: Connection, topic: str) -> Iterator[Sink]:
        context.require_writable()
        writer = open_topic_writer(connection.address, topic)
        try:
            yield TopicSink(writer, partial(ensure_topic, context, connection, topic))
        finally:
            writer.close()


def sink_options(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command `--to` and what belongs to it, which it gets as one `destination`."""

    @wraps(command)
    def call(
        *args: Any,
        to: str,
        topic: str | None,
        to_bootstrap_server: str | None,
        to_command_config: Path | None,
        **options: Any,
    ) -> T:
        destination = choose_sink(to, topic, to_bootstrap_server, to_command_config)
        return command(*args, destination=destination, **options)

    for option in reversed(_OPTIONS):
        call = option(call)
    return call


def choose_sink(
    to: str, topic: str | None, bootstrap: str | None, command_config: Path | None
) -> SinkChoice:
    """Return what these options mean; raises UsageError for words that mean nothing."""
    if to == "spool":
        if topic or bootstrap or command_config:
            raise UsageError(
                "--topic, --to-bootstrap-server and --to-command-config are for a Kafka topic.",
                next="Add --to kafka.",
            )
        return SinkChoice()
    if command_config and not bootstrap:
        raise UsageError(
            "--to-command-config is for another cluster than the polled one.",
            next="Name it with --to-bootstrap-server.",
        )
    if topic is not None and not is_legal_name(topic):
        raise UsageError(
            f"{topic!r} is no name for a topic.",
            next="Letters, digits, dot, dash and underscore, 249 of them at most.",
        )
    return SinkChoice(topic or TOPIC, bootstrap, command_config)


def ensure_topic(context: Context, connection: Connection, topic: str) -> None:
    """Create the topic of samples where it is missing.

    Raises RefusedError where the cluster is read_only, AccessDeniedError without the right.
    """
    from core.plan.planner.new_topic import place_round_robin
    from core.run.audited_client import audited

    client = connection.client
    state = client.describe_cluster()
    context.require_writable(state)
    if state.topic(topic) is not None:
        return
    racks = {broker.id: broker.rack for broker in state.brokers if broker.alive}
    replicas = min(REPLICAS, len(racks))
    layout = place_round_robin(racks, PARTITIONS, replicas, start=crc32(topic.encode()))
    new = NewTopic(topic, tuple(layout), CONFIGS)
    fault = audited(client, state.cluster_id, None).create_topics([new]).get(topic)
    if fault is None:
        say(f"Created {topic}: {counted(PARTITIONS, 'partition')}, {counted(replicas, 'replica')}.")
    elif fault.is_denial:
        configs = " ".join(f"--config {name}={value}" for name, value in CONFIGS.items())
        raise AccessDeniedError(
            f"This user sees no topic {topic}, and may not create one.",
            next=f"Have it created, and the user given WRITE on it: trimtab topics create "
            f"{topic} --partitions {PARTITIONS} --rf {replicas} {configs}",
        )
    elif fault.name != "TOPIC_ALREADY_EXISTS":  # another collector was quicker, or it is hidden
        raise TrimtabError(f"Topic {topic} was not created: {fault}.", next=RIGHTS)
