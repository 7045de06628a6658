"""The Moves: a run as it goes, with or without this screen; or all runs of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from textual.message import Message
from textual.widget import Widget

from core.cluster.state import TopicPartition
from core.errors import TrimtabError
from core.run.runs import list_runs, read_run
from core.run.service import request
from core.run.view import RunSummary, RunView
from core.units import format_bytes
from tui.actions import MOVES, bindings_of
from tui.screens.ask import ConfirmDialog
from tui.screens.base import DashboardScreen
from tui.screens.cursor import CursorKeys
from tui.session import Session
from tui.widgets.foreign import ForeignMove, foreign_moves
from tui.widgets.page import Page
from tui.widgets.run_page import run_lines
from tui.widgets.run_rows import PartitionHit, in_order
from tui.widgets.runs_page import RunHit, runs_lines


class MovesScreen(CursorKeys, DashboardScreen):
    """The newest run, another one that was opened, or the list of them."""

    PLACE = MOVES
    BINDINGS = bindings_of(MOVES)

    class Listed(Message):
        """A worker has read the journals' folder."""

        def __init__(self, runs: tuple[RunSummary, ...]) -> None:
            super().__init__()
            self.runs = runs

    class Opened(Message):
        """A worker has read one run's journal."""

        def __init__(self, run: RunView) -> None:
            super().__init__()
            self.run = run

    class Said(Message):
        """A worker has something to say: what was asked, or why it could not be."""

        def __init__(self, text: str, role: str) -> None:
            super().__init__()
            self.text, self.role = text, role

    def __init__(self) -> None:
        super().__init__()
        self._partition: TopicPartition | None = None
        self._other: RunView | None = None
        """A run that was opened from the list; None shows the newest."""
        self._listing = False
        self._runs: tuple[RunSummary, ...] | None = None
        self._listed_for: str | None = None
        self._row = 0

    def compose_body(self) -> Iterable[Widget]:
        yield Page(id="moves-page")

    # -- drawing ---------------------------------------------------------------------------------

    @property
    def shown(self) -> RunView | None:
        """Return the run on the screen; None when the list is there."""
        return None if self._listing else self._other or self.session.run

    def show_body(self, session: Session) -> None:
        page = self.query_one("#moves-page", Page)
        width, height = page.size.width, page.size.height
        run = self.shown
        if run is not None:
            lines = run_lines(run, self._partition, width, height)
        else:
            self._have_listed(session)
            now = datetime.now(UTC)
            foreign = self._foreign(session)
            lines = runs_lines(self._runs, foreign, self._row, now, width, height)
        page.show(lines, self.palette, self.glyphs)

    def footer_words(self) -> Mapping[str, str]:
        run = self.shown
        words = {"enter": "" if run is not None or not self._runs else "open"}
        if run is None or run.state.ended:
            words["cancel_run"] = ""
        words["runs"] = "newest run" if self._listing else "runs"
        if self.session.run is None:
            words["runs"] = ""
        return words

    def _foreign(self, session: Session) -> tuple[ForeignMove, ...]:
        if session.state is None:
            return ()
        run = session.run
        ours = {move.tp for move in run.moves} if run and not run.state.ended else set()
        return foreign_moves(session.state, ours)

    def _have_listed(self, session: Session) -> None:
        """Read the list when it is first shown, and when the newest run becomes another."""
        if session.state is None:
            return
        cluster_id = session.state.cluster_id
        newest = f"{cluster_id} {session.run.run if session.run else ''}"
        if session.run is not None:
            newest += session.run.state.value
        if self._listed_for == newest:
            return
        self._listed_for = newest

        def work() -> None:
            self.post_message(self.Listed(list_runs(cluster_id)))

        self.run_worker(work, thread=True, exclusive=True, group="runs")

    def on_moves_screen_listed(self, message: Listed) -> None:
        self._runs = message.runs
        self._row = min(self._row, max(len(message.runs) - 1, 0))
        self.show(self.session)

    # -- moving about ----------------------------------------------------------------------------

    def step(self, rows: int) -> None:
        run = self.shown
        if run is None:
            self._row = min(max(self._row + rows, 0), max(len(self._runs or ()) - 1, 0))
        elif run.moves:
            order = [move.tp for move in in_order(run.moves)]
            at = order.index(self._partition) if self._partition in order else 0
            self._partition = order[min(max(at + rows, 0), len(order) - 1)]
        self.show(self.session)

    def on_page_turned(self, message: Page.Turned) -> None:
        self.step(message.steps)

    def on_page_hit(self, message: Page.Hit) -> None:
        match message.hit:
            case PartitionHit(tp):
                self._partition = tp
                self.show(self.session)
            case RunHit(run):
                self._open(run)

    # -- runs ------------------------------------------------------------------------------------

    def action_runs(self) -> None:
        self._listing = not self._listing
        self._other = None
        self.show(self.session)

    def action_back(self) -> None:
        self._listing = False
        self._other = None
        self.show(self.session)

    def action_enter(self) -> None:
        if self.shown is None and self._runs:
            self._open(self._runs[self._row].run)

    def _open(self, run: str) -> None:
        state = self.session.state
        if state is None:
            return
        if self.session.run is not None and run == self.session.run.run:
            self.action_back()
            return
        cluster_id = state.cluster_id

        def work() -> None:
            try:
                self.post_message(self.Opened(read_run(cluster_id, run)))
            except TrimtabError as error:
                self.post_message(self.Said(str(error.title), "act"))

        self.run_worker(work, thread=True, exclusive=True, group="runs")

    def on_moves_screen_opened(self, message: Opened) -> None:
        self._other, self._listing = message.run, False
        self.show(self.session)

    def on_moves_screen_said(self, message: Said) -> None:
        self.say(message.text, message.role)

    def copy_text(self) -> str | None:
        """Return the command that follows, or shows, the run on the screen."""
        run = self.shown
        if run is None:
            return None
        return f"trimtab runs {'show' if run.state.ended else 'attach'} {run.run}"

    # -- cancelling ------------------------------------------------------------------------------

    def action_cancel_run(self) -> None:
        run = self.shown
        if run is None or run.state.ended:
            self.say("No run is in progress: nothing to cancel.")
        elif not self.session.writable:
            self.say(f"Read-only: {self.session.read_only_because}.", "look")
        else:
            self.app.push_screen(cancel_dialog(run), lambda yes: self._cancel(run, yes))

    def _cancel(self, run: RunView, yes: bool | None) -> None:
        if not yes:
            return

        def work() -> None:
            try:
                request(run.cluster_id, run.run, "cancel")
            except TrimtabError as error:
                self.post_message(self.Said(error.title, "act"))
            else:
                self.post_message(self.Said("Asked to cancel: it takes that up at once.", "look"))

        self.run_worker(work, thread=True, group="request")


def cancel_dialog(run: RunView) -> ConfirmDialog:
    """Return the question before a run is cancelled, with what that does and does not undo."""
    started = [m for m in run.moves if m.state.value in ("moving", "stuck")]
    queued = [m for m in run.moves if m.state.value == "queued"]
    lost = sum(move.moved_bytes for move in started)
    return ConfirmDialog(
        f"Cancel run {run.run}?",
        (
            f"{len(started)} in flight go back to their replicas, in the order they had; "
            f"{format_bytes(lost)} that were copied are dropped.",
            f"{len(queued)} queued are not begun.",
            f"{run.done} done stay where they are: that is not rolled back.",
            "Throttles return to what they were.",
        ),
        no="Keep going",
        yes="Cancel the run",
    )
