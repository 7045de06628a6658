"""Writing the plan to a file that Kafka's own tool reads, wherever the plan is seen."""

from __future__ import annotations

from pathlib import Path

from core.errors import UsageError
from core.plan.reassignment import dump
from tui.screens.ask import AskDialog
from tui.screens.base import DashboardScreen


def export_plan(screen: DashboardScreen) -> None:
    """Ask for a path and write the plan there, whole or not at all."""
    plan = screen.session.plan
    if not len(plan):
        screen.say("The plan is empty: nothing to export.")
        return

    def write(answer: str | None) -> None:
        if not answer:
            return
        from core.cli.context import write_text

        path = Path(answer).expanduser()
        try:
            write_text(dump(plan), path)
        except UsageError as error:
            screen.say(f"Nothing was written. {error.title}", "act")
        else:
            screen.say(f"√ {path} written: kafka-reassign-partitions and trimtab read it.", "fine")

    screen.app.push_screen(
        AskDialog("Export the plan as Kafka's reassignment JSON to", "plan.json", "Write"), write
    )
