"""`trimtab autopilot`: set the mode, show the status and the decisions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click

from core import paths
from core.autopilot import switch as switches
from core.autopilot.log import DecisionLog, Entry
from core.autopilot.settings import AutopilotSettings, Mode, describe_limits, unmatched_patterns
from core.autopilot.switch import Switch, switch_file
from core.cli.autopilot.limits import find_switches, metrics_while_running, parse_limits
from core.cli.autopilot.status import entry_line, print_status, status_document
from core.cli.common.context import Context
from core.cli.common.foreground import required_lease
from core.cli.common.options import Group, json_option, metrics_option, yes_option
from core.cli.common.output import emit, emit_line, print_lines, say, say_warnings, write_text
from core.cli.common.prompts import confirm
from core.clock import SystemClock
from core.cluster.connect import for_cluster
from core.daemons.metrics import check_place
from core.daemons.process import stop_signals
from core.errors import DocumentError, ExitCode, RefusedError, TrimtabError, UsageError
from core.load import load_paths as layout
from core.run.audit import user
from core.run.run_process import logout_policy
from core.settings import parse_metrics


@click.group(cls=Group, invoke_without_command=True)
@click.option(
    "--mode",
    type=click.Choice(["off", "suggest", "act"]),
    help="Set the mode: off, suggest (only record decisions) or act.",
)
@click.option("--detach", is_flag=True, help="Start the autopilot in the background and return.")
@click.option("--cancel", is_flag=True, help="With --mode off: also cancel its run in progress.")
@yes_option
@click.option(
    "--start-band",
    metavar="PERCENT",
    help="Act when a broker deviates from its fair share by more than this (default: 20 %).",
)
@click.option("--band", metavar="PERCENT", help="Deviation that a plan aims for (default: 10 %).")
@click.option(
    "--lasting",
    metavar="TIME",
    help="Minimum duration of a deviation before acting (default: 15m).",
)
@click.option(
    "--cool-down",
    metavar="TIME",
    help="Minimum time between the end of a run and the next one (default: 30m).",
)
@click.option(
    "--max-bytes",
    metavar="SIZE",
    help="Maximum number of bytes to copy in any hour (default: 100GB).",
)
@click.option(
    "--max-moves",
    metavar="N",
    help="Maximum number of partitions to move in any hour (default: 200).",
)
@click.option(
    "--min-benefit",
    metavar="N",
    help="Minimum imbalance removed for each share of data copied (default: 0.25).",
)
@click.option(
    "--avoid",
    metavar="HOURS",
    help='Hours in which no run starts, like "mon-fri 09:00-18:00", or none (default: none).',
)
@click.option(
    "--only",
    metavar="HOURS",
    help="Only start runs in these hours; none: at any time (default: none).",
)
@click.option(
    "--topics", metavar="REGEX", help="Only move topics whose whole name matches (default: all)."
)
@click.option(
    "--keep", metavar="REGEX", help="Do not move topics whose whole name matches (default: none)."
)
@metrics_option
@json_option
@click.pass_context
def autopilot(
    ctx: click.Context,
    /,
    mode: str | None,
    detach: bool,
    cancel: bool,
    yes: bool,
    metrics: str | None,
    as_json: bool,
    **limits: str | None,
) -> int:
    """Keep the cluster balanced automatically, within limits.

    In mode `act` it waits until brokers stay off their fair share, then elects preferred leaders or
    applies the smallest plan that helps. In mode `suggest` it only records what it would do. Limits
    that are not given stay as they were set before. Without --mode, prints the status.

    In the foreground, Ctrl-C ends it. `--mode off` stops it at once, also when the cluster does not
    answer.
    """
    context: Context = ctx.obj
    if ctx.invoked_subcommand is not None:
        if any(ctx.params.values()):
            raise UsageError(
                f"`autopilot {ctx.invoked_subcommand}` sets nothing.",
                next="Leave out the options before it; --json goes after it.",
            )
        return ExitCode.DONE
    if mode is None:
        if any(value is not None for value in (*limits.values(), metrics)) or detach or cancel:
            raise UsageError("--mode is missing.", next="Add --mode suggest or --mode act.")
        print_status(find_switches(context), as_json=as_json)
        return ExitCode.DONE
    if mode == Mode.OFF.value:
        if metrics is not None:
            raise UsageError("--mode off takes no --metrics.", next="Leave it out.")
        return _off(context, limits, cancelling=cancel, as_json=as_json)
    if cancel:
        raise UsageError("--cancel goes with --mode off.", next="Leave it out.")
    return _on(context, Mode(mode), limits, metrics, detach=detach, yes=yes, as_json=as_json)


@autopilot.command()
@json_option
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """Show the mode, process, budget and last decision."""
    print_status(find_switches(context), as_json=as_json)


@autopilot.command()
@json_option
@click.pass_obj
def run(context: Context, as_json: bool) -> int:
    """Run the autopilot in the foreground as it was last set, until Ctrl-C or `--mode off`.

    For a service: it changes no setting, and ends at once while the autopilot is off.
    """
    context.require_address()
    autopilots = find_switches(context)
    if len(autopilots) != 1:
        raise UsageError(
            "The autopilot of this cluster has not been set yet.",
            next="Set it: trimtab autopilot --mode suggest --detach.",
        )
    if autopilots[0].mode is Mode.OFF:
        say(f"The autopilot of {autopilots[0].name} is off.")
        return ExitCode.DONE
    if autopilots[0].mode is Mode.ACT:
        context.require_writable()
    return _run_in_foreground(context, autopilots[0], as_json=as_json)


@autopilot.command()
@click.option(
    "--last",
    metavar="N",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Number of decisions to print.",
)
@json_option
@click.pass_obj
def log(context: Context, last: int, as_json: bool) -> None:
    """Print the latest decisions with their reasons."""
    candidates = find_switches(context)
    if len(candidates) != 1:
        names = ", ".join(switch.name for switch in candidates) or "none"
        raise UsageError("Which cluster's?", next=f"There are: {names}. Give -b or --cluster.")
    entries = list(DecisionLog(candidates[0].cluster_id).entries())[-last:]
    if as_json:
        emit([entry.to_json() for entry in entries])
    else:
        text = "".join(f"{entry_line(entry)}\n" for entry in entries)
        write_text(text or "Nothing yet.\n", None)


def _off(
    context: Context, limits: dict[str, str | None], *, cancelling: bool, as_json: bool
) -> int:
    """Turn off what the command line names, else every autopilot of this machine."""
    from core.autopilot.daemon import cancel_runs, runs_in_progress, set_switch

    if any(value is not None for value in limits.values()):
        raise UsageError(
            "--mode off takes no limits.",
            next="Only --cancel goes with it; it also cancels the run.",
        )
    # What the environment names for other commands must not leave an autopilot on.
    autopilots = find_switches(context) if context.target.named else list(switches.read_all())
    if not autopilots:
        say("There is no autopilot here to turn off.")
    off: list[Switch] = []
    documents: list[dict[str, Any]] = []
    wrong: list[str] = []
    for switch in autopilots:  # all of them, before a run of any is waited for
        with _collect_errors(switch, wrong):
            set_switch(switch.turned(Mode.OFF, at=datetime.now(UTC), who=user()))
            say(f"The autopilot of {switch.name} is off.")
            off.append(switch)
    for switch in off:
        with _collect_errors(switch, wrong):
            runs = runs_in_progress(switch, SystemClock())
            trouble = cancel_runs(switch, runs) if cancelling else ""
            documents.append(
                {
                    "cluster_id": switch.cluster_id,
                    "name": switch.name,
                    "mode": "off",
                    "runs": list(runs),
                    "cancelled": bool(runs) and cancelling and not trouble,
                }
            )
            for run in runs:
                if cancelling:
                    say(trouble or f"Run {run} is being cancelled: `trimtab runs attach {run}`.")
                else:
                    say(f"Run {run} continues; --cancel cancels it.")
    if as_json:
        emit(documents)
    if wrong:
        raise TrimtabError(
            f"Failed for {' For '.join(wrong)}",
            next="See `trimtab autopilot status`. An autopilot that is not off stops when the "
            "file of its switch is deleted.",
        )
    return ExitCode.DONE


@contextmanager
def _collect_errors(switch: Switch, wrong: list[str]) -> Iterator[None]:
    """Note what goes wrong with one: it must not keep the others from being turned off."""
    try:
        yield
    except (OSError, TrimtabError) as error:
        why = error.title if isinstance(error, TrimtabError) else f"{error.strerror}."
        place = switch_file(switch.cluster_id)
        wrong.append(f"{switch.name}: {why} (Its switch is {place}.)")


def _on(
    context: Context,
    mode: Mode,
    limits: dict[str, str | None],
    metrics: str | None,
    *,
    detach: bool,
    yes: bool,
    as_json: bool,
) -> int:
    from core.autopilot.daemon import is_running, read_status, start_autopilot, switch_on

    parse_limits(AutopilotSettings(), limits)  # wrong ones are refused before a look at the cluster
    place = None if metrics is None else parse_metrics(metrics)
    address = context.require_address()
    if mode is Mode.ACT:
        context.require_writable()
    with context.connected() as connection:
        state = connection.client.describe_cluster()
    if mode is Mode.ACT:
        context.require_writable(state)
    cluster_id = state.cluster_id
    try:
        before = switches.read(cluster_id)
    except DocumentError as error:
        say(str(error.title))
        before = None
    settings = parse_limits(before.settings if before else AutopilotSettings(), limits)
    name = context.target.display_name(cluster_id)
    running = is_running(cluster_id)
    if running and before is not None and before.mode is not Mode.OFF:
        place = metrics_while_running(before, place)
    elif place is not None and not running:
        check_place(place)
    for sentence in unmatched_patterns(settings, (topic.name for topic in state.topics)):
        say(sentence)
    if detach and (warning := logout_policy().warning("this autopilot")):
        say(warning)
    if mode is Mode.ACT and not yes:
        say("It acts without asking again, within these limits:")
        say("".join(f"  {limit:<12}{text}\n" for limit, text in describe_limits(settings).items()))
        confirm(name, "let the autopilot act", "The autopilot", "its switch is as it was")
    switch = Switch(
        cluster_id=cluster_id,
        name=name,
        address=address,
        settings=replace(settings, mode=mode),
        changed_at=datetime.now(UTC),
        who=user(),
        snapshots=context.target.snapshots,
        starts_load=not context.no_load,
        metrics=place,
    )
    started = None
    if switch_on(switch, SystemClock()):
        say(f"The autopilot of {name} is already running, now in mode {mode.value}.")
    elif detach:
        started = start_autopilot(switch)
        say(f"The autopilot of {name} runs in the background, mode {mode.value}.")
    else:
        return _run_in_foreground(context, switch, as_json=as_json)
    if as_json:
        status = read_status(switch)
        emit([status_document(replace(status, process=status.process or started))])
    return ExitCode.DONE


def _run_in_foreground(context: Context, switch: Switch, *, as_json: bool) -> int:
    from core.autopilot.daemon import ROLE, run_autopilot

    def report(entry: Entry) -> None:
        if as_json:
            emit_line(entry.to_json())
        else:
            print_lines(entry_line(entry))

    say_warnings()
    root = paths.load_root()
    layout.mark(root)
    busy = RefusedError(
        f"Another process has just started the autopilot of {switch.name}.",
        next="Look at it: trimtab autopilot status.",
    )
    with (
        required_lease(root, switch.cluster_id, ROLE, busy),
        context.connected() as opened,
    ):
        connection = replace(opened, client=for_cluster(opened.client, switch.cluster_id))
        stop = stop_signals()
        say(f"Autopilot of {switch.name} runs, mode {switch.mode.value}; Ctrl-C ends it.")
        run_autopilot(connection, switch, keep_on=lambda: not stop.is_set(), report=report)
    say("The autopilot has ended; a run that it started continues.")
    return ExitCode.DONE
