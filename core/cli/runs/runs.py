"""`trimtab runs`: list, show, report and attach to runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from core.cli.common.context import Context, report_unknown
from core.cli.common.every_cluster import (
    ClusterAnswer,
    all_option,
    ask_every_cluster,
    write_answers,
)
from core.cli.common.options import Group, answer_options, json_option, output_option
from core.cli.common.output import Answer, say, write_text
from core.cli.common.prompts import ask_passwords, confirm
from core.cli.runs import requests, retry_rollback
from core.cli.runs.external import FOREIGN, follow_external, report_external, show_external
from core.cli.runs.follow_progress import follow_run
from core.cli.runs.run_lookup import (
    read_named_run,
    require_writable,
    resolve_run_or_latest,
)
from core.cluster.known_names import NameTakenError, display_name, known_names
from core.errors import ExitCode
from core.run.external.leftovers import fetch_leftovers
from core.run.options import address_of
from core.run.reporting.documents import run_document, summary_document
from core.run.reporting.report import headline, markdown, report
from core.run.reporting.runs import (
    RunReading,
    clusters_with_runs,
    list_runs,
    read_journal,
    unreadable,
)
from core.run.reporting.views import RunStatus, RunSummary
from core.text.tables import text_table
from core.units import format_bytes, format_duration, format_rate, format_time


@click.group(cls=Group)
def runs() -> None:
    """List, follow and control runs that were started on this machine.

    RUN is an ID of `runs ls`, or a unique part of it. Without RUN, the run in progress is used;
    commands that only print use the newest one otherwise.
    """


@runs.command("ls")
@all_option
@answer_options
@click.pass_obj
def ls(context: Context, every: bool, answer: Answer) -> int:
    """List runs, newest first; with -b or --cluster those of one cluster.

    With --all those of the clusters of config.toml. Without --json, also says whether moves are
    in flight that no run of this machine started.
    """
    report = not answer.as_json
    if every:
        answers = ask_every_cluster(
            context, lambda cluster_context: _find_runs(cluster_context, report=report)
        )
        answers = [_with_known_runs(cluster_answer) for cluster_answer in answers]
        return write_answers(answer, answers, _documents, lambda: _table_of_all(answers))
    if context.target.address is None:
        summaries = _newest_first(
            run for cluster_id in clusters_with_runs() for run in _load_runs(context, cluster_id)
        )
    else:
        summaries = _find_runs(context, report=report)
    answer.write_table(summaries, _document, HEADER, _row, RIGHT, none=NONE)
    return ExitCode.DONE


HEADER = (
    *("RUN", "CLUSTER", "STATE", "DONE", "MOVED", "TOOK", "ESTIMATED", "THROTTLE"),
    *("STARTED", "BY"),
)
RIGHT = "   >>>>>"
NONE = "No runs yet."


def _find_runs(context: Context, *, report: bool) -> list[RunSummary]:
    """Return the runs of the cluster that is named; `report` moves of others' there."""
    with context.connected() as connection:
        state = connection.client.describe_cluster()
    if report:
        report_external(context, report_unknown(state, context.say))
    return _newest_first(_load_runs(context, state.cluster_id))


def _with_known_runs(answer: ClusterAnswer[list[RunSummary]]) -> ClusterAnswer[list[RunSummary]]:
    """Return it with the runs of a cluster that does not answer: they are kept on this machine."""
    known = known_names().get(answer.name or "")
    is_other = isinstance(answer.error, NameTakenError)
    if answer.error is None or known is None or is_other:
        return answer
    return replace(answer, answer=list(list_runs(known)))


def _load_runs(context: Context, cluster_id: str) -> tuple[RunSummary, ...]:
    for wrong in unreadable(cluster_id):
        context.say(wrong)
    return list_runs(cluster_id)


def _newest_first(summaries: Iterable[RunSummary]) -> list[RunSummary]:
    return sorted(summaries, key=lambda run: run.started_at, reverse=True)


