"""The rate dialog: the throttle table of the remaining moves, and the rate chosen in it."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.widgets import Button

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.plan import Plan
from core.run.journal.rates import RateBounds
from core.run.reporting.views import DUE, RunView
from core.run.throttles.adaptive_rate import usual_bounds
from core.units import UNLIMITED, format_duration, format_rate
from tui.drawing.spans import (
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    highlight_line,
    plain,
    right,
    wrap_text,
)
from tui.moves.drawing.status import accepts_requests
from tui.moves.questions import RunTableDialog
from tui.plan.assessment import Picture, PlanAssessment, assess_plan, is_similar
from tui.plan.drawing.throttle_table import bounds_words, throttle_lines
from tui.screen.list_screen import EDGE
from tui.session import Session

ROWS = 9


def remaining_plan(run: RunView) -> Plan:
    """Return what the run still has to move, as a plan."""
    return Plan(run.cluster_id, tuple(m.as_move() for m in run.moves if m.state in DUE))


class RateDialog(RunTableDialog[int | RateBounds, tuple[PlanAssessment, RateBounds]]):
    """Returns the rate chosen in bytes/s, or bounds to adapt it in; `step` 1 is faster."""

    KEYS = {"up": -1, "k": -1, "minus": -1, "down": 1, "j": 1, "plus": 1, "g": -EDGE, "G": EDGE}
    UNKNOWN = "What is left"

    def __init__(self, run: RunView, state: ClusterState, load: Load, step: int) -> None:
        super().__init__("Change")
        self._run, self._state, self._load = run, state, load
        self._steps = [step]
        self._looked_at: tuple[Picture, Plan] | None = None
        """What was last asked to be assessed."""
        self._assessment: PlanAssessment | None = None
        self._bounds: RateBounds | None = None
        self._adapt = False
        self._at = 0

    @property
    def _title(self) -> str:
        return f"Throttle of run {self._run.run}"

    def on_mount(self) -> None:
        self._have_assessed()

    def follow(self, session: Session) -> None:
        """Go with the run and the cluster: what is left, at each rate, and whether it goes on."""
        run = session.run
        if run is not None and run.run == self._run.run:
            self._run = run
        if session.state is not None and session.load is not None:
            self._state, self._load = session.state, session.load
        self._read_only = session.read_only_words
        if accepts_requests(self._run):
            self._have_assessed()
        self.draw()

    def _have_assessed(self) -> None:
        run, state, load, plan = self._run, self._state, self._load, remaining_plan(self._run)
        assessed = self._looked_at
        if (
            assessed is not None
            and assessed[1] == plan
            and is_similar(assessed[0], (state, load), plan)
        ):
            return

        def work(go_on: Callable[[], None]) -> tuple[PlanAssessment, RateBounds]:
            bounds = run.bounds or usual_bounds(state, load, plan, run.rate_bytes_per_s)
            assessment = assess_plan(state, load, plan, run.rate_bytes_per_s, go_on=go_on)
            return assessment, bounds

        # One plan to whom it asks: that a move has ended is no reason to begin once more.
        if self._assessing.ask(Plan(), run.rate_bytes_per_s, work):
            self._looked_at = (state, load), plan

    def take(self, outcome: tuple[PlanAssessment, RateBounds]) -> None:
        """Take what is left at each rate; the rate that was chosen stays chosen."""
        before = self._assessment
        rate = self._run.rate_bytes_per_s
        if before is not None:
            rate = before.rates[self._at]
        (self._assessment, self._bounds), self._failed = outcome, ""
        self._at = self._assessment.row_of(rate)
        if before is None:
            for step in self._steps:
                self._move(step)
        self.draw()
        if before is None:
            self._focus_change_button()

    @property
    def chosen(self) -> int | RateBounds | None:
        """Return what was chosen; None when it changes nothing or never ends."""
        if self._failed or self._refused:
            return None
        if self._adapt:
            return None if self._run.bounds else self._bounds
        if self._assessment is None:
            return None
        estimate = self._assessment.rows[self._at].estimate
        rate = estimate.rate_bytes_per_s
        as_it_is = self._run.bounds is None and rate == self._run.rate_bytes_per_s
        usable = estimate.never is None and rate != UNLIMITED and not as_it_is
        return rate if usable else None

    @property
    def _refused(self) -> str:
        """Return why nothing can be changed, whatever is chosen; "" where it can."""
        if accepts_requests(self._run):
            return self._read_only
        ended = f"The run has ended ({self._run.state.value})"
        return f"{ended}: there is nothing to change any more."

    def _focus_change_button(self) -> None:
        """Have enter change it from now on, where there is something to change."""
        button = self.query_one("#yes", Button)
        if not button.disabled:
            button.focus()

    def table(self, width: int) -> Lines:
        run = self._run
        if why := self._refused:
            return tuple((Span(part, Tone.LOOK),) for part in wrap_text(why, width, 2))
        limit = f"{format_rate(run.rate_bytes_per_s)} a side"
        if run.bounds is not None:
            limit = f"adaptive, {bounds_words(run.bounds)}"
        now: Line = (
            dim("now  "),
            plain(f"{limit}   "),
            bright(f"{format_duration(run.left_seconds)} left"),
        )
        if self._failed:
            words = wrap_text(self._failed, width, 3)
            return (now, (), *((Span(part, Tone.ACT),) for part in words))
        if self._assessment is None:
            return (now, (), (dim("estimating what is left at each rate"),))
        assessment = self._assessment
        at = -1 if self._adapt else self._at
        rows = min(ROWS, max(self.size.height - 12, 3))
        table = throttle_lines(assessment.table, at, width, rows, focused=True)
        return (now, (), *table, self._adaptive_line(width), (), *self._rate_effect_lines(width))

    def _adaptive_line(self, width: int) -> Line:
        assert self._bounds is not None
        mark = Span("▸ " if self._adapt else "  ", Tone.YOURS, bold=True)
        word = Span(right("adaptive", 10), Tone.YOURS if self._adapt else Tone.PLAIN, self._adapt)
        line: Line = (
            mark,
            word,
            plain(f"   {bounds_words(self._bounds)}   "),
            Span("a", Tone.YOURS, bold=True),
            dim(" adapts it"),
        )
        return highlight_line(line, width) if self._adapt else line

    def _rate_effect_lines(self, width: int) -> Lines:
        """Say what the rate under the cursor would do."""
        assert self._assessment is not None
        if self._adapt:
            words = "as it is" if self._run.bounds else "each broker by how long its producers wait"
            return ((dim(words),),)
        estimate = self._assessment.rows[self._at].estimate
        rate = estimate.rate_bytes_per_s
        if estimate.never is not None:
            words = f"never: {estimate.never}"
            return tuple((Span(part, Tone.ACT),) for part in wrap_text(words, width, 2))
        if rate == self._run.rate_bytes_per_s and self._run.bounds is None:
            return ((dim("as it is: up is slower, down is faster"),),)
        if rate == UNLIMITED:
            return ((dim("a run in progress keeps its throttles"),),)
        how = "raised step by step" if rate > self._run.rate_bytes_per_s else "lowered at once"
        if self._run.bounds is not None:
            how = "adaptive no longer"
        left = format_duration(estimate.seconds)
        lines: list[Line] = [(bright(f"about {left} left"), dim(f" at {format_rate(rate)}, {how}"))]
        if (crowd := estimate.near_capacity) is not None:
            words = f"▲ b{crowd.broker} comes to {crowd.fraction:.0%} of its capacity"
            lines.append((Span(words, Tone.LOOK),))
        return tuple(lines)

    def on_key(self, event: events.Key) -> None:
        if event.key == "a" and self._bounds is not None:
            event.stop()
            self._adapt = not self._adapt
            self.draw()
            self._focus_change_button()

    def step(self, rows: int) -> None:
        if self._assessment is None:
            self._steps.append(rows)
        else:
            self._move(rows)
            self.draw()
            self._focus_change_button()

    def _move(self, step: int) -> None:
        assert self._assessment is not None
        self._adapt = False
        self._at = min(max(self._at + step, 0), max(len(self._assessment.table) - 1, 0))
