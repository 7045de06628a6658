"""Writing what is seen to a file: the plan for Kafka's own tool, a run's report for a ticket."""

from __future__ import annotations

from pathlib import Path

from core.errors import TrimtabError, UsageError
from core.plan.reassignment import dump
from core.run.tell.markdown import markdown
from core.run.tell.runs import read_journal
from core.run.tell.view import RunView
from tui.screens.base import DashboardScreen
from tui.screens.dialog import AskDialog


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
        dump(plan),
        "kafka-reassign-partitions and trimtab read it",
    )


def export_report(screen: DashboardScreen, run: RunView) -> None:
    """Ask for a path and write a run's report there as Markdown."""
    try:
        text = markdown(read_journal(run.cluster_id, run.run))
    except TrimtabError as error:
        screen.say(f"Nothing was written. {error.title}", "act")
        return
    proposal = f"run-{run.run}.md"
    _export(screen, "Export the report as Markdown to", proposal, text, "it fits a ticket")


def export_timeline(screen: DashboardScreen, text: str) -> None:
    """Ask for a path and write what is listed there as Markdown."""
    _export(screen, "Export what happened as Markdown to", "timeline.md", text, "it fits a ticket")


def _export(
    screen: DashboardScreen, question: str, proposal: str, text: str, good_for: str
) -> None:
    def write(answer: str | None) -> None:
        if not answer:
            return
        from core.cli.context import write_text

        path = Path(answer).expanduser()
        try:
            write_text(text, path)
        except UsageError as error:
            screen.say(f"Nothing was written. {error.title}", "act")
        else:
            screen.say(f"√ {path} written: {good_for}.", "fine")

    screen.app.push_screen(AskDialog(question, proposal, "Write"), write)
