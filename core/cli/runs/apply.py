"""`trimtab apply`: the options of a run, how its throttle is written, and the start of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from core.cli.common.context import Context
from core.cli.common.options import json_option
from core.cli.common.output import say
from core.cli.common.prompts import yes_option
from core.cli.common.times import parse_start
from core.cli.runs.launch import LaunchOptions, fetch_live_cluster, launch, print_no_run
from core.errors import UsageError
from core.units import parse_deadline, parse_duration, parse_rate, parse_size

if TYPE_CHECKING:
    from core.run.journal.rates import RateBounds


AUTO: Literal["auto"] = "auto"


def parse_throttle(text: str) -> int | RateBounds | Literal["auto"]:
    """Return a rate in bytes/s (UNLIMITED for none), `auto`, or the bounds of `auto:LEAST-MOST`.

    Raises UsageError for anything else.
    """
    word, _, rest = text.strip().partition(":")
    if word.lower() != AUTO:
        return parse_rate(text)
    if not rest and ":" not in text:
        return AUTO
    from core.run.journal.rates import RateBounds

    least, dash, most = rest.partition("-")
    if not dash:
        raise UsageError(f"Not bounds: {rest!r}.", next="Write them like auto:5MB/s-50MB/s.")
    return RateBounds.of(parse_rate(least), parse_rate(most))


@click.command()
@click.argument("plan", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--throttle",
    metavar="RATE",
    help="Limit for each broker and side, like 50MB/s; -1 for none; auto, or auto:LEAST-MOST, to "
    "adapt it to how producers fare. Default: a recommended one.",
)
@click.option(
    "--within",
    metavar="TIME",
    help="Instead of --throttle: the least rates that end it in this time, like 30m; brokers that "
    "need less get less.",
)
@click.option(
    "--at",
    "start",
    metavar="TIME",
    help="Start then: 02:30 or 2026-01-31T02:30 by this machine's clock, with an offset "
    "(…+01:00, …Z) by that, or +90m.",
)
@click.option(
    "--retention",
    metavar="DURATION",
    help="Lower the moving topics' retention to this while they move: older records are deleted.",
)
@click.option(
    "--max-extra",
    metavar="SIZE",
    help="Let no broker receive more than this at a time, like 50GB; a larger move goes alone.",
)
@click.option("--elect", is_flag=True, help="Elect the preferred leaders of what moved at the end.")
@click.option("--detach", is_flag=True, help="Start the run and leave it.")
@yes_option
@click.option("--allow", metavar="ID,…", help="Checks that may speak against it.")
@click.option(
    "--override-throttles", is_flag=True, help="Go over lower rates that somebody else has set."
)
@click.option(
    "--if-throttles-removed",
    "if_removed",
    type=click.Choice(["hold", "pause"]),
    default="hold",
    show_default=True,
    help="When somebody takes its throttles away again and again: hold the rate, as moves begin "
    "one by one and copies wait, or begin none until `runs resume`.",
)
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
    as_json: bool,
) -> int:
    """Carry PLAN out; - is stdin.

    The run is a process of its own: Ctrl-C lets go of it and never cancels it.
    """
    from core.plan.checks.catalogue import parse_allow
    from core.plan.formats.plan_file import read_plan

    address = context.require_address()
    allowed = parse_allow(allow)
    if throttle is not None and within is not None:
        raise UsageError(
            "--throttle and --within exclude each other.",
            next="Give the rate, or the time to have the rate reckoned.",
        )
    asked_rate = None if throttle is None else parse_throttle(throttle)
    within_seconds = None if within is None else parse_deadline(within)
    retention_ms = _retention_ms(retention)
    most_extra_bytes = None if max_extra is None else parse_size(max_extra)
    context.require_writable()
    picture = fetch_live_cluster(address)
    start_at = None if start is None else parse_start(start, picture.now)
    asked = read_plan(plan, picture.state)
    wanted = asked.remaining(picture.state)
    if not wanted.moves:
        if detach and as_json:
            print_no_run()
        if picture.reassignments:
            say("Nothing to start: the plan's replicas are there or on their way; see `verify`.")
        else:
            say("Nothing to do: the cluster is as this plan says.")
        return 0
    if there := len(asked) - len(wanted):
        say(f"{there} of the plan's partitions are there, or on their way; the others are left.")
    wishes = LaunchOptions(
        throttle=asked_rate,
        within_seconds=within_seconds,
        start_at=start_at,
        retention_ms=retention_ms,
        elect=elect,
        detach=detach,
        yes=yes,
        allow=allowed,
        override_throttles=override_throttles,
        most_extra_bytes=most_extra_bytes,
        pause_if_removed=if_removed == "pause",
        as_json=as_json,
    )
    name = context.target.called(picture.state.cluster_id)
    return launch(context, picture, wanted, wishes, name=name)


def _retention_ms(text: str | None) -> int | None:
    """Return what `--retention` asks for in milliseconds; raises UsageError for none at all."""
    if text is None:
        return None
    milliseconds = round(parse_duration(text) * 1000)
    if milliseconds < 1000:
        raise UsageError(
            f"A retention of {text} keeps nothing.", next="Give at least 1s, like --retention 1h."
        )
    return milliseconds
