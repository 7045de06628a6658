"""`trimtab apply`: the options of a run, how its throttle is written, and the start of it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from core.cli.common.context import Context
from core.cli.common.options import (
    Command,
    allow_option,
    json_option,
    metrics_option,
    refuse_together,
    yes_option,
)
from core.cli.common.output import say
from core.cli.common.times import parse_start
from core.cli.runs.launch import LaunchOptions, fetch_live_cluster, launch, print_no_run
from core.errors import UsageError
from core.plan.checks.catalogue import parse_allow
from core.plan.formats.plan_file import read_plan
from core.run.journal.rates import RateBounds
from core.settings import parse_metrics
from core.units import parse_deadline, parse_duration, parse_rate, parse_size

AUTO: Literal["auto"] = "auto"


def parse_throttle(text: str) -> int | RateBounds | Literal["auto"]:
    """Return a rate in bytes/s, `auto`, or the bounds of `auto:MIN-MAX`; raises UsageError."""
    word, _, rest = text.strip().partition(":")
    if word.lower() != AUTO:
        return parse_rate(text)
    if not rest and ":" not in text:
        return AUTO
    lowest, dash, highest = rest.partition("-")
    if not dash:
        raise UsageError(f"Invalid bounds: {rest!r}.", next="Write them like auto:5MB/s-50MB/s.")
    return RateBounds.of(parse_rate(lowest), parse_rate(highest))


@click.command(cls=Command)
@click.argument("plan", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--throttle",
    metavar="RATE",
    help=(
        "Replication throttle for each broker and side, like 50MB/s; -1 for none; auto or "
        "auto:MIN-MAX to adapt it to producer latency (default: a recommended rate)."
    ),
)
@click.option(
    "--within",
    metavar="TIME",
    help=(
        "Use the lowest throttles with which the run ends in this time, like 30m, instead of "
        "--throttle."
    ),
)
@click.option(
    "--at",
    "start",
    metavar="TIME",
    help=(
        "Start the run at this time: 02:30 or 2026-01-31T02:30 (local time), 2026-01-31T02:30Z, or "
        "+90m (default: now)."
    ),
)
@click.option(
    "--retention",
    metavar="DURATION",
    help=(
        "Lower the retention of the moving topics to this until the run ends, so that less is "
        "copied; older records are deleted."
    ),
)
@click.option(
    "--max-extra",
    metavar="SIZE",
    help=(
        "Maximum number of bytes that a broker may receive at a time, like 50GB; a larger move "
        "goes alone (default: no limit)."
    ),
)
@click.option(
    "--elect", is_flag=True, help="Elect the preferred leaders of the moved partitions at the end."
)
@click.option("--detach", is_flag=True, help="Start the run and return without following it.")
@yes_option
@allow_option
@click.option(
    "--override-throttles", is_flag=True, help="Raise lower throttles that somebody else has set."
)
@click.option(
    "--if-throttles-removed",
    "if_removed",
    type=click.Choice(["hold", "pause"]),
    default="hold",
    show_default=True,
    help=(
        "What to do when somebody keeps removing the run's throttles: hold the rate by moving "
        "fewer partitions at a time, or pause until `runs resume`."
    ),
)
@metrics_option
@json_option
@click.pass_obj
def apply(
    context: Context,
    plan: Path,
    throttle: str | None,
    within: str | None,
    start: str | None,
    retention: str | None,
    max_extra: str | None,
    elect: bool,
    detach: bool,
    yes: bool,
    allow: str | None,
    override_throttles: bool,
    if_removed: str,
    metrics: str | None,
    as_json: bool,
) -> int:
    """Start a run that carries out PLAN (- for stdin), and follow it.

    The plan is checked and its duration estimated first, and you confirm with the cluster's name.
    The run is a process of its own: Ctrl-C detaches from it and does not cancel it.
    """
    address = context.require_address()
    allowed = parse_allow(allow)
    refuse_together(
        {"--throttle": throttle, "--within": within},
        "Give the throttle, or the time to compute it from.",
    )
    rate = None if throttle is None else parse_throttle(throttle)
    within_seconds = None if within is None else parse_deadline(within)
    retention_ms = None if retention is None else round(parse_duration(retention) * 1000)
    if retention_ms is not None and retention_ms < 1000:
        raise UsageError(
            f"A retention of {retention} is too short.",
            next="Give at least 1s, like --retention 1h.",
        )
    max_extra_bytes = None if max_extra is None else parse_size(max_extra)
    place = None if metrics is None else parse_metrics(metrics)
    context.require_writable()
    cluster = fetch_live_cluster(address)
    start_at = None if start is None else parse_start(start, cluster.now)
    planned = read_plan(plan, cluster.state)
    remaining = planned.remaining(cluster.state)
    if not remaining.moves:
        if detach and as_json:
            print_no_run()
        if cluster.reassignments:
            say("Nothing to start: the plan's moves are done or in flight; see `trimtab verify`.")
        else:
            say("Nothing to do: the cluster matches this plan.")
        return 0
    if done := len(planned) - len(remaining):
        say(f"{done} of the plan's partitions are done or in flight; the others will be moved.")
    options = LaunchOptions(
        throttle=rate,
        within_seconds=within_seconds,
        start_at=start_at,
        retention_ms=retention_ms,
        elect=elect,
        detach=detach,
        yes=yes,
        allow=allowed,
        override_throttles=override_throttles,
        max_extra_bytes=max_extra_bytes,
        pause_if_removed=if_removed == "pause",
        metrics=place,
        as_json=as_json,
    )
    name = context.target.display_name(cluster.state.cluster_id)
    return launch(context, cluster, remaining, options, name=name)
