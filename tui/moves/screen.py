"""The Moves: a run as it goes, with or without this screen; its batches, its log, its report.

Beside it the history of runs, and moves in flight that are somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum

from textual.widget import Widget

from core.run.reporting.views import RunStatus, RunSummary, RunView
from tui.actions.table import MOVES, bindings_of
from tui.dialogs.export import export_report
from tui.drawing.page import Page
from tui.drawing.spans import Lines
from tui.moves.drawing.batches import batches_lines, batches_of, current_batch
from tui.moves.drawing.external import foreign_page
from tui.moves.drawing.log import filter_events, log_lines
from tui.moves.drawing.report import all_report_lines, report_lines
from tui.moves.drawing.rows import MoveHit, sort_moves
from tui.moves.drawing.run import run_lines
from tui.moves.drawing.runs import RunHit, runs_lines
from tui.moves.drawing.status import accepts_requests, is_paused
from tui.moves.history import RunHistory
from tui.moves.retry_rollback import FollowupRuns
from tui.screen.list_screen import EDGE, CursorKeys, Filtering
from tui.screen.services import ShowInFlight
from tui.session import Session


class MovesMode(Enum):
    """What the screen shows."""

    RUN = "run"
    BATCHES = "batches"
    LOG = "log"
    REPORT = "report"
    RUNS = "runs"
    OTHERS = "others"


RUN_MODES = (MovesMode.RUN, MovesMode.BATCHES, MovesMode.LOG, MovesMode.REPORT)


class MovesScreen(CursorKeys, Filtering, RunHistory, FollowupRuns):
    """The newest run, another one that was opened, the list of them, or others' moves."""

    PLACE = MOVES
    BINDINGS = bindings_of(MOVES)

    def __init__(self) -> None:
        super().__init__()
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
        self._words = ""

    def compose_body(self) -> Iterable[Widget]:
        yield Page(id="moves-page")

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
    def selected(self) -> int | None:
        run = self.shown
        if run is None or not run.moves or self.mode is not MovesMode.RUN:
            return None
        order = sort_moves(run.moves)
        return self._move if self._move in order else order[0]

    def show_body(self, session: Session) -> None:
        page = self.query_one("#moves-page", Page)
        name = self.shown.run if self.shown else ""
        if name != self._marked_of:
            self._marked_of, self.marked = name, set()
        lines = self._lines(session, page.size.width, page.size.height)
        page.show(lines, self.palette, self.glyphs)

    def _lines(self, session: Session, width: int, height: int) -> Lines:
        run, mode = self.shown, self.mode
        if mode is MovesMode.OTHERS:
            return foreign_page(session.external_moves, width, height)
        if run is None:
            self.have_listed(session)
            now = datetime.now(UTC)
            return runs_lines(
                self._runs, len(session.external_moves), self._row, now, width, height
            )
        match mode:
            case MovesMode.BATCHES:
                return batches_lines(run, self._batch, width, height)
            case MovesMode.LOG:
                return log_lines(run, self._words, self._skipped, width, height, typing=self.typing)
            case MovesMode.REPORT:
                return report_lines(self._report, self._skipped, width, height)
            case _:
                return run_lines(run, self._move, width, height, self.marked)

    def footer_words(self) -> Mapping[str, str]:
        run, mode = self.shown, self.mode
        words = {"runs": "back" if mode is MovesMode.RUNS else "runs"}
        if self.session.run is None and mode is MovesMode.RUNS:
            words["runs"] = ""
        ended = run is not None and run.state.ended
        words["enter"] = "open" if mode is MovesMode.RUNS and self._runs else ""
        if mode is MovesMode.RUN and ended:
            words["enter"] = "report"
        words["batches"] = "" if run is None else "run" if mode is MovesMode.BATCHES else "batches"
        words["log"] = "" if run is None else "run" if mode is MovesMode.LOG else "log"
        words["others"] = (
            "others" if self.session.external_moves and mode is not MovesMode.OTHERS else ""
        )
        words["export"] = (
            "export…" if run is not None and (ended or mode is MovesMode.REPORT) else ""
        )
        words["filter"] = "filter" if mode is MovesMode.LOG else ""
        asks = ("pause_run", "faster", "cancel_run", "cancel_one", "mark_move")
        if run is None or not accepts_requests(run) or mode is not MovesMode.RUN:
            words |= dict.fromkeys(asks, "")
        elif is_paused(run):
            words["pause_run"] = "resume"
        if self.marked and mode is MovesMode.RUN:
            words["cancel_one"] = f"cancel {len(self.marked)}…"
        words |= self.following_words(moving=mode is MovesMode.RUN)
        if run is None or run.state is not RunStatus.DIED:
            words["recover_run"] = ""
        return words

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
                self._skipped = _within(
                    self._skipped + rows, len(filter_events(run.events, self._words))
                )
            case MovesMode.REPORT:
                page = self.query_one("#moves-page", Page)
                lines = len(all_report_lines(self._report, page.size.width))
                self._skipped = _within(self._skipped + rows, lines - page.size.height + 1)
            case _:
                return
        self.show(self.session)

    def on_page_turned(self, message: Page.Turned) -> None:
        self.step(message.steps)

    def on_page_hit(self, message: Page.Hit) -> None:
        match message.hit:
            case MoveHit(index):
                self._move = index
                self.show(self.session)
            case RunHit(run):
                self.open_run(run)

    def _turn(self, mode: MovesMode | None) -> None:
        self._sight, self._skipped, self._batch = mode, 0, None
        self._words, self.typing = "", False
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

    @property
    def listed(self) -> RunSummary | None:
        if self.mode is not MovesMode.RUNS or not self._runs:
            return None
        return self._runs[min(self._row, len(self._runs) - 1)]

    def started(self, run: str) -> None:
        self._other = self._move = None
        self._turn(MovesMode.RUN)
        self.say(f"Run {run} has been started.", "fine")

    def on_show_in_flight(self, message: ShowInFlight) -> None:
        if message.started is not None:
            self.started(message.started)
        else:
            self._other = None
            self._turn(None)

    def action_enter(self) -> None:
        run = self.shown
        if self.mode is MovesMode.RUNS and self._runs:
            self.open_run(self._runs[self._row].run)
        elif self.mode is MovesMode.RUN and run is not None and run.state.ended:
            self.read(run.run)

    def open_run(self, run: str) -> None:
        """Open a run of the list: one that goes on as it goes, one that has ended as its report."""
        newest = self.session.run
        if newest is not None and run == newest.run and not newest.state.ended:
            self._other = None
            self._turn(MovesMode.RUN)
        else:
            self.read(run)

    def on_run_history_listed(self, message: RunHistory.Listed) -> None:
        self._runs = message.runs
        self._row = min(self._row, max(len(message.runs) - 1, 0))
        self.show(self.session)

    def on_run_history_opened(self, message: RunHistory.Opened) -> None:
        newest, opened = self.session.run, message.run
        ended = opened.state.ended and opened.state is not RunStatus.DIED
        self._other = None if newest and newest.run == opened.run else opened
        self._report, self._move = message.report, None
        self._turn(MovesMode.REPORT if ended else MovesMode.RUN)

    # -- the report, out of here -----------------------------------------------------------------

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

    # -- filtering the log -----------------------------------------------------------------------

    @property
    def words(self) -> str:
        return self._words

    @property
    def can_filter(self) -> bool:
        return self.mode is MovesMode.LOG

    def filter_by(self, words: str) -> None:
        self._words, self._skipped = words, 0
        self.show(self.session)


def _within(at: int, count: int) -> int:
    return min(max(at, 0), max(count - 1, 0)) if at < EDGE else max(count - 1, 0)
