"""Boxes to tick in a dialog: a word, a sentence, and whether it holds."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.widget import Widget

from core.plan.checks.catalogue import Finding
from core.plan.estimate.estimate import Estimate
from core.plan.estimate.messages import apart_words
from core.run.journal.rates import Bounds
from core.units import counted, format_duration
from tui.moves.drawing.status import bounds_words


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

    @property
    def subject(self) -> str:
        """Return what stays the same of it while what it says changes."""
        return type(self).__name__

    def renew(self, other: Tick) -> bool:
        """Say what another of the same subject says; return whether it had to be unticked."""
        if self.sentence != other.sentence:
            self.sentence = other.sentence
            self.refresh(layout=True)
        return False

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
    """The findings of one check, that stand in the way until they are allowed by its id."""

    def __init__(self, *findings: Finding) -> None:
        self.finding, self.findings = findings[0], findings
        super().__init__(f"allow {self.finding.id}", " ".join(one.sentence for one in findings))

    @property
    def subject(self) -> str:
        return self.word

    def renew(self, other: Tick) -> bool:
        """Is not ticked any more once there is something that was not there to be read."""
        assert isinstance(other, Allow)
        super().renew(other)
        more = {one.about for one in other.findings} - {one.about for one in self.findings}
        self.finding, self.findings = other.finding, other.findings
        if more and self.ticked:
            self.turn(False)
            return True
        return False

    @property
    def allowed(self) -> bool:
        return self.ticked


class Adapt(Tick):
    """Whether the rate is to adapt itself (`--throttle auto`)."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__("adapt the rate", f"{bounds_words(bounds)}, by how long producers wait")
        self.bounds = bounds

    def renew(self, other: Tick) -> bool:
        """Keep the bounds that were ticked."""
        assert isinstance(other, Adapt)
        if not self.ticked:
            self.bounds = other.bounds
            super().renew(other)
        return False


class Elect(Tick):
    """Whether preferred leaders are elected at the end (`--elect`): who stays leads on without."""

    def __init__(self, leaders: int, *, ticked: bool) -> None:
        change = "changes" if leaders == 1 else "change"
        super().__init__("elect leaders", f"{counted(leaders, 'leader')} {change} at the end")
        self.ticked = ticked


class PauseIfRemoved(Tick):
    """Whether the run pauses when its throttles are taken away time and again.

    It is `--if-throttles-removed pause`; unticked is `hold`.
    """

    def __init__(self, *, ticked: bool) -> None:
        super().__init__("pause if throttles are removed", "else moves wait to hold the rate")
        self.ticked = ticked


class Spare(Tick):
    """Whether brokers that need less of the rate are to get less (`--within` does that, too)."""

    def __init__(self, estimate: Estimate) -> None:
        takes = format_duration(estimate.seconds)
        super().__init__("spare brokers", f"{apart_words(estimate.apart)} Then it takes {takes}.")
        self.estimate = estimate

    def renew(self, other: Tick) -> bool:
        """Take another time; rates that were ticked stay those that were read."""
        assert isinstance(other, Spare)
        if not self.ticked or other.estimate.apart == self.estimate.apart:
            self.estimate = other.estimate
            super().renew(other)
        return False
