"""`trimtab runs`: list, show, attach to and cancel runs, of this machine."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from core.cli.context import Context, emit, json_option, say, write_text
from core.errors import ExitCode, UnreachableError, UsageError


@click.group()
def runs() -> None:
    """Runs that were started on this machine."""


@runs.command("ls")
@json_option
@click.pass_obj
def ls(context: Context, as_json: bool) -> None:
    """List runs, newest first; those of one cluster with -b or --cluster."""
    from core.cli.table import table
    from core.run.events import summary_document
    from core.run.runs import list_runs, unreadable
    from core.units import format_bytes, format_rate, format_time

    clusters = _clusters(context)
    found = [run for cluster_id in clusters for run in list_runs(cluster_id)]
    for wrong in (wrong for cluster_id in clusters for wrong in unreadable(cluster_id)):
        say(wrong)
    found.sort(key=lambda run: run.started_at, reverse=True)
    if as_json:
        emit([summary_document(run) for run in found])
        return
    if not found:
        say("No runs yet.")
        return
    rows = [
        [
            run.run,
            run.cluster_id[:8],
            run.state.value,
            f"{run.done}/{run.moves}",
            f"{format_bytes(run.moved_bytes)} / {format_bytes(run.total_bytes)}",
            format_rate(run.rate_bytes_per_s),
            format_time(run.started_at),
            run.who,
        ]
        for run in found
    ]
    header = ("RUN", "CLUSTER", "STATE", "DONE", "MOVED", "THROTTLE", "STARTED", "BY")
    click.echo(table(header, rows, right="   >>>"), nl=False)


@runs.command("show")
@click.argument("run")
@json_option
@click.pass_obj
def show(context: Context, run: str, as_json: bool) -> int:
    """Show a run: what was asked, what became of it, and what a dead one has left."""
    from core.run.events import run_document
    from core.run.report import left_in_cluster, report
    from core.run.runs import read_run
    from core.run.view import RunState

    cluster_id, name = _find(context, run)
    view = read_run(cluster_id, name)
    if view.leftovers and context.target.address is not None:
        with context.connected() as connection:
            if connection.client.describe().cluster_id == cluster_id:
                view = replace(view, leftovers=left_in_cluster(connection.client, view.leftovers))
            else:
                say("This cluster is not the run's: what it left there was not looked up.")
    if as_json:
        emit(run_document(view))
    else:
        write_text(report(view), None)
    return ExitCode.INCOMPLETE if view.state is RunState.DIED else ExitCode.DONE


@runs.command("attach")
@click.argument("run")
@json_option
@click.pass_obj
def attach(context: Context, run: str, as_json: bool) -> int:
    """Follow a run to its end and exit as it ends; Ctrl-C lets go of it."""
    from core.cli.following import follow_run

    return follow_run(*_find(context, run), as_json=as_json)


@runs.command("cancel")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def cancel(context: Context, run: str, yes: bool, as_json: bool) -> int:
    """Cancel a run and follow it: what is in flight goes back, in its original order.

    Partitions that are done stay where they are.
    """
    from core.cli.following import follow_run
    from core.run.runs import read_run
    from core.run.service import request
    from core.run.view import RunState

    context.require_writable()
    cluster_id, name = _find(context, run)
    view = read_run(cluster_id, name)
    if not yes and not view.state.ended:
        _confirm(view.cluster_name)
    request(cluster_id, name, "cancel")
    code = follow_run(cluster_id, name, as_json=as_json)
    cancelled = read_run(cluster_id, name).state is RunState.CANCELLED
    return ExitCode.DONE if cancelled else code


def _confirm(name: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(
            "Cancelling asks for the cluster's name, and there is no terminal.",
            next="Say --yes to cancel without being asked.",
        )
    typed = click.prompt(f"Type {name} to cancel", default="", show_default=False, err=True)
    if typed.strip() != name:
        raise UsageError("That is not its name; the run goes on.")


def _clusters(context: Context) -> tuple[str, ...]:
    """Return the cluster that was named, asked for its id; else all that have runs here."""
    from core.run.runs import clusters_with_runs

    if context.target.address is None:
        return clusters_with_runs()
    with context.connected() as connection:
        return (connection.client.describe().cluster_id,)


def _find(context: Context, run: str) -> tuple[str, str]:
    """Return (cluster id, run id) of the one run that `run` names, in full or in part."""
    from core.run.runs import clusters_with_runs, find_run, runs_named

    if not run.strip():
        raise UsageError("Which run?", next="`trimtab runs ls` lists them.")
    everywhere = [(c, r) for c in clusters_with_runs() for r in runs_named(c, run)]
    if len(everywhere) == 1:
        return everywhere[0]
    if len(everywhere) > 1 and context.target.address is None:
        names = ", ".join(f"{r} on {c[:8]}" for c, r in everywhere[:5])
        raise UsageError(f"Several runs match {run!r}: {names}.", next="Say more of its name.")
    try:
        cluster_id = _clusters(context)[0] if everywhere else ""
    except UnreachableError as error:
        raise UsageError(f"Several runs match {run!r}.", next="Say its whole name.") from error
    return cluster_id, find_run(cluster_id, run)
