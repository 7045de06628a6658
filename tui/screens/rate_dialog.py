"""Slower or faster: the throttle table of what is still to be moved, and the rate chosen in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Button, Label, Static

from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.plan import Move, Plan
from core.run.tell.view import MoveState, RunView
from core.units import UNLIMITED, format_duration, format_rate
from tui.screens.ask import Dialog
from tui.study import Study, study
from tui.widgets.lines import Line, Lines, Span, Tone, bright, dim, fit, plain, wrapped
from tui.widgets.page import text_of_lines
from tui.widgets.throttle_table import throttle_lines

if TYPE_CHECKING:
    from tui.app import TrimtabApp

DUE = (MoveState.QUEUED, MoveState.MOVING, MoveState.STUCK)
ROWS = 9
EDGE = 10**9


def rest_of(run: RunView) -> Plan:
    """Return what the run still has to move, as a plan."""
    return Plan(
        run.cluster_id,
        tuple(Move(m.tp, m.before, m.after) for m in run.moves if m.state in DUE),
    )


class RateDialog(Dialog[int | None]):
    """Returns the rate chosen in bytes/s, None when it was left. `step` is -1 slower, 1 faster."""

    BINDINGS = [
        ("escape", "leave", "Back"),
        ("left", "app.focus_previous"),
        ("right", "app.focus_next"),
    ]
    KEYS = {"up": -1, "k": -1, "minus": -1, "down": 1, "j": 1, "plus": 1, "g": -EDGE, "G": EDGE}

    class Studied(Message):
        """A worker knows what is left at each rate."""

        def __init__(self, study: Study) -> None:
            super().__init__()
            self.study = study

    def __init__(self, run: RunView, state: ClusterState, load: Load, step: int) -> None:
        super().__init__()
        self._run, self._state, self._load = run, state, load
        self._steps = [step]
        self._study: Study | None = None
        self._at = 0

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(f"Throttle of run {self._run.run}", classes="title", markup=False)
            yield Static(id="table")
            with Horizontal(classes="buttons"):
                yield Button("Keep it", id="no", compact=True)
                yield Button("Change", id="yes", compact=True, disabled=True)

    def on_mount(self) -> None:
        self.query_one("#no").focus()
        plan, rate = rest_of(self._run), self._run.rate_bytes_per_s

        def work() -> None:
            self.post_message(self.Studied(study(self._state, self._load, plan, rate)))

        self.run_worker(work, thread=True, group="study")
        self._draw()

    def on_rate_dialog_studied(self, message: Studied) -> None:
        self._study = message.study
        self._at = message.study.row_of(self._run.rate_bytes_per_s)
        for step in self._steps:
            self._move(step)
        self._draw()

    @property
    def chosen(self) -> int | None:
        """Return the rate under the cursor; None when it changes nothing or never ends."""
        if self._study is None or not self._study.table:
            return None
        estimate = self._study.table[self._at]
        rate = estimate.rate_bytes_per_s
        usable = estimate.never is None and rate not in (self._run.rate_bytes_per_s, UNLIMITED)
        return rate if usable else None

    # -- drawing ---------------------------------------------------------------------------------

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        app = cast("TrimtabApp", self.app)
        width = min(78, int(self.size.width * 0.96)) - 6
        text = text_of_lines(self._lines(width), app.palette, app.glyphs, ground="panel")
        self.query_one("#table", Static).update(text)
        button = self.query_one("#yes", Button)
        button.disabled = self.chosen is None
        if not button.disabled:
            button.focus()

    def _lines(self, width: int) -> Lines:
        run = self._run
        limit = format_rate(run.rate_bytes_per_s)
        now: Line = (
            dim("now  "),
            plain(f"{limit} a side   "),
            bright(f"{format_duration(run.left_seconds)} left"),
        )
        if self._study is None:
            return (fit(now, width), (), fit((dim("estimating what is left at each rate"),), width))
        found = self._study
        if not found.table:
            return (fit(now, width), (), fit((dim("what is left is not known"),), width))
        table = throttle_lines(found.table, found.crowds, self._at, width, ROWS, focused=True)
        return (fit(now, width), (), *table, (), *self._meaning(width))

    def _meaning(self, width: int) -> Lines:
        """Say what the rate under the cursor would do."""
        assert self._study is not None
        estimate, crowd = self._study.table[self._at], self._study.crowds[self._at]
        rate = estimate.rate_bytes_per_s
        if estimate.never is not None:
            words = f"never: {estimate.never}"
            return tuple((Span(part, Tone.ACT),) for part in wrapped(words, width)[:2])
        if rate == self._run.rate_bytes_per_s:
            return ((dim("as it is: up is slower, down is faster"),),)
        if rate == UNLIMITED:
            return ((dim("a run in progress keeps its throttles"),),)
        how = "raised step by step" if rate > self._run.rate_bytes_per_s else "lowered at once"
        left = format_duration(estimate.seconds)
        said: list[Line] = [(bright(f"about {left} left"), dim(f" at {format_rate(rate)}, {how}"))]
        if crowd is not None:
            words = f"▲ b{crowd.broker} comes to {crowd.fraction:.0%} of its capacity"
            said.append((Span(words, Tone.LOOK),))
        return tuple(fit(line, width) for line in said)

    # -- keys ------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        step = self.KEYS.get(event.key)
        if step is None:
            return
        event.stop()
        event.prevent_default()
        if self._study is None:
            self._steps.append(step)
        else:
            self._move(step)
            self._draw()

    def _move(self, step: int) -> None:
        assert self._study is not None
        self._at = min(max(self._at + step, 0), max(len(self._study.table) - 1, 0))

    def action_leave(self) -> None:
        self.dismiss(None)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(self.chosen if event.button.id == "yes" else None)
