"""The dialog of drills: which faults can be injected and ended on a drill cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.widgets import Button, Static

from core.cluster.drills.drill import Drill, DrillKind, Offer
from core.cluster.state import ClusterState
from tui.dialogs.base import TableDialog, body, button
from tui.drawing.spans import (
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    highlight_line,
    left,
    wrap_text,
)
from tui.session import Session

WORDS: dict[DrillKind, tuple[str, str]] = {
    DrillKind.KILL: (
        "kill a broker",
        "It ends at once (SIGKILL), as in a power cut; replicas in sync take over what it led.",
    ),
    DrillKind.STOP: ("stop a broker", "In order: it hands over what it leads first."),
    DrillKind.START: (
        "start it again",
        "It catches up and joins the ISRs; what it led is led by others until an election.",
    ),
    DrillKind.JOIN: ("add a consumer", "One more member: the group shares its partitions anew."),
    DrillKind.LEAVE: ("take one away", "It leaves, and the group shares its partitions anew."),
    DrillKind.SKEW: ("skew the load", "{times:g} times the records, until it is evened."),
    DrillKind.EVEN: ("even the load", "As many records as before."),
    DrillKind.FILL: (
        "fill a disk",
        "The broker is told that no space is left on the device, and takes the log dir offline.",
    ),
    DrillKind.EMPTY: (
        "empty the disk",
        "There is room again: the broker is started anew, and takes the log dir back.",
    ),
}
"""What each drill is called, and what it does."""
NAME_WIDTH = 18
REST_SECONDS = 2.0
"""How long nothing is looked at after a look: on a sandbox it asks for processes."""


class Choices(Static):
    """Lines that tell which of them was clicked on, and at which column."""

    def __init__(self, clicked: Callable[[int, int], None]) -> None:
        super().__init__(id="table")
        self._clicked = clicked

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self._clicked(event.x, event.y)


class DrillDialog(TableDialog[Drill | None]):
    """Returns what is to be done, None when it was left.

    It is open before it is known what can be done, and enter leaves it until something was chosen:
    a key that was meant for something else breaks nothing.
    """

    BINDINGS: ClassVar = [("escape", "leave", "Back")]

    STEPS: ClassVar = {"up": -1, "k": -1, "down": 1, "j": 1}
    TURNS: ClassVar = {"left": -1, "h": -1, "right": 1, "l": 1}

    def __init__(
        self,
        name: str,
        look: Callable[[DrillDialog], None],
        *,
        broker: int | None = None,
        topic: str | None = None,
    ) -> None:
        """`look` has it looked once more what can be done, and offered."""
        super().__init__()
        self._cluster, self._look, self._broker, self._topic = name, look, broker, topic
        self._looking = True
        self._state: ClusterState | None = None
        """The picture that was last looked at for what can be done; None before any change."""
        self._looked_at = 0.0
        self._problem = ""
        """Why what was chosen cannot be done any more, until something else is."""
        self._read_only = ""
        """Why nothing may be done."""
        self._offers: list[Offer] = []
        self._possible = 0
        self._targets: list[int] = []
        self._at = 0

    def compose(self) -> ComposeResult:
        return body(
            f"Break something on {self._cluster}",
            (Choices(self._clicked),),
            button("no", "Leave it"),
            button("yes", "Do it", disabled=True),
        )

    def on_mount(self) -> None:
        self.query_one("#no").focus()
        session = self.dashboard.session
        self._state, self._looked_at = session.state, session.now
        self.draw()

    def follow(self, session: Session) -> None:
        """Have looked once more what can be done, once the cluster is another one."""
        if session.read_only_words != self._read_only:
            self._read_only = session.read_only_words
            self._enable()
            self.draw()
        rested = session.now - self._looked_at >= REST_SECONDS
        if self._looking or not rested or session.state is self._state:
            return
        self._looking, self._state = True, session.state
        self._look(self)

    @property
    def offered(self) -> bool:
        """Return whether it is known what can be done, or was."""
        return bool(self._offers)

    def offer(self, offers: Sequence[Offer]) -> None:
        """Show what can be done, and why the rest cannot; what is chosen stays chosen."""
        chosen, focused = self.chosen, self.query_one("#yes").has_focus
        turned = {
            offer.kind: offer.drills[at]
            for offer, at in zip(self._offers, self._targets, strict=True)
            if offer.drills
        }
        self._offers = sorted(offers, key=lambda offer: not offer.drills)
        self._possible = sum(bool(offer.drills) for offer in offers)
        self._targets = [
            offer.drills.index(turned[offer.kind])
            if turned.get(offer.kind) in offer.drills
            else _pointed_at(offer.drills, self._broker, self._topic)
            for offer in self._offers
        ]
        self._at, self._problem = 0, ""
        for at, offer in enumerate(self._offers):
            if chosen in offer.drills:
                self._at = at
                break
        else:
            if chosen is not None and focused:
                self._problem = f"{WORDS[chosen.kind][0]}, {chosen.on}: not possible any more."
        self._looked()

    def refuse(self, why: str) -> None:
        """Say why it is not known any more what can be done."""
        self._problem, self._possible = why, 0
        self._looked()

    def _looked(self) -> None:
        self._looking, self._looked_at = False, self.dashboard.monotonic()
        self._enable()
        self.draw()

    def _enable(self) -> None:
        button, may = self.query_one("#yes", Button), self._possible and not self._read_only
        if (self._problem or not may) and button.has_focus:
            self.query_one("#no").focus()
        button.disabled = not may

    @property
    def chosen(self) -> Drill | None:
        """Return the drill under the cursor, on what it is turned to."""
        offer = self._offers[self._at] if self._offers else None
        return offer.drills[self._targets[self._at]] if offer and offer.drills else None

    def table(self, width: int) -> Lines:
        if self._looking and not self._offers:
            return ((dim("looking what can be done"),),)
        lines = [self._line(i, width) for i in range(len(self._offers))]
        drill = self.chosen
        sentence = WORDS[drill.kind][1].format(times=drill.times) if drill is not None else ""
        if problem := self._read_only or self._problem:
            words = [*wrap_text(problem, width, 2), ""][:2]
            return (*lines, (), *((Span(part, Tone.LOOK),) for part in words))
        meaning = [*wrap_text(sentence, width, 2), ""][:2]
        return (*lines, (), *((dim(part),) for part in meaning))

    def _line(self, i: int, width: int) -> Line:
        offer, at = self._offers[i], i == self._at
        name = WORDS[offer.kind][0]
        if not offer.drills:
            return (dim(f"  {left(name, NAME_WIDTH)}✗ {offer.why_not}"),)
        on = offer.drills[self._targets[i]].on
        several = len(offer.drills) > 1
        mark = Span("▸ " if at else "  ", Tone.YOURS, bold=True)
        word = bright(left(name, NAME_WIDTH)) if at else Span(left(name, NAME_WIDTH))
        line: Line = (
            mark,
            word,
            Span("◂ " if several else "  ", Tone.YOURS if at else Tone.DIM),
            Span(on, Tone.BRIGHT if at else Tone.PLAIN),
            Span(" ▸" if several else "", Tone.YOURS if at else Tone.DIM),
        )
        return highlight_line(line, width) if at else line

    def on_key(self, event: events.Key) -> None:
        if event.key in self.STEPS:
            self._at = min(max(self._at + self.STEPS[event.key], 0), max(self._possible - 1, 0))
        elif event.key in self.TURNS:
            self._turn(self.TURNS[event.key])
        else:
            return
        event.stop()
        event.prevent_default()
        self._choose()

    def _choose(self) -> None:
        """Have enter do it from now on."""
        if self._possible:
            self._problem = ""
            self.query_one("#yes").focus()
        self.draw()

    def _turn(self, step: int) -> None:
        """Turn to the next thing that the drill may be done to, round and round."""
        if self._possible:
            count = len(self._offers[self._at].drills)
            self._targets[self._at] = (self._targets[self._at] + step) % count

    def _clicked(self, x: int, y: int) -> None:
        """Go to the row; where the cursor is already, the left half turns back, the right on."""
        if y >= self._possible:
            return
        if y == self._at:
            on = self._offers[self._at].drills[self._targets[self._at]].on
            start = 2 + NAME_WIDTH
            if x >= start:
                self._turn(-1 if x < start + 2 + len(on) / 2 else 1)
        self._at = y
        self._choose()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(self.chosen if event.button.id == "yes" else None)


def _pointed_at(drills: Sequence[Drill], broker: int | None, topic: str | None) -> int:
    """Return which of them is on the topic, or else the broker, that the map's cursor is on."""
    for n, drill in enumerate(drills):
        if drill.kind is DrillKind.SKEW and drill.broker is None and drill.on == f"topic {topic}":
            return n
    for n, drill in enumerate(drills):
        if drill.kind is not DrillKind.SKEW and drill.broker is not None and drill.broker == broker:
            return n
    return 0
