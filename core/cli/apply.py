"""`trimtab apply`: check a plan, ask, start its run, and follow it to its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from core.cli.confirm import confirm
from core.cli.context import Context, emit_line, json_option, say
from core.cli.rate import parse_throttle
from core.cli.start_time import parse_start, said
from core.errors import UsageError
from core.units import format_duration, parse_duration

if TYPE_CHECKING:
    from core.cluster.state import ClusterState
    from core.load.snapshot import Load
    from core.plan.estimate import Estimate
    from core.plan.plan import Plan
    from core.run.limits.pace import Bounds

NAMED = 3


@click.command()
@click.argument("plan", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--throttle",
    metavar="RATE",
    help="Limit for each broker and side, like 50MB/s; -1 for none; auto, or auto:LEAST-MOST, to "
    "adapt it to how producers fare. Default: a recommended one.",
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
@click.option("--elect", is_flag=True, help="Elect the preferred leaders of what moved at the end.")
@click.option("--detach", is_flag=True, help="Start the run and leave it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--allow", metavar="ID,…", help="Checks that may speak against it.")
@click.option(
    "--override-throttles", is_flag=True, help="Go over lower rates that somebody else has set."
)
@json_option
@click.pass_obj
def apply(
    context: Context,
    plan: Path,
    throttle: str | None,
    start: str | None,
    retention: str | None,
    elect: bool,
    detach: bool,
    yes: bool,
    allow: str | None,
    override_throttles: bool,
    as_json: bool,
) -> int:
    """Carry PLAN out; - is stdin.

    The run is a process of its own: Ctrl-C lets go of it and never cancels it.
    """
    from core.cli.following import follow_run
    from core.cluster.observe import observe
    from core.load.locate import newest_load
    from core.plan.check import check_plan, never_finding, parse_allow, refuse
    from core.plan.estimate import to_json
    from core.plan.findings import Severity
    from core.plan.reassignment import read_plan
    from core.run.creation import RunOptions
    from core.run.logout import look
    from core.run.prepare import prepared
    from core.run.service import start_run

    address = context.require_address()
    allowed = parse_allow(allow)
    asked_rate = None if throttle is None else parse_throttle(throttle)
    retention_ms = _retention_ms(retention)
    context.require_writable()
    with context.connected() as connection:
        state = observe(connection.client)
        reassignments = connection.client.reassignments()
        now = connection.clock.now()
    start_at = None if start is None else parse_start(start, now)
    asked = read_plan(plan, state)
    wanted = asked.remaining(state)
    if not wanted.moves:
        if reassignments:
            say("Nothing to start: the plan's replicas are there or on their way; see `verify`.")
        else:
            say("Nothing to do: the cluster is as this plan says.")
        return 0
    if there := len(asked) - len(wanted):
        say(f"{there} of the plan's partitions are there, or on their way; the others are left.")
    load = newest_load(state, context.target.snapshots)
    rate, bounds = _choose(state, load, wanted, asked_rate)
    estimate = _estimate(state, load, wanted, rate)
    seconds = {} if estimate.seconds is None else {"seconds": estimate.seconds}
    findings = [*check_plan(state, load, wanted, reassignments=reassignments, **seconds)]
    if estimate.never:
        findings.append(never_finding(estimate.never))
    refuse(findings, allowed)
    for finding in findings:
        if finding.severity is not Severity.ILLEGAL:
            say(f"{finding.id}: {finding.sentence}")
    name = context.target.name or state.cluster_id[:8]
    say(_intent(wanted, estimate, name, bounds))
    if retention_ms is not None:
        say(_deletes(wanted, retention_ms))
    if start_at is not None:
        left = format_duration((start_at - now).total_seconds())
        say(f"It starts at {said(start_at)}, in {left}, after all checks once more.")
    if (leaving := look()).ends_runs:
        say(f"This machine ends your processes at logout, this run too: first {leaving.remedy}")
    if not yes:
        confirm(name, "apply", "Applying", "nothing was changed")
    options = RunOptions(
        rate_bytes_per_s=estimate.rate_bytes_per_s,
        cluster_name=name,
        allow=allowed,
        override_rates=override_throttles,
        auto=bounds,
        start_at=start_at,
        retention_ms=retention_ms,
        elect=elect,
    )
    options = prepared(options, state, load, wanted)
    run = start_run(address, state.cluster_id, wanted, options, to_json(estimate))
    if detach:
        if as_json:
            emit_line({"run": run})
        else:
            say(f"Run {run} goes on by itself. Follow it: trimtab runs attach {run}")
        return 0
    return follow_run(state.cluster_id, run, as_json=as_json)


def _choose(
    state: ClusterState, load: Load, plan: Plan, asked: int | Bounds | Literal["auto"] | None
) -> tuple[int | None, Bounds | None]:
    """Return the rate to reckon with, None for the recommended one, and bounds to adapt it in."""
    from core.plan.estimate import default_rate, rate_table
    from core.run.limits.bounds import usual_bounds
    from core.run.limits.pace import Bounds

    if asked is None or isinstance(asked, int):
        return asked, None
    bounds = asked if isinstance(asked, Bounds) else usual_bounds(state, load, plan)
    least, most = bounds.least_bytes_per_s, bounds.most_bytes_per_s
    wanted = default_rate(rate_table(state, load, plan)) or most
    return min(max(wanted, least), most), bounds


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


def _deletes(plan: Plan, retention_ms: int) -> str:
    topics = sorted({move.tp.topic for move in plan if move.moves_data})
    named = ", ".join(topics[:NAMED]) + (f" and {len(topics) - NAMED} more" * (len(topics) > NAMED))
    return (
        f"Records of {named} older than {format_duration(retention_ms / 1000)} are deleted for "
        "good; their retention is put back afterwards."
    )


def _estimate(state: ClusterState, load: Load, plan: Plan, rate: int | None) -> Estimate:
    """Return the estimate at the rate asked for, or at the recommended one.

    Raises UsageError when no rate was given and none can be recommended.
    """
    from core.plan.estimate import default_rate, estimate_at, rate_table
    from core.units import UNLIMITED, format_rate

    if rate is None and any(move.moves_data for move in plan):
        table = rate_table(state, load, plan)
        rate = default_rate(table)
        if rate is None:
            raise UsageError(
                "How fast? No rate can be recommended for this plan.",
                next="Say --throttle 50MB/s, or --throttle unlimited.",
            )
        if not table[0].total_bytes:
            return estimate_at(state, load, plan, UNLIMITED)
        say(f"No --throttle was given; the recommended one is {format_rate(rate)}.")
    return estimate_at(state, load, plan, UNLIMITED if rate is None else rate)


def _intent(plan: Plan, estimate: Estimate, name: str, bounds: Bounds | None) -> str:
    from core.units import format_bytes, format_rate

    moves = f"{len(plan)} partition{'' if len(plan) == 1 else 's'}"
    if not estimate.total_bytes:
        return f"{moves} on {name}; no data moves."
    rate = f"{format_rate(estimate.rate_bytes_per_s)} a broker and side"
    if bounds is not None:
        least, most = format_rate(bounds.least_bytes_per_s), format_rate(bounds.most_bytes_per_s)
        rate = f"{rate}, adapted between {least} and {most}"
    what = f"{moves} on {name}, {format_bytes(estimate.total_bytes)}, at {rate}"
    if estimate.seconds is None or estimate.range_seconds is None:
        return f"{what}; how long is not known. {estimate.note}"
    low, high = (format_duration(seconds) for seconds in estimate.range_seconds)
    return f"{what}: about {format_duration(estimate.seconds)} ({low} to {high})."
