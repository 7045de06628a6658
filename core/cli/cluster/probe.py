"""`trimtab probe`: client latency at each broker, live; asks before it creates its topic."""

from __future__ import annotations

import shutil
import sys

import click

from core import paths
from core.cli.common.context import Context
from core.cli.common.foreground import required_lease
from core.cli.common.options import Command, json_option, refuse_together, yes_option
from core.cli.common.output import emit, emit_line, print_lines, say, say_warnings
from core.cli.topics.topic_data import wait_until_visible
from core.daemons.process import stop_signals
from core.errors import RefusedError, UsageError
from core.load import load_paths as layout
from core.text.tables import text_table
from core.units import format_duration, parse_duration
from core.watch.client_health.daemon import ROLE, probe_process
from core.watch.client_health.health_detector import Health, format_milliseconds
from core.watch.client_health.probe_loop import TOPIC, delete_probe_topic, describe_probe, run_probe
from core.watch.client_health.report import ProbeReport, report_to_json
from core.watch.timeline.daemon import start_recording

SILENT_SECONDS = 10.0
"""How often the table is printed where there is no terminal to draw it on."""


@click.command(cls=Command)
@click.option(
    "--for", "time", metavar="TIME", help="Stop after this time, like 10m (default: until Ctrl-C)."
)
@click.option("--remove", is_flag=True, help="Delete the topic that probes write to.")
@yes_option
@json_option
@click.pass_obj
def probe(context: Context, time: str | None, remove: bool, yes: bool, as_json: bool) -> None:
    """Measure produce and fetch latency and client errors at each broker.

    Writes a few small messages per second to a topic of its own, which it creates after
    confirmation. Changes of a broker's health go to the timeline.
    """
    refuse_together({"--remove": remove, "--for": time})
    seconds = None if time is None else parse_duration(time)
    if seconds is not None and seconds <= 0:
        raise UsageError("The time must be positive.", next="Try --for 10m.")
    context.require_writable()
    if context.require_address().is_simulated:
        raise UsageError("A simulated cluster has no clients.", next="Try `trimtab sandbox up`.")
    if remove:
        _delete_topic(context, yes, as_json)
    else:
        _probe(context, seconds, yes, as_json)


def _probe(context: Context, seconds: float | None, yes: bool, as_json: bool) -> None:
    say_warnings()
    root = paths.load_root()
    busy = RefusedError(
        "A dashboard or another command is already probing this cluster.",
        next="See `trimtab timeline --kind client`.",
    )
    with context.described(to_change=True) as (connection, state):
        layout.mark(root)
        with required_lease(root, state.cluster_id, ROLE, busy):
            say(describe_probe(state))
            if state.topic(TOPIC) is None and not yes:
                doing = ("make it and begin", "Probing", "nothing was made")
                context.confirm(state.cluster_id, *doing)
            stop = stop_signals()
            recording = None
            if not context.no_load:  # what happens to brokers belongs beside what clients feel
                recording = start_recording(
                    connection.address, state.cluster_id, context.target.snapshots
                )
            clock = connection.clock
            end = None if seconds is None else clock.monotonic() + seconds
            table = _Table(_is_stdout_tty())

            def report(probe_report: ProbeReport) -> None:
                if as_json:
                    emit_line(report_to_json(probe_report))
                else:
                    table.show(probe_report)

            say("Ctrl-C ends it; the topic stays.")
            try:
                run_probe(
                    connection,
                    root,
                    keep_on=lambda: not stop.is_set() and (end is None or clock.monotonic() < end),
                    on_report=report,
                    say=say,
                )
                table.end()
            finally:
                if recording is not None:
                    recording.close()


def _is_stdout_tty() -> bool:
    return sys.stdout.isatty()


class _Table:
    """Prints reports below their events: over the last on a terminal, else now and then."""

    def __init__(self, live: bool) -> None:
        self._live = live
        self._drawn = 0
        """Lines of the table on the terminal."""
        self._printed: ProbeReport | None = None
        self._newest: ProbeReport | None = None

    def show(self, report: ProbeReport) -> None:
        self._newest = report
        if self._live and self._drawn:
            click.echo(f"\x1b[{self._drawn}F\x1b[J", nl=False, color=True)  # noqa: TID251
        for event in report.events:
            print_lines(f"{event.at.astimezone():%H:%M:%S}  {event.text}")
        if self._live or report.events or self._is_due(report):
            self._print(report)

    def end(self) -> None:
        """Print what was found last, unless that stands there."""
        if self._newest is not None and self._newest is not self._printed:
            self._print(self._newest)

    def _is_due(self, report: ProbeReport) -> bool:
        if self._printed is None:
            return bool(report.brokers)  # the first ones may come before any broker has answered
        return (report.at - self._printed.at).total_seconds() >= SILENT_SECONDS

    def _print(self, report: ProbeReport) -> None:
        lines = table_of(report).splitlines()
        if self._live:
            lines = _fitting(lines, *shutil.get_terminal_size())
        print_lines("\n".join(lines))
        self._drawn, self._printed = len(lines), report


def _fitting(lines: list[str], width: int, height: int) -> list[str]:
    """Return what stays in sight: a line that wraps, or scrolls away, could not be drawn over."""
    max_lines = max(2, height - 2)
    if len(lines) > max_lines:
        lines = [*lines[: max_lines - 1], f"… and {len(lines) - max_lines + 1} more brokers"]
    return [line[: width - 1] for line in lines]


def table_of(report: ProbeReport) -> str:
    """Return a report as a table, a line a broker."""
    rows = []
    for broker in report.brokers:
        words = broker.health.value
        if broker.lasts_seconds is not None:
            words += f" for {format_duration(broker.lasts_seconds)}"
        if broker.errors:
            words += f": {', '.join(broker.errors)}"
        latencies = (
            (broker.produce, broker.fetch)
            if broker.health not in (Health.FAILING, Health.DOWN)
            else (None, None)
        )
        cells = [
            format_milliseconds(value)
            for latency in latencies
            for value in ((None, None) if latency is None else (latency.p50_ms, latency.p99_ms))
        ]
        rows.append((str(broker.broker), *cells, str(broker.failed), words))
    header = ("broker", "produce p50", "p99", "fetch p50", "p99", "failed", "clients")
    return text_table(header, rows, ">>>>>>")


def _delete_topic(context: Context, yes: bool, as_json: bool) -> None:
    with context.described(to_change=True) as (connection, state):
        running = probe_process(state.cluster_id)
        if running is not None:
            raise RefusedError(
                f"A probe is writing to {TOPIC} (process {running.pid}).",
                next="End it first: Ctrl-C there, or W in the dashboard.",
            )
        if state.topic(TOPIC) is not None and not yes:
            doing = (f"delete {TOPIC}", "Deleting the probe's topic", "nothing was deleted")
            context.confirm(state.cluster_id, *doing)
        deleted = delete_probe_topic(connection.client, state)
        if deleted:
            wait_until_visible(connection, lambda now: now.topic(TOPIC) is None, TOPIC)
    if as_json:
        emit({"topic": TOPIC, "deleted": deleted})
    else:
        say(f"Deleted {TOPIC}." if deleted else f"There is no topic {TOPIC}: nothing to delete.")
