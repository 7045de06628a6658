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
from tui.moves.drawing.batches import batches_lines, batches_of, now_at
from tui.moves.drawing.external import foreign_page
from tui.moves.drawing.log import log_lines, matching
from tui.moves.drawing.report import report_lines, whole
from tui.moves.drawing.rows import MoveHit, in_order
from tui.moves.drawing.run import run_lines
from tui.moves.drawing.runs import RunHit, runs_lines
from tui.moves.drawing.status import goes_on, is_paused
from tui.moves.followup import RunAgain
from tui.moves.history import RunHistory
from tui.screen.list_screen import EDGE, CursorKeys, Filtering
from tui.screen.services import InFlight
from tui.session import Session


class Sight(Enum):
    """What the screen shows."""

    RUN = "run"
    BATCHES = "batches"
    LOG = "log"
    REPORT = "report"
    RUNS = "runs"
    OTHERS = "others"


OF_A_RUN = (Sight.RUN, Sight.BATCHES, Sight.LOG, Sight.REPORT)


class MovesScreen(CursorKeys, Filtering, RunHistory, RunAgain):
    """The newest run, another one that was opened, the list of them, or others' moves."""

    PLACE = MOVES
    BINDINGS = bindings_of(MOVES)

    def __init__(self) -> None:
        super().__init__()
        self._sight: Sight | None = None
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
    def sight(self) -> Sight:
        """Return what is shown: what was asked for, else a run in progress before all else."""
        run = self.session.run
        if self._sight is not None and (self._sight not in OF_A_RUN or self._other or run):
            return self._sight
        if run is not None and goes_on(run):
            return Sight.RUN
        if self.session.others:
            return Sight.OTHERS
        return Sight.RUNS if run is None else Sight.RUN

    @property
    def shown(self) -> RunView | None:
        """Return the run on the screen; None when something else is there."""
        return (self._other or self.session.run) if self.sight in OF_A_RUN else None

    @property
    def selected(self) -> int | None:
        run = self.shown
        if run is None or not run.moves or self.sight is not Sight.RUN:
            return None
        order = in_order(run.moves)
        return self._move if self._move in order else order[0]

    def show_body(self, session: Session) -> None:
        page = self.query_one("#moves-page", Page)
        name = self.shown.run if self.shown else ""
        if name != self._marked_of:
            self._marked_of, self.marked = name, set()
        lines = self._lines(session, page.size.width, page.size.height)
        page.show(lines, self.palette, self.glyphs)

    def _lines(self, session: Session, width: int, height: int) -> Lines:
        run, sight = self.shown, self.sight
        if sight is Sight.OTHERS:
            return foreign_page(session.others, width, height)
        if run is None:
            self.have_listed(session)
            now = datetime.now(UTC)
            return runs_lines(self._runs, len(session.others), self._row, now, width, height)
        match sight:
            case Sight.BATCHES:
                return batches_lines(run, self._batch, width, height)
            case Sight.LOG:
                return log_lines(run, self._words, self._skipped, width, height, typing=self.typing)
            case Sight.REPORT:
                return report_lines(self._report, self._skipped, width, height)
            case _:
                return run_lines(run, self._move, width, height, self.marked)

    def footer_words(self) -> Mapping[str, str]:
        run, sight = self.shown, self.sight
        words = {"runs": "back" if sight is Sight.RUNS else "runs"}
        if self.session.run is None and sight is Sight.RUNS:
            words["runs"] = ""
        ended = run is not None and run.state.ended
        words["enter"] = "open" if sight is Sight.RUNS and self._runs else ""
        if sight is Sight.RUN and ended:
            words["enter"] = "report"
        words["batches"] = "" if run is None else "run" if sight is Sight.BATCHES else "batches"
        words["log"] = "" if run is None else "run" if sight is Sight.LOG else "log"
        words["others"] = "others" if self.session.others and sight is not Sight.OTHERS else ""
        words["export"] = "export…" if run is not None and (ended or sight is Sight.REPORT) else ""
        words["filter"] = "filter" if sight is Sight.LOG else ""
        asks = ("pause_run", "faster", "cancel_run", "cancel_one", "mark_move")
        if run is None or not goes_on(run) or sight is not Sight.RUN:
            words |= dict.fromkeys(asks, "")
        elif is_paused(run):
            words["pause_run"] = "resume"
        if self.marked and sight is Sight.RUN:
            words["cancel_one"] = f"cancel {len(self.marked)}…"
        words |= self.following_words(moving=sight is Sight.RUN)
        if run is None or run.state is not RunStatus.DIED:
            words["recover_run"] = ""
        return words

    # -- moving about ----------------------------------------------------------------------------

    def step(self, rows: int) -> None:
        run = self.shown
        match self.sight:
            case Sight.RUNS:
                self._row = _within(self._row + rows, len(self._runs or ()))
            case Sight.RUN if run is not None and run.moves:
                order = in_order(run.moves)
                at = order.index(self._move) if self._move in order else 0
                self._move = order[_within(at + rows, len(order))]
            case Sight.BATCHES if run is not None:
                batches = batches_of(run.moves)
                at = now_at(batches) if self._batch is None else self._batch
                self._batch = _within(at + rows, len(batches))
            case Sight.LOG if run is not None:
                self._skipped = _within(
                    self._skipped + rows, len(matching(run.events, self._words))
                )
            case Sight.REPORT:
                page = self.query_one("#moves-page", Page)
                lines = len(whole(self._report, page.size.width))
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

    def _turn(self, sight: Sight | None) -> None:
        self._sight, self._skipped, self._batch = sight, 0, None
        self._words, self.typing = "", False
        self.show(self.session)

    def action_log(self) -> None:
        self._toggle(Sight.LOG)

    def action_batches(self) -> None:
        self._toggle(Sight.BATCHES)

    def _toggle(self, sight: Sight) -> None:
        if self.sight is sight:
            self._turn(Sight.RUN)
        elif self.shown is None:
            self.say("No run is open: enter opens one.")
        else:
            self._turn(sight)

    def action_others(self) -> None:
        if not self.session.others:
            state = self.session.state
            unknown = state.moves_unknown if state is not None else ""
            self.say(unknown or "Nothing of somebody else's is in flight.")
        else:
            self._turn(None if self.sight is Sight.OTHERS else Sight.OTHERS)

    def action_runs(self) -> None:
        listing = self.sight is Sight.RUNS
        self._other = None
        self._turn(None if listing else Sight.RUNS)

    def action_back(self) -> None:
        if self.marked and self.sight is Sight.RUN:
            self.marked = set()
            self.show(self.session)
        elif self.sight is Sight.REPORT and self._other is not None:
            self._other = None
            self._turn(Sight.RUNS)
        elif self.sight in (Sight.LOG, Sight.BATCHES, Sight.REPORT):
            self._turn(Sight.RUN)
        else:
            self._other = None
            self._turn(None)

    @property
    def listed(self) -> RunSummary | None:
        if self.sight is not Sight.RUNS or not self._runs:
            return None
        return self._runs[min(self._row, len(self._runs) - 1)]

    def started(self, run: str) -> None:
        self._other = self._move = None
        self._turn(Sight.RUN)
        self.say(f"Run {run} has been started.", "fine")

    def on_in_flight(self, message: InFlight) -> None:
        if message.started is not None:
            self.started(message.started)
        else:
            self._other = None
            self._turn(None)

    def action_enter(self) -> None:
        run = self.shown
        if self.sight is Sight.RUNS and self._runs:
            self.open_run(self._runs[self._row].run)
        elif self.sight is Sight.RUN and run is not None and run.state.ended:
            self.read(run.run)

    def open_run(self, run: str) -> None:
        """Open a run of the list: one that goes on as it goes, one that has ended as its report."""
        newest = self.session.run
        if newest is not None and run == newest.run and not newest.state.ended:
            self._other = None
            self._turn(Sight.RUN)
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
        self._turn(Sight.REPORT if ended else Sight.RUN)

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
        if self.sight is Sight.REPORT:
            return self._report
        return f"trimtab runs {'show' if run.state.ended else 'attach'} {run.run}"

    # -- filtering the log -----------------------------------------------------------------------

    @property
    def words(self) -> str:
        return self._words

    @property
    def can_filter(self) -> bool:
        return self.sight is Sight.LOG

    def filter_by(self, words: str) -> None:
        self._words, self._skipped = words, 0
        self.show(self.session)


def _within(at: int, count: int) -> int:
    return min(max(at, 0), max(count - 1, 0)) if at < EDGE else max(count - 1, 0)
