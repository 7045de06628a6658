"""`trimtab runs retry | rollback`: of a run in progress a request, of one that has ended a new run.

What an ended run left undone, or did, becomes a plan on the present state, and is carried out as
`apply` carries out any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from core.cli.common.context import Context, configured
from core.cli.common.option_guard import Command
from core.cli.common.options import allow_option, json_option, yes_option
from core.cli.common.output import say, write_text
from core.cli.runs.requests import (
    move_indices,
    optional_run_argument,
    partitions_argument,
    request_and_follow,
    send_request,
)
from core.cli.runs.run_lookup import require_writable, resolve_run
from core.errors import ExitCode, RefusedError, UsageError
from core.units import counted

if TYPE_CHECKING:
    from core.cli.runs.launch import LaunchOptions, LiveCluster
    from core.run.journal.run_state import RunState
    from core.run.reporting.runs import RunReading
    from core.run.retry_rollback import FollowUp

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
    from core.run.retry_rollback import FollowUp

    reading = _read_run(context, run)
    if reading.state.ended is not None:
        return _launch_followup(context, reading, FollowUp.RETRY, partitions, words)
    cluster_id, name = _require_in_progress(context, reading, words)
    moves = {"moves": move_indices(cluster_id, name, partitions)}
    return send_request(context, cluster_id, name, "retry", moves, as_json=words["as_json"])


@click.command(cls=Command)
@optional_run_argument
@_options
@click.pass_obj
def rollback(context: Context, /, run: str | None, **words: Any) -> int:
    """Roll back a run and follow it: cancel moves in flight, move finished ones back.

    After a run has ended, a new run with the same throttle moves back what it moved.
    """
    from core.run.retry_rollback import FollowUp

    reading = _read_run(context, run)
    if reading.state.ended is not None:
        return _launch_followup(context, reading, FollowUp.ROLLBACK, (), words)
    cluster_id, name = _require_in_progress(context, reading, words)
    yes, as_json = words["yes"], words["as_json"]
    return request_and_follow(context, cluster_id, name, "rollback", "Rolling back", yes, as_json)


def _read_run(context: Context, run: str | None) -> RunReading:
    from core.run.reporting.runs import read_journal

    return read_journal(*resolve_run(context, run))


def _require_in_progress(
    context: Context, reading: RunReading, words: Mapping[str, Any]
) -> tuple[str, str]:
    """Return (cluster id, run id) of a run in progress that may be asked for something.

    Raises UsageError for what can be said of a run that has ended only.
    """
    history = reading.state
    for name in ("throttle", "allow", "override_throttles", "elect", "detach", "output"):
        if words[name] or (name == "elect" and words[name] is not None):
            raise UsageError(
                f"Run {history.run_id} goes on: "
                f"--{name.replace('_', '-')} is for one that has ended.",
                next=f"Leave it out; `trimtab runs throttle {history.run_id}` changes its rate.",
            )
    context.require_writable()
    return history.cluster_id, history.run_id


def _launch_followup(
    context: Context,
    reading: RunReading,
    way: FollowUp,
    partitions: tuple[str, ...],
    words: Mapping[str, Any],
) -> int:
    from core.cli.runs.launch import fetch_live_cluster, launch, print_no_run
    from core.plan.formats.plan_file import format_plan_file
    from core.run.control import find_moves
    from core.run.options import address_of
    from core.run.retry_rollback import FollowUp, plan_followup
    from core.settings import load_settings

    history, output = reading.state, words["output"]
    chosen = _launch_options(reading, words)
    only = [history.moves[i].move.tp for i in find_moves(history, partitions)]
    if output is None:
        require_writable(context, history)
    address = context.target.address
    if address is None:
        where = address_of(reading.records)
        address = configured(where, history.cluster_name, load_settings())
    picture = fetch_live_cluster(address)
    _require_same_cluster(picture, history)
    found = plan_followup(history, way, picture.state, only)
    for left in found.left[:MANY]:
        say(f"not changed: {left}")
    if len(found.left) > MANY:
        say(f"not changed: {len(found.left) - MANY} more")
    if output is not None:
        write_text(format_plan_file(found.plan), output)
    if chosen.as_json and (output is not None or (chosen.detach and not found.plan.moves)):
        print_no_run()
    if not found.plan.moves:
        say("Nothing to do: none of its moves applies any more.")
        return ExitCode.DONE
    if output is not None:
        count = len(found.plan)
        say(f"{counted(count, 'partition')}: trimtab apply {output}")
        return ExitCode.DONE
    verb, doing = (
        ("retry", "Trying again") if way is FollowUp.RETRY else ("rollback", "Rolling back")
    )
    return launch(
        context, picture, found.plan, chosen, name=history.cluster_name, verb=verb, doing=doing
    )


def _launch_options(reading: RunReading, words: Mapping[str, Any]) -> LaunchOptions:
    """Return how it is to be carried out: at the ended run's own rate, unless another is said."""
    from core.cli.runs.apply import parse_throttle
    from core.cli.runs.launch import LaunchOptions
    from core.plan.checks.catalogue import parse_allow

    said = words["throttle"]
    own = reading.state.rate_control.bounds or reading.state.rate_bytes_per_s
    return LaunchOptions(
        throttle=own if said is None else parse_throttle(said),
        detach=words["detach"],
        yes=words["yes"],
        allow=parse_allow(words["allow"]),
        elect=reading.state.elect if words["elect"] is None else words["elect"],
        override_throttles=words["override_throttles"],
        pause_if_removed=reading.state.pause_if_removed,
        as_json=words["as_json"],
    )


def _require_same_cluster(picture: LiveCluster, history: RunState) -> None:
    if picture.state.cluster_id != history.cluster_id:
        raise RefusedError(
            f"{picture.address.bootstrap} is cluster {picture.state.cluster_id}; "
            f"run {history.run_id} "
            f"was on {history.cluster_id}.",
            next="Say -b HOST:PORT of that one; nothing was changed.",
        )
