"""`trimtab collect`: polls the cluster in the foreground and writes load samples."""

from __future__ import annotations

from pathlib import Path

import click

from core import paths
from core.cli.common.context import Context, report_unknown
from core.cli.common.foreground import required_lease
from core.cli.common.options import Command, json_option, root_option
from core.cli.common.output import emit, emit_line, say
from core.cli.load.sink_options import SinkChoice, sink_options
from core.cli.load.source_options import SourceChoice, source_options
from core.clock import SystemClock
from core.cluster.observer import fetch_cluster_state
from core.daemons.process import stop_signals
from core.errors import RefusedError, TrimtabError, UsageError
from core.load.collector import collector as collecting
from core.load.collector.collector import PollResult
from core.units import format_time, parse_duration


@click.command(cls=Command)
@click.option(
    "--interval",
    metavar="TIME",
    help="Time between two polls (default: 10s; 60s from Cruise Control or Prometheus).",
)
@click.option("--once", is_flag=True, help="Poll twice, one interval apart, and exit.")
@source_options
@sink_options
@root_option
@json_option
@click.pass_obj
def collect(
    context: Context,
    interval: str | None,
    once: bool,
    chosen: SourceChoice,
    destination: SinkChoice,
    root: Path | None,
    as_json: bool,
) -> None:
    """Poll the cluster and write load samples, until Ctrl-C.

    A rate needs two polls, so --once makes two.
    """
    seconds = chosen.interval_seconds if interval is None else parse_duration(interval)
    if seconds <= 0:
        raise UsageError("The interval must be positive.", next="Try 10s.")
    root = root or paths.load_root()
    polls: list[PollResult] = []
    troubles: list[TrimtabError] = []

    def report(event: PollResult | TrimtabError) -> None:
        if isinstance(event, TrimtabError):
            troubles.append(event)
            say(f"trimtab: {event.title} Trying again.")
            return
        polls.append(event)
        if as_json:
            if not once:
                emit_line(_document(event))
        else:
            bad = "".join(f", {n:,} bad records ({why})" for why, n in event.quarantined.items())
            known = f"{event.with_rates:,} rates known{bad}"
            say(f"{event.at:%H:%M:%S} {event.rows:,} replicas, {known}")

    with context.connected() as connection:
        # What this user may not see is in no sample, whatever the polls say.
        cluster_id = report_unknown(fetch_cluster_state(connection.client)).cluster_id
        title = "Another collector on this machine polls this cluster."
        busy = RefusedError(title, next="Stop it first.")
        with (
            required_lease(root, cluster_id, "collector", busy),
            destination.open(context, connection, root) as sink,
        ):
            stop = stop_signals()
            collector = collecting.Collector(
                connection.client,
                connection.clock,
                root,
                metrics=chosen.open(connection, seconds),
                sink=sink,
            )
            collecting.collect(
                collector,
                SystemClock(),
                interval_seconds=seconds,
                keep_on=lambda: (
                    not stop.is_set() and not (once and (len(polls) == 2 or bool(troubles)))
                ),
                report=report,
            )
    if once and troubles:
        raise troubles[0]
    if once and as_json:
        emit([_document(polled) for polled in polls])


def _document(polled: PollResult) -> dict[str, object]:
    return {
        "at": format_time(polled.at),
        "poll_id": polled.poll_id,
        "rows": polled.rows,
        "with_rates": polled.with_rates,
        "segment": None if polled.segment is None else str(polled.segment),
        "records": polled.records,
        "quarantined": dict(polled.quarantined),
    }
