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
from core.cli.common.options import json_option
from core.cli.common.output import say, write_text
from core.cli.runs.requests import ask, ask_and_follow, indices, one_argument, partitions_argument
from core.cli.runs.run_lookup import require_writable, which_run
from core.errors import ExitCode, RefusedError, UsageError
from core.units import counted

if TYPE_CHECKING:
    from core.cli.runs.launch import LaunchOptions, LiveCluster
    from core.run.followup import Way
    from core.run.journal.fold import History
    from core.run.reporting.runs import Reading

Command = TypeVar("Command", bound=Callable[..., Any])
MANY = 10

_OPTIONS = (
    click.option("--yes", is_flag=True, help="Do not ask."),
    click.option(
        "--throttle",
        metavar="RATE",
        help="Of an ended run: another rate than its own; as `apply` takes it.",
    ),
    click.option("--allow", metavar="ID,…", help="Of an ended run: checks that may speak against."),
    click.option(
        "--override-throttles",
        is_flag=True,
        help="Of an ended run: go over lower rates that somebody else has set.",
    ),
    click.option(
        "--elect/--no-elect",
        default=None,
        help="Of an ended run: elect preferred leaders at the end, or not; else as it did.",
    ),
    click.option("--detach", is_flag=True, help="Of an ended run: start the new one and leave it."),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Of an ended run: only write the plan here; nothing is started.",
    ),
    json_option,
)


def _options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("run")
@partitions_argument
@_options
@click.pass_obj
def retry(context: Context, /, run: str, partitions: tuple[str, ...], **words: Any) -> int:
    """Try partitions again that failed, were cancelled or were skipped.

    In a run in progress those that are named, after all others. Of one that has ended all, or
    those named, from where they are now: a new run, at the same throttle.
    """
    from core.run.followup import Way

    look = _look(context, run)
    if look.history.ended is not None:
        return _again(context, look, Way.RETRY, partitions, words)
    cluster_id, name = _going(context, look, words)
    moves = {"moves": indices(cluster_id, name, partitions)}
    return ask(context, cluster_id, name, "retry", moves, as_json=words["as_json"])


@click.command()
@one_argument
@_options
@click.pass_obj
def rollback(context: Context, /, run: str | None, **words: Any) -> int:
    """Undo a run and follow it: what is in flight is cancelled, what is done moves back.

    Of one that has ended, what it has really done moves back from where it is now: a new run, at
    the same throttle.
    """
    from core.run.followup import Way

    look = _look(context, run)
    if look.history.ended is not None:
        return _again(context, look, Way.ROLLBACK, (), words)
    cluster_id, name = _going(context, look, words)
    yes, as_json = words["yes"], words["as_json"]
    return ask_and_follow(context, cluster_id, name, "rollback", "Rolling back", yes, as_json)


def _look(context: Context, run: str | None) -> Reading:
    from core.run.reporting.runs import read_journal

    return read_journal(*which_run(context, run))


def _going(context: Context, look: Reading, words: Mapping[str, Any]) -> tuple[str, str]:
    """Return (cluster id, run id) of a run in progress that may be asked for something.

    Raises UsageError for what can be said of a run that has ended only.
    """
    history = look.history
    for name in ("throttle", "allow", "override_throttles", "elect", "detach", "output"):
        if words[name] or (name == "elect" and words[name] is not None):
            raise UsageError(
                f"Run {history.run} goes on: --{name.replace('_', '-')} is for one that has ended.",
                next=f"Leave it out; `trimtab runs throttle {history.run}` changes its rate.",
            )
    context.require_writable()
    return history.cluster_id, history.run


def _again(
    context: Context,
    look: Reading,
    way: Way,
    partitions: tuple[str, ...],
    words: Mapping[str, Any],
) -> int:
    from core.cli.runs.launch import emit_no_run, fetch_live_cluster, launch
    from core.plan.formats.plan_file import dump
    from core.run.control import find_moves
    from core.run.followup import Way, plan_again
    from core.run.options import address_of
    from core.settings import load_settings

    history, output = look.history, words["output"]
    wishes = _wishes(look, words)
    only = [history.moves[i].move.tp for i in find_moves(history, partitions)]
    if output is None:
        require_writable(context, history)
    address = context.target.address
    if address is None:
        where = address_of(look.records)
        address = configured(where, history.cluster_name, load_settings())
    picture = fetch_live_cluster(address)
    _refuse_other(picture, history)
    found = plan_again(history, way, picture.state, only)
    for left in found.left[:MANY]:
        say(f"left as it is: {left}")
    if len(found.left) > MANY:
        say(f"left as they are: {len(found.left) - MANY} more")
    if output is not None:
        write_text(dump(found.plan), output)
    if wishes.as_json and (output is not None or (wishes.detach and not found.plan.moves)):
        emit_no_run()
    if not found.plan.moves:
        say("Nothing to do: nothing of it holds any more.")
        return ExitCode.DONE
    if output is not None:
        count = len(found.plan)
        say(f"{counted(count, 'partition')}: trimtab apply {output}")
        return ExitCode.DONE
    verb, doing = ("retry", "Trying again") if way is Way.RETRY else ("rollback", "Rolling back")
    return launch(
        context, picture, found.plan, wishes, name=history.cluster_name, verb=verb, doing=doing
    )


def _wishes(look: Reading, words: Mapping[str, Any]) -> LaunchOptions:
    """Return how it is to be carried out: at the ended run's own rate, unless another is said."""
    from core.cli.runs.apply import parse_throttle
    from core.cli.runs.launch import LaunchOptions
    from core.plan.checks.check_plan import parse_allow

    said = words["throttle"]
    own = look.history.pace.bounds or look.history.rate_bytes_per_s
    return LaunchOptions(
        throttle=own if said is None else parse_throttle(said),
        detach=words["detach"],
        yes=words["yes"],
        allow=parse_allow(words["allow"]),
        elect=look.history.elect if words["elect"] is None else words["elect"],
        override_throttles=words["override_throttles"],
        pause_if_removed=look.history.pause_if_removed,
        as_json=words["as_json"],
    )


def _refuse_other(picture: LiveCluster, history: History) -> None:
    if picture.state.cluster_id != history.cluster_id:
        raise RefusedError(
            f"{picture.address.bootstrap} is cluster {picture.state.cluster_id}; run {history.run} "
            f"was on {history.cluster_id}.",
            next="Say -b HOST:PORT of that one; nothing was changed.",
        )
