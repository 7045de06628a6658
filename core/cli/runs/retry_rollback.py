"""`trimtab runs retry | rollback`: a request to a run in progress, a new run after one has ended.

What an ended run left undone, or did, becomes a plan on the present state, and is carried out as
`apply` carries out any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from core.cli.common.context import Context, configured
from core.cli.common.options import Command, allow_option, json_option, metrics_option, yes_option
from core.cli.common.output import say, write_text
from core.cli.runs.requests import (
    optional_run_argument,
    partitions_argument,
    request_and_follow,
    send_request,
)
from core.cli.runs.run_lookup import read_named_run, require_writable
from core.cluster.known_names import name_and_id
from core.errors import ExitCode, RefusedError, UsageError
from core.plan.checks.catalogue import parse_allow
from core.run.control import find_moves
from core.run.journal.run_state import RunState
from core.run.options import address_of
from core.run.reporting.runs import RunReading
from core.settings import load_settings, parse_metrics
from core.units import counted

if TYPE_CHECKING:
    from core.cli.runs.launch import LaunchOptions

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
MANY = 10

_OPTIONS = (
    yes_option,
    click.option(
        "--throttle",
        metavar="RATE",
        help="Throttle of the new run, as for `apply` (default: that of the ended run).",
    ),
    allow_option,
    click.option(
        "--override-throttles",
        is_flag=True,
        help="Raise lower throttles that somebody else has set. Only for a run that has ended.",
    ),
    click.option(
        "--elect/--no-elect",
        default=None,
        help="Elect the preferred leaders at the end (default: as the ended run did).",
    ),
    click.option(
        "--detach",
        is_flag=True,
        help="Start the new run and return without following it. Only for a run that has ended.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the plan to this file and start nothing. Only for a run that has ended.",
    ),
    metrics_option,
    json_option,
)


def _options(command: CommandT) -> CommandT:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(cls=Command)
@click.argument("run")
@partitions_argument
@_options
@click.pass_obj
def retry(context: Context, /, run: str, partitions: tuple[str, ...], **words: Any) -> int:
    """Retry partitions that failed, were cancelled or were skipped.

    In a run in progress, the named partitions move again after all others. After a run has ended, a
    new run with the same throttle moves all of them, or those named.
    """
    reading = read_named_run(context, run)
    if reading.state.ended is not None:
        return _launch_followup(context, reading, "retry", partitions, words)
    state = _require_in_progress(context, reading, words)
    moves = {"moves": find_moves(state, partitions)}
    return send_request(state, "retry", moves, as_json=words["as_json"])


@click.command(cls=Command)
@optional_run_argument
@_options
@click.pass_obj
def rollback(context: Context, /, run: str | None, **words: Any) -> int:
    """Roll back a run and follow it: cancel moves in flight, move finished ones back.

    After a run has ended, a new run with the same throttle moves back what it moved.
    """
    reading = read_named_run(context, run)
    if reading.state.ended is not None:
        return _launch_followup(context, reading, "rollback", (), words)
    state = _require_in_progress(context, reading, words)
    yes, as_json = words["yes"], words["as_json"]
    return request_and_follow(state, "rollback", "Rolling back", yes, as_json)


def _require_in_progress(
    context: Context, reading: RunReading, words: Mapping[str, Any]
) -> RunState:
    """Return a run in progress; raises UsageError for options of a run that has ended."""
    state = reading.state
    for name in ("throttle", "allow", "override_throttles", "elect", "detach", "output", "metrics"):
        if words[name] or (name == "elect" and words[name] is not None):
            raise UsageError(
                f"Run {state.run_id} goes on: "
                f"--{name.replace('_', '-')} is for one that has ended.",
                next=f"Leave it out; `trimtab runs throttle {state.run_id}` changes its rate.",
            )
    require_writable(context, state)
    return state


def _launch_followup(
    context: Context,
    reading: RunReading,
    kind: str,
    partitions: tuple[str, ...],
    words: Mapping[str, Any],
) -> int:
    """Plan what an ended run left undone, or did, on the present state; launch or write it."""
    from core.cli.runs.launch import fetch_live_cluster, launch, print_no_run
    from core.plan.formats.plan_file import format_plan_file
    from core.run.retry_rollback import FollowUp, plan_followup

    ended, output = reading.state, words["output"]
    chosen = _launch_options(reading, words)
    only = [ended.moves[i].move.tp for i in find_moves(ended, partitions)]
    if output is None:
        require_writable(context, ended)
    address = context.target.address or configured(
        address_of(reading.records), ended.cluster_name, load_settings()
    )
    cluster = fetch_live_cluster(address)
    if cluster.state.cluster_id != ended.cluster_id:
        raise RefusedError(
            f"{address.bootstrap} is cluster {name_and_id(cluster.state.cluster_id)}; run "
            f"{ended.run_id} was on {name_and_id(ended.cluster_id)}.",
            next="Give -b HOST:PORT of that one; nothing was changed.",
        )
    followup = plan_followup(ended, FollowUp(kind), cluster.state, only)
    plan, left = followup.plan, followup.left
    for move in left[:MANY]:
        say(f"not changed: {move}")
    if len(left) > MANY:
        say(f"not changed: {len(left) - MANY} more")
    if output is not None:
        write_text(format_plan_file(plan), output)
    if chosen.as_json and (output is not None or (chosen.detach and not plan.moves)):
        print_no_run()
    if not plan.moves:
        say("Nothing to do: none of its moves applies any more.")
        return ExitCode.DONE
    if output is not None:
        say(f"{counted(len(plan), 'partition')}: trimtab apply {output}")
        return ExitCode.DONE
    doing = "Trying again" if kind == "retry" else "Rolling back"
    name = ended.cluster_name
    return launch(context, cluster, plan, chosen, name=name, verb=kind, doing=doing)


def _launch_options(reading: RunReading, words: Mapping[str, Any]) -> LaunchOptions:
    from core.cli.runs.apply import parse_throttle
    from core.cli.runs.launch import LaunchOptions

    throttle, metrics = words["throttle"], words["metrics"]
    own = reading.state.rate_control.bounds or reading.state.rate_bytes_per_s
    return LaunchOptions(
        throttle=own if throttle is None else parse_throttle(throttle),
        detach=words["detach"],
        yes=words["yes"],
        allow=parse_allow(words["allow"]),
        elect=reading.state.elect if words["elect"] is None else words["elect"],
        override_throttles=words["override_throttles"],
        pause_if_removed=reading.state.pause_if_removed,
        metrics=None if metrics is None else parse_metrics(metrics),
        as_json=words["as_json"],
    )