def _table_of_all(answers: Sequence[ClusterAnswer[list[RunSummary]]]) -> str:
    # A cluster may have two names.
    runs_by_id = {
        (run.cluster_id, run.run): run for answer in answers for run in answer.answer or ()
    }
    rows = [_row(run) for run in _newest_first(runs_by_id.values())]
    return text_table(HEADER, rows, RIGHT) if rows else f"{NONE}\n"


def _documents(summaries: Sequence[RunSummary]) -> list[dict[str, Any]]:
    return [_document(run) for run in summaries]


def _document(run: RunSummary) -> dict[str, Any]:
    return {**summary_document(run), "cluster_name": display_name(run.cluster_id)}


def _row(run: RunSummary) -> tuple[str, ...]:
    return (
        run.run,
        display_name(run.cluster_id),
        run.state.value,
        f"{run.done}/{run.moves}",
        f"{format_bytes(run.moved_bytes)} / {format_bytes(run.total_bytes)}",
        format_duration(run.seconds),
        "-" if run.estimated_seconds is None else format_duration(run.estimated_seconds),
        format_rate(run.rate_bytes_per_s),
        format_time(run.started_at),
        run.who,
    )


@runs.command("show")
@click.argument("run", required=False)
@answer_options
@click.pass_obj
def show(context: Context, run: str | None, answer: Answer) -> int:
    """Show a run: its plan, its outcome, and what a dead one left behind.

    RUN `foreign` shows the moves in flight that no run of this machine started (needs -b).
    """
    if run == FOREIGN:
        return show_external(context, answer)
    cluster_id, name = resolve_run_or_latest(context, run)
    reading = read_journal(cluster_id, name)
    view = reading.view
    if view.leftovers and context.target.address is not None:
        with context.connected() as connection:
            if connection.client.describe_cluster().cluster_id == cluster_id:
                left = fetch_leftovers(connection.client, view.leftovers)
                reading = replace(reading, view=replace(view, leftovers=left))
            else:
                say("This is not the run's cluster; what the run left there was not checked.")
    answer.write(lambda: run_document(reading), lambda: report(reading))
    return ExitCode.INCOMPLETE if view.state is RunStatus.DIED else ExitCode.DONE


@runs.command("report")
@click.argument("run", required=False)
@output_option
@click.pass_obj
def report_run(context: Context, run: str | None, output: Path | None) -> None:
    """Write a report of a run in Markdown."""
    write_text(markdown(read_journal(*resolve_run_or_latest(context, run))), output)


@runs.command("attach")
@click.argument("run", required=False)
@click.option(
    "--foreign", is_flag=True, help="Follow the moves that no run of this machine started."
)
@click.option(
    "--yes",
    is_flag=True,
    help="Restart the process of a run that died, without asking for confirmation.",
)
@json_option
@click.pass_obj
def attach(context: Context, run: str | None, foreign: bool, yes: bool, as_json: bool) -> int:
    """Follow a run to its end, with its exit code; Ctrl-C detaches.

    The process of a run that died is restarted first and continues from the journal. With -b, the
    run connects to those brokers.
    """
    if foreign:
        return follow_external(context, as_json=as_json)
    reading = read_named_run(context, run)
    if reading.view.state is RunStatus.DIED:
        _restart(context, reading, yes=yes)
    return follow_run(reading.state.cluster_id, reading.state.run_id, as_json=as_json)


def _restart(context: Context, reading: RunReading, *, yes: bool) -> None:
    """Restart the process of a run that died, if that is wanted: a script has to say so."""
    from core.run.recovery import recover

    history = reading.state
    if not yes and not sys.stdin.isatty():
        return
    require_writable(context, history)
    if not yes:
        say(f"{headline(reading.view)}\n{reading.view.why}")
        confirm(history.cluster_name, "restart it", "Restarting it", "nothing was changed")
    target = context.target
    ask_passwords(target.address or address_of(reading.records))
    timeout = target.timeout_seconds
    recover(history.cluster_id, history.run_id, address=target.address, timeout_seconds=timeout)


for command in (*requests.COMMANDS, retry_rollback.retry, retry_rollback.rollback):
    runs.add_command(command)
