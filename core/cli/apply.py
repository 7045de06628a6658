"""`trimtab apply`: check a plan, ask, start its run, and follow it to its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from core.cli.confirm import confirm
from core.cli.context import Context, emit_line, json_option, say
from core.errors import UsageError

if TYPE_CHECKING:
    from core.cluster.state import ClusterState
    from core.load.snapshot import Load
    from core.plan.estimate import Estimate
    from core.plan.plan import Plan


@click.command()
@click.argument("plan", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--throttle",
    metavar="RATE",
    help="Limit for each broker and side, like 50MB/s; -1 for none. Default: a recommended one.",
)
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
    from core.run.logout import look
    from core.run.service import RunOptions, start_run
    from core.units import parse_rate

    address = context.require_address()
    allowed = parse_allow(allow)
    rate = None if throttle is None else parse_rate(throttle)
    context.require_writable()
    with context.connected() as connection:
        state = observe(connection.client)
        reassignments = connection.client.reassignments()
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
    say(_intent(wanted, estimate, name))
    if (leaving := look()).ends_runs:
        say(f"This machine ends your processes at logout, this run too: first {leaving.remedy}")
    if not yes:
        confirm(name, "apply", "Applying", "nothing was changed")
    run = start_run(
        address,
        state.cluster_id,
        wanted,
        RunOptions(
            rate_bytes_per_s=estimate.rate_bytes_per_s,
            cluster_name=name,
            allow=allowed,
            override_rates=override_throttles,
        ),
        to_json(estimate),
    )
    if detach:
        if as_json:
            emit_line({"run": run})
        else:
            say(f"Run {run} goes on by itself. Follow it: trimtab runs attach {run}")
        return 0
    return follow_run(state.cluster_id, run, as_json=as_json)


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


def _intent(plan: Plan, estimate: Estimate, name: str) -> str:
    from core.units import format_bytes, format_duration, format_rate

    moves = f"{len(plan)} partition{'' if len(plan) == 1 else 's'}"
    if not estimate.total_bytes:
        return f"{moves} on {name}; no data moves."
    rate = f"{format_rate(estimate.rate_bytes_per_s)} a broker and side"
    what = f"{moves} on {name}, {format_bytes(estimate.total_bytes)}, at {rate}"
    if estimate.seconds is None or estimate.range_seconds is None:
        return f"{what}; how long is not known. {estimate.note}"
    low, high = (format_duration(seconds) for seconds in estimate.range_seconds)
    return f"{what}: about {format_duration(estimate.seconds)} ({low} to {high})."
