"""Where `collect` takes bytes from: `--from`, and what a Prometheus takes beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from core.cluster.connect import Connection, open_topic_reader
from core.errors import UsageError
from core.load.sources import automq, cruise_control, prometheus
from core.load.sources.metrics import MetricsSource
from core.load.sources.metrics_topic import Format, MetricsTopic
from core.load.sources.prometheus import Prometheus, Query
from core.load.sources.prometheus_api import SCHEMES, PrometheusApi

T = TypeVar("T")

ADMIN_INTERVAL_SECONDS = 10.0
FORMATS = {
    "cruise-control": (
        Format("cruise-control", cruise_control.TOPICS, cruise_control.decode),
        cruise_control.INTERVAL_SECONDS,
    ),
    "automq": (Format("automq", automq.TOPICS, automq.decode), automq.INTERVAL_SECONDS),
}


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """What the options say: how often to poll unless told, and how to open the source."""

    interval_seconds: float
    open: Callable[[Connection, float], MetricsSource | None]
    """Takes the time between two polls, too; None where the brokers themselves are asked."""


_OPTIONS = (
    click.option(
        "--from",
        "source",
        metavar="SOURCE",
        help="Take the bytes that brokers count: cruise-control, automq, or a Prometheus's URL.",
    ),
    click.option(
        "--match", metavar="LABELS", help='Prometheus: this cluster\'s series, like cluster="prod".'
    ),
    click.option(
        "--broker-label",
        metavar="LABEL",
        help="Prometheus: label with the brokers' IDs (default: found by their hosts).",
    ),
    click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Prometheus: file with a bearer token, read anew at each poll.",
    ),
    click.option(
        "--ca-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Prometheus: certificates to trust, PEM (default: the system's).",
    ),
)


def source_options(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command `--from` and what belongs to it, which it gets as one `chosen`."""

    @wraps(command)
    def call(
        *args: Any,
        source: str | None,
        match: str | None,
        broker_label: str | None,
        token_file: Path | None,
        ca_file: Path | None,
        **options: Any,
    ) -> T:
        chosen = choose_source(source, Query(match or "", broker_label), token_file, ca_file)
        return command(*args, chosen=chosen, **options)

    for option in reversed(_OPTIONS):
        call = option(call)
    return call


def choose_source(
    source: str | None, query: Query, token_file: Path | None, ca_file: Path | None
) -> SourceChoice:
    """Return what these options mean; raises UsageError for words that mean nothing."""
    if source is not None and source.lower().startswith(tuple(f"{s}://" for s in SCHEMES)):
        api = PrometheusApi(source, token_file, ca_file)

        def open_prometheus(connection: Connection, seconds: float) -> MetricsSource:
            return Prometheus(api, connection.clock, seconds, query)

        return SourceChoice(prometheus.INTERVAL_SECONDS, open_prometheus)
    if query != Query() or token_file is not None or ca_file is not None:
        raise UsageError(
            "--match, --broker-label, --token-file and --ca-file are for a Prometheus.",
            next="Name it with --from URL.",
        )
    if source is None:
        return SourceChoice(ADMIN_INTERVAL_SECONDS, lambda *_: None)
    if source not in FORMATS:
        raise UsageError(
            f"Unknown source: {source}.",
            next=f"--from takes {', '.join(FORMATS)}, or URL of a Prometheus.",
        )
    format, seconds = FORMATS[source]

    def open_topic(connection: Connection, _: float) -> MetricsSource:
        return MetricsTopic(
            format, partial(open_topic_reader, connection.address), connection.clock
        )

    return SourceChoice(seconds, open_topic)
