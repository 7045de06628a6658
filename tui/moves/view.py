"""What the Moves show, as a value: a run, the list of runs, or moves of others. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from core.run.external.moves import ForeignMove
from core.run.reporting.views import MoveStatus, RunStatus, RunSummary, RunView
from tui.drawing.spans import Lines
from tui.moves.drawing.batches import batches_lines
from tui.moves.drawing.external import foreign_page
from tui.moves.drawing.log import log_lines
from tui.moves.drawing.report import report_lines
from tui.moves.drawing.rows import sort_moves
from tui.moves.drawing.run import run_lines
from tui.moves.drawing.runs import runs_lines
from tui.moves.drawing.status import accepts_requests, is_paused

RETRIABLE = (MoveStatus.FAILED, MoveStatus.CANCELLED, MoveStatus.SKIPPED)


class MovesMode(Enum):
    """What the screen shows."""

    RUN = "run"
    BATCHES = "batches"
    LOG = "log"
    REPORT = "report"
    RUNS = "runs"
    OTHERS = "others"


RUN_MODES = (MovesMode.RUN, MovesMode.BATCHES, MovesMode.LOG, MovesMode.REPORT)


@dataclass(frozen=True, eq=False, slots=True)
class MovesView:
    """What is shown, and where the cursor is in it."""

    mode: MovesMode
    run: RunView | None
    """The run on the screen; None when something else is there."""
    newest: RunView | None
    external: tuple[ForeignMove, ...]
    """Moves in flight that no run of this machine is carrying out."""
    runs: tuple[RunSummary, ...] | None
    """All runs of the cluster; None until they were read."""
    row: int
    """The run under the cursor of the list."""
    move: int | None
    """The index of the move that was chosen; None for the first one."""
    marked: Collection[int]
    batch: int | None
    """The batch that was chosen; None for the one under way."""
    report: str
    skipped: int
    """How far the log, or the report, is scrolled."""
    words: str
    """The log's filter."""
    typing: bool

    @property
    def selected(self) -> int | None:
        """Return the index of the move under the cursor; None while no moves are shown."""
        if self.run is None or not self.run.moves or self.mode is not MovesMode.RUN:
            return None
        order = sort_moves(self.run.moves)
        return self.move if self.move in order else order[0]

    @property
    def meant(self) -> list[int]:
        """Return which moves are meant: those marked, else the one under the cursor."""
        selected = self.selected
        return [] if selected is None else sorted(self.marked) or [selected]

    @property
    def listed(self) -> RunSummary | None:
        """Return the run under the cursor of the list; None while no list is shown."""
        if self.mode is not MovesMode.RUNS or not self.runs:
            return None
        return self.runs[min(self.row, len(self.runs) - 1)]

    @property
    def ended(self) -> str | None:
        """Return the ended run that is shown, or under the cursor of the list."""
        if self.run is not None:
            return None if accepts_requests(self.run) else self.run.run
        listed = self.listed
        if listed is None or not listed.state.ended or listed.state is RunStatus.DIED:
            return None
        return listed.run

    def lines(self, now: datetime, width: int, height: int) -> Lines:
        """Return the whole page."""
        run = self.run
        if self.mode is MovesMode.OTHERS:
            return foreign_page(self.external, width, height)
        if run is None:
            return runs_lines(self.runs, len(self.external), self.row, now, width, height)
        match self.mode:
            case MovesMode.BATCHES:
                return batches_lines(run, self.batch, width, height)
            case MovesMode.LOG:
                return log_lines(run, self.words, self.skipped, width, height, typing=self.typing)
            case MovesMode.REPORT:
                return report_lines(self.report, self.skipped, width, height)
            case _:
                return run_lines(run, self.move, width, height, self.marked)

    def footer_words(self) -> dict[str, str]:
        """Return what the footer calls actions at the moment; "" leaves one out."""
        run, mode = self.run, self.mode
        moving = mode is MovesMode.RUN
        words = {"runs": "back" if mode is MovesMode.RUNS else "runs"}
        if self.newest is None and mode is MovesMode.RUNS:
            words["runs"] = ""
        ended = run is not None and run.state.ended
        words["enter"] = "open" if mode is MovesMode.RUNS and self.runs else ""
        if moving and ended:
            words["enter"] = "report"
        words["batches"] = "" if run is None else "run" if mode is MovesMode.BATCHES else "batches"
        words["log"] = "" if run is None else "run" if mode is MovesMode.LOG else "log"
        words["others"] = "others" if self.external and mode is not MovesMode.OTHERS else ""
        exports = run is not None and (ended or mode is MovesMode.REPORT)
        words["export"] = "export…" if exports else ""
        words["filter"] = "filter" if mode is MovesMode.LOG else ""
        asks = ("pause_run", "faster", "cancel_run", "cancel_one", "mark_move")
        if run is None or not accepts_requests(run) or not moving:
            words |= dict.fromkeys(asks, "")
        elif is_paused(run):
            words["pause_run"] = "resume"
        if self.marked and moving:
            words["cancel_one"] = f"cancel {len(self.marked)}…"
        if run is None or run.state is not RunStatus.DIED:
            words["recover_run"] = ""
        return words | self._followup_words()

    def _followup_words(self) -> dict[str, str]:
        """Return the words for trying again and rolling back, where there is what to."""
        run, listed = self.run, self.listed
        if run is not None and accepts_requests(run):
            meant = self.marked or self.meant
            retriable = any(run.moves[index].state in RETRIABLE for index in meant)
            return {
                "retry_move": "try again" if retriable else "",
                "roll_back": "roll back…" if self.mode is MovesMode.RUN else "",
            }
        undone = away = 0
        if run is not None:
            undone, away = run.undone, run.moved_away
        elif listed is not None and self.ended is not None:
            undone, away = listed.moves - listed.done, listed.moved_away
        return {
            "retry_move": "try again…" if undone else "",
            "roll_back": "roll back…" if away else "",
        }
