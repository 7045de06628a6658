"""`trimtab runs cancel | pause | resume | throttle | skip | retarget`: ask a run for changes.

Each writes one request to the run's journal; the run's process takes it up, now or when it is
brought back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from core.cli.common.context import Context
from core.cli.common.options import Command, allow_option, json_option, yes_option
from core.cli.common.output import emit, say
from core.cli.common.prompts import confirm
from core.cli.runs.follow_progress import follow_run
from core.cli.runs.run_lookup import read_named_run, require_writable
from core.errors import ExitCode, UsageError
from core.plan.checks.catalogue import parse_allow
from core.run.control import find_moves, request
from core.run.journal.rates import RateBounds
from core.run.journal.run_state import RunState
from core.run.reporting.event_text import request_words
from core.run.reporting.runs import read_run
from core.run.reporting.views import RunStatus
from core.units import parse_ids

run_argument = click.argument("run")
optional_run_argument = click.argument("run", required=False)
"""Without it the one in progress is meant."""
partitions_argument = click.argument("partitions", nargs=-1, metavar="TOPIC-PARTITION …")


@click.command(cls=Command)
@optional_run_argument
@click.option(
    "--move",
    "moves",
    multiple=True,
    metavar="TOPIC-PARTITION",
    help=(
        "Cancel only this partition's move; may be given more than once. The run continues with "
        "the others."
    ),
)
@yes_option
@json_option
@click.pass_obj
def cancel(
    context: Context, run: str | None, moves: tuple[str, ...], yes: bool, as_json: bool
) -> int:
    """Cancel a run and follow it: moves in flight return to their former replicas.

    Partitions that have finished stay where they are.
    """
    state = _read_writable_run(context, run)
    if moves:
        only = {"moves": find_moves(state, moves)}
        _confirm(state, "cancel", "Cancelling", yes)
        return send_request(state, "cancel", only, as_json=as_json)
    return request_and_follow(state, "cancel", "Cancelling", yes, as_json)


@click.command(cls=Command)
@optional_run_argument
@click.option(
    "--floor", is_flag=True, help="Slow down the moves in flight as well, to 1 byte per second."
)
@json_option
@click.pass_obj
def pause(context: Context, run: str | None, floor: bool, as_json: bool) -> int:
    """Start no more moves; those in flight continue, or slow down with --floor.

    Nothing is cancelled, and what has been copied stays.
    """
    state = _read_writable_run(context, run)
    return send_request(state, "pause", {"floor": floor}, as_json=as_json)


@click.command(cls=Command)
@optional_run_argument
@json_option
@click.pass_obj
def resume(context: Context, run: str | None, as_json: bool) -> int:
    """Resume a paused run."""
    return send_request(_read_writable_run(context, run), "resume", {}, as_json=as_json)


@click.command(
    cls=Command, context_settings={"ignore_unknown_options": True}
)  # so that -1 is a rate
@click.argument("words", nargs=-1, metavar="[RUN] RATE")
@click.option(
    "--allow",
    metavar="ID",
    help="ID of the check to override: never, for a rate at which the run does not end.",
)
@json_option
@click.pass_obj
def throttle(context: Context, words: tuple[str, ...], allow: str | None, as_json: bool) -> int:
    """Change the throttle of a run: RATE is 50MB/s, -1, or auto:MIN-MAX."""
    from core.cli.runs.apply import parse_throttle

    if len(words) not in (1, 2):
        raise UsageError(
            "No throttle is given.", next="Write `trimtab runs throttle [RUN] 50MB/s`."
        )
    run, rate = (None, *words) if len(words) == 1 else words
    parsed = parse_throttle(rate)
    if parsed == "auto":
        raise UsageError("auto needs bounds.", next="Write auto:5MB/s-50MB/s.")
    payload: dict[str, Any] = {"rate_bytes_per_s": parsed}
    if isinstance(parsed, RateBounds):
        payload = {"auto": parsed.to_json()}
    state = _read_writable_run(context, run)
    allowed = parse_allow(allow)
    return send_request(state, "throttle", payload, allow=allowed, as_json=as_json)


@click.command(cls=Command)
@run_argument
@partitions_argument
@json_option
@click.pass_obj
def skip(context: Context, run: str, partitions: tuple[str, ...], as_json: bool) -> int:
    """Skip partitions whose move has not started."""
    state = _read_writable_run(context, run)
    moves = {"moves": find_moves(state, partitions)}
    return send_request(state, "skip", moves, as_json=as_json)


@click.command(cls=Command)
@run_argument
@click.argument("partition", metavar="TOPIC-PARTITION")
@click.argument("brokers")
@allow_option
@yes_option
@json_option
@click.pass_obj
def retarget(
    context: Context,
    run: str,
    partition: str,
    brokers: str,
    allow: str | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Move a partition to other BROKERS (like 4,2,7) than planned.

    The move is cancelled and started again, and what it has copied is discarded. The run checks the
    new replicas first; when it refuses them, the move continues and `runs show` has the reason.
    """
    allowed = parse_allow(allow)
    after = list(parse_ids(brokers))
    state = _read_writable_run(context, run)
    (index,) = find_moves(state, (partition,))
    _confirm(state, "retarget", "Retargeting", yes)
    payload = {"move": index, "after": after} | ({"allow": sorted(allowed)} if allowed else {})
    return send_request(state, "retarget", payload, as_json=as_json)


COMMANDS = (cancel, pause, resume, throttle, skip, retarget)


def _read_writable_run(context: Context, run: str | None) -> RunState:
    context.require_writable()
    state = read_named_run(context, run).state
    require_writable(context, state)
    return state


def send_request(
    state: RunState,
    kind: str,
    payload: Mapping[str, Any],
    *,
    as_json: bool,
    allow: frozenset[str] = frozenset(),
) -> int:
    """Write one request to a run's journal and say so; return an exit code."""
    run = state.run_id
    sent = request(state.cluster_id, run, kind, payload, allow=allow)
    if as_json:
        emit(sent.to_json())
    if sent.is_waiting:
        say(_queued_message(run, kind))
        return ExitCode.INCOMPLETE
    if not as_json:
        what = request_words(kind, payload, state)
        say(f"Requested of run {run}: {what}. Follow it: trimtab runs attach {run}")
    return ExitCode.DONE


def request_and_follow(state: RunState, kind: str, doing: str, yes: bool, as_json: bool) -> int:
    """Ask for the cluster's name, write the request, and follow the run to its end."""
    _confirm(state, kind, doing, yes)
    cluster_id, run = state.cluster_id, state.run_id
    if request(cluster_id, run, kind).is_waiting:
        say(_queued_message(run, kind))
    code = follow_run(cluster_id, run, as_json=as_json)
    ended_so = read_run(cluster_id, run).state in (RunStatus.CANCELLED, RunStatus.ROLLED_BACK)
    return ExitCode.DONE if ended_so else code


def _confirm(state: RunState, verb: str, doing: str, yes: bool) -> None:
    if not yes and state.ended is None:
        confirm(state.cluster_name, verb, doing, "the run continues")


def _queued_message(run: str, kind: str) -> str:
    return (
        f"The process of run {run} has died: the {kind} request waits in its journal.\n"
        f"It takes effect when the run is restarted: trimtab runs attach {run} --yes"
    )
