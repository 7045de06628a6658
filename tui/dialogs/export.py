"""Export to a file: the plan for Kafka's own tool, a run's report for a ticket."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from core.errors import TrimtabError
from core.paths import expand_user
from core.plan.formats.plan_file import format_plan_file
from core.run.reporting.report import markdown
from core.run.reporting.runs import read_journal
from core.run.reporting.views import RunView
from tui.dialogs.base import AskDialog
from tui.screen.base import DashboardScreen


def export_plan(screen: DashboardScreen) -> None:
    """Ask for a path and write the plan there, whole or not at all."""
    plan = screen.session.plan
    if not len(plan):
        screen.say("The plan is empty: nothing to export.")
        return
    _export(
        screen,
        "Export the plan as Kafka's reassignment JSON to",
        "plan.json",
        partial(format_plan_file, plan),
        "kafka-reassign-partitions and trimtab read it",
    )


def export_report(screen: DashboardScreen, run: RunView) -> None:
    """Ask for a path and write a run's report there as Markdown."""

    def report() -> str:
        return markdown(read_journal(run.cluster_id, run.run))

    proposal = f"run-{run.run}.md"
    _export(screen, "Export the report as Markdown to", proposal, report, "it fits a ticket")


def export_timeline(screen: DashboardScreen, text: str) -> None:
    """Ask for a path and write what is listed there as Markdown."""
    question = "Export what happened as Markdown to"
    _export(screen, question, "timeline.md", lambda: text, "it fits a ticket")


def _export(
    screen: DashboardScreen,
    question: str,
    proposal: str,
    text: Callable[[], str],
    good_for: str,
) -> None:
    def write(path: Path) -> str:
        from core.cli.common.output import write_text

        write_text(text(), path)
        return f"√ {path} written: {good_for}."

    def written(result: str | TrimtabError) -> None:
        if isinstance(result, TrimtabError):
            screen.dashboard.say(f"Nothing was written. {result.title}", "act")
        else:
            screen.dashboard.say(result, "fine")

    def answered(answer: str | None) -> None:
        if answer:
            path = expand_user(answer)
            screen.dashboard.run_in_background("export", partial(write, path), written)

    screen.app.push_screen(AskDialog(question, proposal, "Write"), answered)
