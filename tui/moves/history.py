"""Reading the journals of runs for the Moves, in workers: their list, and one with its report."""

from __future__ import annotations

from textual.message import Message

from core.errors import TrimtabError
from core.run.reporting.report import markdown
from core.run.reporting.runs import list_runs, read_journal
from core.run.reporting.views import RunSummary, RunView
from tui.screen.base import DashboardScreen
from tui.session import Session


class RunHistory(DashboardScreen):
    """The part of the Moves that reads; what was read comes as messages."""

    class Listed(Message):
        """A worker has read the journals' folder."""

        def __init__(self, runs: tuple[RunSummary, ...]) -> None:
            super().__init__()
            self.runs = runs

    class Opened(Message):
        """A worker has read one run's journal."""

        def __init__(self, run: RunView, report: str) -> None:
            super().__init__()
            self.run, self.report = run, report

    class Unreadable(Message):
        """A worker could not read a journal."""

        def __init__(self, error: TrimtabError) -> None:
            super().__init__()
            self.error = error

    def __init__(self) -> None:
        super().__init__()
        self._listed_for: str | None = None

    def have_listed(self, session: Session) -> None:
        """Read the list when it is first shown, and when the newest run becomes another."""
        if session.state is None:
            return
        cluster_id, run = session.state.cluster_id, session.run
        newest = f"{cluster_id} {run.run if run else ''} {run.state.value if run else ''}"
        if self._listed_for == newest:
            return
        self._listed_for = newest

        def work() -> None:
            self.post_message(self.Listed(list_runs(cluster_id)))

        self.run_worker(work, thread=True, exclusive=True, group="runs")

    def read(self, run: str) -> None:
        """Read one run and its report."""
        state = self.session.state
        if state is None:
            return
        cluster_id = state.cluster_id

        def work() -> None:
            try:
                look = read_journal(cluster_id, run)
            except TrimtabError as error:
                self.post_message(self.Unreadable(error))
            else:
                self.post_message(self.Opened(look.view, markdown(look)))

        self.run_worker(work, thread=True, exclusive=True, group="runs")

    def on_run_history_unreadable(self, message: Unreadable) -> None:
        self.say(str(message.error.title), "act")
