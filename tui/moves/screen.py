"""The Moves: a run as it goes, with or without this screen; its batches, its log, its report.

Beside it the history of runs, and moves in flight that are somebody else's.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

from core.run.reporting.report import markdown
from core.run.reporting.runs import list_runs, read_journal
from core.run.reporting.views import RunStatus, RunSummary, RunView
from core.run.retry_rollback import FollowUp
from tui.actions.action import MOVES
from tui.actions.table import bindings_of
from tui.dialogs.export import export_report
from tui.drawing.page import Page
from tui.drawing.spans import Lines, RowHit
from tui.moves.drawing.batches import batches_of, current_batch
from tui.moves.drawing.log import filter_events
from tui.moves.drawing.report import all_report_lines
from tui.moves.drawing.rows import sort_moves
from tui.moves.drawing.runs import RunHit
from tui.moves.drawing.status import accepts_requests
from tui.moves.requests import RunRequests
from tui.moves.view import RUN_MODES, MovesMode, MovesView
from tui.screen.list_screen import EDGE, CursorKeys, Filtering, PageScreen
from tui.screen.services import ShowInFlight
from tui.session import Session


class MovesScreen(CursorKeys, Filtering, PageScreen):
    """The newest run, another one that was opened, the list of them, or others' moves."""

    PLACE = MOVES
    BINDINGS = bindings_of(MOVES)
    words = ""

    def __init__(self) -> None:
        super().__init__()
        self._requests = RunRequests(self, unmark=self._unmark, started=self.show_started)
        self.marked: set[int] = set()
        """Indices of the moves that are meant together."""
        self._listed_for = ""
        """For which cluster and newest run the list was read last."""
        self._sight: MovesMode | None = None
        """None shows what matters most at the moment."""
        self._other: RunView | None = None
        """A run that was opened from the list; None shows the newest."""
        self._runs: tuple[RunSummary, ...] | None = None
        self._move: int | None = None
        self._marked_of = ""
        self._row = self._skipped = 0
        self._batch: int | None = None
        self._report = ""

    # -- what is shown ---------------------------------------------------------------------------

    @property
    def mode(self) -> MovesMode:
        """Return what is shown: what was asked for, else a run in progress before all else."""
        run = self.session.run
        if self._sight is not None and (self._sight not in RUN_MODES or self._other or run):
            return self._sight
        if run is not None and accepts_requests(run):
            return MovesMode.RUN
        if self.session.external_moves:
            return MovesMode.OTHERS
        return MovesMode.RUNS if run is None else MovesMode.RUN

    @property
    def shown(self) -> RunView | None:
        """Return the run on the screen; None when something else is there."""
        return (self._other or self.session.run) if self.mode in RUN_MODES else None

    @property
    def view(self) -> MovesView:
        return MovesView(
            mode=self.mode,
            run=self.shown,
            newest=self.session.run,
            external=self.session.external_moves,
            runs=self._runs,
            row=self._row,
            move=self._move,
            marked=self.marked,
            batch=self._batch,
            report=self._report,
            skipped=self._skipped,
            words=self.words,
            typing=self.typing,
        )

    def lines(self, session: Session, width: int, height: int) -> Lines:
        name = self.shown.run if self.shown else ""
        if name != self._marked_of:
            self._marked_of, self.marked = name, set()
        if self.mode is MovesMode.RUNS:
            self._load_run_list(session)
        return self.view.lines(datetime.now(UTC), width, height)

    def footer_words(self) -> Mapping[str, str]:
        return self.view.footer_words()

    # -- moving about ----------------------------------------------------------------------------

    def step(self, rows: int) -> None:
        run = self.shown
        match self.mode:
            case MovesMode.RUNS:
                self._row = _within(self._row + rows, len(self._runs or ()))
            case MovesMode.RUN if run is not None and run.moves:
                order = sort_moves(run.moves)
                at = order.index(self._move) if self._move in order else 0
                self._move = order[_within(at + rows, len(order))]
            case MovesMode.BATCHES if run is not None:
                batches = batches_of(run.moves)
                at = current_batch(batches) if self._batch is None else self._batch
                self._batch = _within(at + rows, len(batches))
            case MovesMode.LOG if run is not None:
                count = len(filter_events(run.events, self.words))
                self._skipped = _within(self._skipped + rows, count)
            case MovesMode.REPORT:
                room = self.query_one(Page).size
                lines = len(all_report_lines(self._report, room.width))
                self._skipped = _within(self._skipped + rows, lines - room.height + 1)
            case _:
                return
        self.show(self.session)

    def on_page_hit(self, message: Page.Hit) -> None:
        match message.hit:
            case RowHit(index):
                self._move = index
                self.show(self.session)
            case RunHit(run):
                self.open_run(run)

    def _turn(self, mode: MovesMode | None) -> None:
        self._sight, self._skipped, self._batch = mode, 0, None
        self.words, self.typing = "", False
        self.show(self.session)

    def action_log(self) -> None:
        self._toggle(MovesMode.LOG)

    def action_batches(self) -> None:
        self._toggle(MovesMode.BATCHES)

    def _toggle(self, mode: MovesMode) -> None:
        if self.mode is mode:
            self._turn(MovesMode.RUN)
        elif self.shown is None:
            self.say("No run is open: enter opens one.")
        else:
            self._turn(mode)

    def action_others(self) -> None:
        if not self.session.external_moves:
            state = self.session.state
            unknown = state.moves_unknown if state is not None else ""
            self.say(unknown or "Nothing of somebody else's is in flight.")
        else:
            self._turn(None if self.mode is MovesMode.OTHERS else MovesMode.OTHERS)

    def action_runs(self) -> None:
        listing = self.mode is MovesMode.RUNS
        self._other = None
        self._turn(None if listing else MovesMode.RUNS)

    def action_back(self) -> None:
        if self.marked and self.mode is MovesMode.RUN:
            self.marked = set()
            self.show(self.session)
        elif self.mode is MovesMode.REPORT and self._other is not None:
            self._other = None
            self._turn(MovesMode.RUNS)
        elif self.mode in (MovesMode.LOG, MovesMode.BATCHES, MovesMode.REPORT):
            self._turn(MovesMode.RUN)
        else:
            self._other = None
            self._turn(None)

    def show_started(self, run: str) -> None:
        self._other = self._move = None
        self._turn(MovesMode.RUN)
        self.say(f"Run {run} has been started.", "fine")

    def on_show_in_flight(self, message: ShowInFlight) -> None:
        if message.started is not None:
            self.show_started(message.started)
        else:
            self._other = None
            self._turn(None)

    def action_enter(self) -> None:
        run = self.shown
        if self.mode is MovesMode.RUNS and self._runs:
            self.open_run(self._runs[self._row].run)
        elif self.mode is MovesMode.RUN and run is not None and run.state.ended:
            self._read(run.run)

    def open_run(self, run: str) -> None:
        """Open a run of the list: one that goes on as it goes, one that has ended as its report."""
        newest = self.session.run
        if newest is not None and run == newest.run and not newest.state.ended:
            self._other = None
            self._turn(MovesMode.RUN)
        else:
            self._read(run)

    def _load_run_list(self, session: Session) -> None:
        """Read the list when it is first shown, and when the newest run becomes another."""
        if session.state is None:
            return
        cluster_id, run = session.state.cluster_id, session.run
        newest = f"{cluster_id} {run.run if run else ''} {run.state.value if run else ''}"
        if self._listed_for != newest:
            self._listed_for = newest
            self.run_in_thread("runs", partial(list_runs, cluster_id), self._show_list)

    def _show_list(self, runs: tuple[RunSummary, ...]) -> None:
        self._runs = runs
        self._row = min(self._row, max(len(runs) - 1, 0))
        self.show(self.session)

    def _read(self, run: str) -> None:
        state = self.session.state
        if state is None:
            return
        cluster_id = state.cluster_id

        def work() -> tuple[RunView, str]:
            look = read_journal(cluster_id, run)
            return look.view, markdown(look)

        self.run_in_thread(
            "runs",
            work,
            lambda reading: self.show_run(*reading),
            lambda error: self.say(error.title, "act"),
        )

    def show_run(self, run: RunView, report: str) -> None:
        """Show a run: as its report once it has ended, else as it goes."""
        newest = self.session.run
        ended = run.state.ended and run.state is not RunStatus.DIED
        self._other = None if newest and newest.run == run.run else run
        self._report, self._move = report, None
        self._turn(MovesMode.REPORT if ended else MovesMode.RUN)

    # -- asking for something --------------------------------------------------------------------

    def _unmark(self) -> None:
        self.marked = set()

    def action_mark_move(self) -> None:
        """Mark the move under the cursor, or not any more; the cursor goes on to the next."""
        index = self.view.selected
        if index is None:
            self.say("Which move? Esc leads back to them.")
            return
        self.marked ^= {index}
        self.step(1)

    def action_pause_run(self) -> None:
        self._requests.pause(self.shown)

    def action_faster(self) -> None:
        self._requests.change_rate(self.shown, 1)

    def action_slower(self) -> None:
        self._requests.change_rate(self.shown, -1)

    def action_cancel_run(self) -> None:
        self._requests.cancel(self.shown)

    def action_cancel_one(self) -> None:
        self._requests.cancel_moves(self.shown, self.view.meant)

    def action_skip_move(self) -> None:
        self._requests.skip_moves(self.shown, self.view.meant)

    def action_retarget_move(self) -> None:
        self._requests.retarget_moves(self.shown, self.view.meant)

    def action_recover_run(self) -> None:
        self._requests.recover(self.shown)

    def action_retry_move(self) -> None:
        """Queue moves of a run in progress again; one that has ended is tried again as a whole."""
        view = self.view
        if view.ended is None:
            self._requests.retry_moves(view.run, view.meant)
        else:
            run = view.run
            marked = [run.moves[index].tp for index in view.marked] if run is not None else []
            self._requests.follow_up(view.ended, FollowUp.RETRY, marked)

    def action_roll_back(self) -> None:
        view = self.view
        if view.ended is None:
            self._requests.roll_back(view.run)
        else:
            self._requests.follow_up(view.ended, FollowUp.ROLLBACK)

    def action_export(self) -> None:
        run = self.shown
        if run is None:
            self.say("No run is open: nothing to export.")
        else:
            export_report(self, run)

    def copy_text(self) -> str | None:
        """Return the run's report as Markdown, or the command that follows it while it goes on."""
        run = self.shown
        if run is None:
            return None
        if self.mode is MovesMode.REPORT:
            return self._report
        return f"trimtab runs {'show' if run.state.ended else 'attach'} {run.run}"

    @property
    def can_filter(self) -> bool:
        return self.mode is MovesMode.LOG

    def filter_by(self, words: str) -> None:
        self.words, self._skipped = words, 0
        self.show(self.session)


def _within(at: int, count: int) -> int:
    return min(max(at, 0), max(count - 1, 0)) if at < EDGE else max(count - 1, 0)
