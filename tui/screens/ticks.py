"""Boxes to tick in a dialog: a word, a sentence, and whether it holds."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.widget import Widget

from core.plan.estimate import Estimate
from core.plan.estimate_words import apart_words
from core.plan.findings import Finding
from core.run.limits.pace import Bounds
from core.units import counted, format_duration
from tui.widgets.run_state import bounds_words


class Tick(Widget, can_focus=True):
    """One box; space or enter turns it, and so does a click."""

    BINDINGS = [Binding("space,enter", "turn", "Turn")]
    DEFAULT_CSS = """
    Tick { height: auto; }
    Tick:focus { background: $secondary; text-style: bold; }
    .-plain Tick:focus { text-style: bold reverse; }
    """

    class Turned(Message):
        """It was ticked, or not any more."""

        def __init__(self, tick: Tick) -> None:
            super().__init__()
            self.tick = tick

    def __init__(self, word: str, sentence: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.word, self.sentence = word, sentence
        self.ticked = False

    def render(self) -> Text:
        box = "[x]" if self.ticked else "[ ]"
        return Text.assemble((f"{box} {self.word}", "bold"), f"  {self.sentence}")

    def turn(self, ticked: bool) -> None:
        """Tick it, or not; says so when that changes it."""
        if self.ticked is not ticked:
            self.ticked = ticked
            self.refresh()
            self.post_message(self.Turned(self))

    def action_turn(self) -> None:
        self.turn(not self.ticked)

    def on_click(self, event: events.Click) -> None:
        self.focus()
        self.action_turn()


class Allow(Tick):
    """One finding that stands in the way until it is allowed."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"allow {finding.id}", finding.sentence)
        self.finding = finding

    @property
    def allowed(self) -> bool:
        return self.ticked


class Adapt(Tick):
    """Whether the rate is to adapt itself (`--throttle auto`)."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__("adapt the rate", f"{bounds_words(bounds)}, by how long producers wait")
        self.bounds = bounds


class Elect(Tick):
    """Whether preferred leaders are elected at the end (`--elect`): who stays leads on without."""

    def __init__(self, leaders: int, *, ticked: bool) -> None:
        change = "changes" if leaders == 1 else "change"
        super().__init__("elect leaders", f"{counted(leaders, 'leader')} {change} at the end")
        self.ticked = ticked


class Spare(Tick):
    """Whether brokers that need less of the rate are to get less (`--within` does that, too)."""

    def __init__(self, estimate: Estimate) -> None:
        takes = format_duration(estimate.seconds)
        super().__init__("spare brokers", f"{apart_words(estimate.apart)} Then it takes {takes}.")
        self.estimate = estimate
