"""Drills from the dashboard: asks which fault, injects it in a worker, reports the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from textual import events
from textual.widgets import Static

from core.cluster.drills.drill import Drill, DrillKind, DrillTarget, Offer
from core.cluster.state import ClusterState
from core.errors import TrimtabError
from tui.dialogs.base import TableDialog
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
from tui.screen.app_base import AppBase
from tui.screen.base import DashboardScreen
from tui.session import Session


def open_drills(app: AppBase) -> None:
    """Ask what to break."""
    session, screen = app.session, app.screen
    ground = session.ground
    if ground is None or session.state is None or not isinstance(screen, DashboardScreen):
        return
    if why := session.read_only_words:
        screen.say(why, "look")
        return
    if screen.session is not session:
        screen.say("The past cannot be broken: 0 goes back to now.", "look")
        return
    look = partial(_load_offers, app, ground)
    broker, topic = session.cursor_at or (None, None)
    dialog = DrillDialog(ground.name, look, broker=broker, topic=topic)

    def answered(drill: Drill | None) -> None:
        if drill is not None:
            _carry_out(app, ground, drill)

    app.push_screen(dialog, answered)
    look(dialog)


def _load_offers(app: AppBase, ground: DrillTarget, dialog: DrillDialog) -> None:
    state = app.session.state
    assert state is not None
    app.run_in_background("drill", lambda: ground.offers(state), partial(_offer, app, dialog))


def _offer(app: AppBase, dialog: DrillDialog, outcome: tuple[Offer, ...] | TrimtabError) -> None:
    if dialog not in app.screen_stack:  # left meanwhile
        return
    if isinstance(outcome, TrimtabError) and dialog.offered:
        dialog.refuse(str(outcome))
    elif isinstance(outcome, TrimtabError):
        dialog.dismiss(None)
        app.call_after_refresh(app.report_error, outcome)
    else:
        dialog.offer(outcome)


def _carry_out(app: AppBase, ground: DrillTarget, drill: Drill) -> None:
    if why := app.session.read_only_words:  # it may have become so while it was asked
        app.say(why, "look")
        return

    def work() -> tuple[str, str]:
        from core.watch.timeline.publisher import run_drill

        done = run_drill(ground, drill)
        if done is None:
            return "There was nothing to do.", "look"
        return f"{done[:1].upper()}{done[1:]}.", "fine"

    app.say(f"working on {drill.on}", "text")
    app.run_in_background("drill", work, app.report)


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
        self._handle_click = clicked

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self._handle_click(event.x, event.y)


class DrillDialog(TableDialog[Drill]):
    """Returns what is to be done, None when it was left.

    It is open before it is known what can be done, and enter leaves it until something was chosen:
    a key that was meant for something else breaks nothing.
    """

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
        super().__init__("Leave it", "Do it")
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

    @property
    def _title(self) -> str:
        return f"Break something on {self._cluster}"

    def table_widget(self) -> Static:
        return Choices(self._handle_click)

    def on_mount(self) -> None:
        session = self.dashboard.session
        self._state, self._looked_at = session.state, session.now

    def follow(self, session: Session) -> None:
        """Have looked once more what can be done, once the cluster is another one."""
        if session.read_only_words != self._read_only:
            self._read_only = session.read_only_words
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
        chosen, focused = self._selected_drill, self.query_one("#yes").has_focus
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
            else _find_cursor_drill(offer.drills, self._broker, self._topic)
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
        self.draw()

    def draw(self) -> None:
        super().draw()
        if self._problem and self.query_one("#yes").has_focus:
            self.query_one("#no").focus()

    @property
    def chosen(self) -> Drill | None:
        return self._selected_drill if self._possible and not self._read_only else None

    @property
    def _selected_drill(self) -> Drill | None:
        """Return the drill under the cursor, on what it is turned to."""
        offer = self._offers[self._at] if self._offers else None
        return offer.drills[self._targets[self._at]] if offer and offer.drills else None

    def table(self, width: int) -> Lines:
        if self._looking and not self._offers:
            return ((dim("looking what can be done"),),)
        lines = [self._line(i, width) for i in range(len(self._offers))]
        drill = self._selected_drill
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

    def step(self, rows: int) -> None:
        self._at = min(max(self._at + rows, 0), max(self._possible - 1, 0))
        self._choose()

    def on_key(self, event: events.Key) -> None:
        if event.key in self.TURNS:
            event.stop()
            event.prevent_default()
            self._turn(self.TURNS[event.key])
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

    def _handle_click(self, x: int, y: int) -> None:
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


def _find_cursor_drill(drills: Sequence[Drill], broker: int | None, topic: str | None) -> int:
    """Return which of them is on the topic, or else the broker, that the map's cursor is on."""
    for n, drill in enumerate(drills):
        if drill.kind is DrillKind.SKEW and drill.broker is None and drill.on == f"topic {topic}":
            return n
    for n, drill in enumerate(drills):
        if drill.kind is not DrillKind.SKEW and drill.broker is not None and drill.broker == broker:
            return n
    return 0
