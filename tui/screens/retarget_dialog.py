"""Another destination for one move of a run: brokers to choose from, illegal ones said why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Label, Static

from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.check import check_plan
from core.plan.findings import Severity
from core.plan.plan import Move, Plan
from core.run.tell.view import MoveProgress
from core.units import format_bytes
from tui.screens.ask import Dialog
from tui.widgets.lines import (
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    fit,
    highlighted,
    left,
    window,
    wrapped,
)
from tui.widgets.page import text_of_lines

if TYPE_CHECKING:
    from tui.app import TrimtabApp

OWN = ("stale", "foreign-move", "load-unknown", "size-unknown")
"""Findings that only say that the run itself is moving the partition."""
ROWS = 10


@dataclass(frozen=True, slots=True)
class Choice:
    """One broker that the move might go to: why it may not, or what is doubtful of it."""

    broker: int
    rack: str | None
    after: tuple[int, ...]
    refused: str = ""
    doubt: str = ""


def choices_of(
    state: ClusterState, load: Load, move: MoveProgress, instead_of: int
) -> tuple[Choice, ...]:
    """Return all brokers as targets in place of `instead_of`, the legal ones first."""
    found = []
    for broker in state.brokers:
        after = tuple(broker.id if b == instead_of else b for b in move.after)
        refused, doubt = "", ""
        if broker.id == instead_of:
            refused = "it goes there already"
        elif broker.id in move.after:
            refused = "holds a replica already"
        elif broker.id in move.before:
            refused = "comes from there: cancel it instead"
        elif not broker.alive:
            refused = "is down"
        else:
            plan = Plan(state.cluster_id, (Move(move.tp, move.before, after),))
            for finding in check_plan(state, load, plan):
                if finding.id in OWN:
                    continue
                if finding.severity is Severity.ILLEGAL:
                    refused = finding.sentence
                elif finding.severity is Severity.UNSAFE and not doubt:
                    doubt = finding.sentence
        found.append(Choice(broker.id, broker.rack, after, refused, doubt))
    return tuple(sorted(found, key=lambda c: (bool(c.refused), bool(c.doubt), c.broker)))


def leaving(state: ClusterState, move: MoveProgress) -> int | None:
    """Return which destination another one would stand in for: one that is down before others."""
    alive = {broker.id for broker in state.brokers if broker.alive}
    adding = [b for b in move.after if b not in move.before]
    return next((b for b in adding if b not in alive), adding[0] if adding else None)


class RetargetDialog(Dialog[tuple[int, ...] | None]):
    """Returns the replicas that the move is to have instead, None when it was left."""

    BINDINGS = [
        ("escape", "leave", "Back"),
        ("left", "app.focus_previous"),
        ("right", "app.focus_next"),
    ]
    KEYS = {"up": -1, "k": -1, "down": 1, "j": 1}

    def __init__(self, move: MoveProgress, instead_of: int, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._progress, self._instead_of, self._choices = move, instead_of, choices
        self._legal = sum(not choice.refused for choice in choices)
        self._at = 0

    def compose(self) -> ComposeResult:
        move = self._progress
        with Vertical(classes="dialog"):
            title = f"Another destination for {move.tp}, instead of b{self._instead_of}"
            yield Label(title, classes="title", markup=False)
            yield Static(id="table")
            with Horizontal(classes="buttons"):
                yield Button("Keep it", id="no", compact=True)
                yield Button("Retarget", id="yes", compact=True, disabled=not self._legal)

    def on_mount(self) -> None:
        self.query_one("#no").focus()
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        app = cast("TrimtabApp", self.app)
        width = min(78, int(self.size.width * 0.96)) - 6
        text = text_of_lines(self._lines(width), app.palette, app.glyphs, ground="panel")
        self.query_one("#table", Static).update(text)

    def _lines(self, width: int) -> Lines:
        lost = format_bytes(self._progress.moved_bytes)
        lines: list[Line] = []
        rows = min(ROWS, max(self.size.height - 13, 3))
        for i in window(len(self._choices), rows, self._at):
            lines.append(self._line(self._choices[i], i == self._at and self._legal > 0, width))
        if not self._legal:
            lines += [(), fit((Span("No other broker may take it.", Tone.LOOK),), width)]
        words = f"It is taken back, then moved there: {lost} that were copied are dropped."
        return (*lines, (), *(fit((dim(part),), width) for part in wrapped(words, width)))

    def _line(self, choice: Choice, chosen: bool, width: int) -> Line:
        name = left(f"b{choice.broker}", 7)
        rack = dim(left(f"rack {choice.rack}" if choice.rack else "", 14))
        if choice.refused:
            return fit((dim(f"  {name}"), rack, dim(f"✗ {choice.refused}")), width)
        doubt = Span(f"▲ {choice.doubt}", Tone.LOOK) if choice.doubt else Span("√", Tone.FINE)
        mark = Span("▸ " if chosen else "  ", Tone.YOURS, bold=True)
        line: Line = (mark, bright(name) if chosen else Span(name), rack, doubt)
        return highlighted(line, width) if chosen else fit(line, width)

    # -- keys ------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        step = self.KEYS.get(event.key)
        if step is not None:
            event.stop()
            event.prevent_default()
            self._at = min(max(self._at + step, 0), max(self._legal - 1, 0))
            self._draw()

    def action_leave(self) -> None:
        self.dismiss(None)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        chosen = self._choices[self._at].after if self._legal else None
        self.dismiss(chosen if event.button.id == "yes" else None)
