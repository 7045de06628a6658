"""Drags and drops replicas on the map, with keys and with the mouse."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from textual import events
from textual.timer import Timer

from core.cluster.metadata import TopicPartition
from core.load.view.verdicts import Verdict
from tui.drawing.canvas import Canvas
from tui.map.drag import Drag, pick_up
from tui.map.drawing.page import Places
from tui.map.drawing.scene import Scene
from tui.map.view import MapView, Model
from tui.past.screen import READ_ONLY
from tui.screen.services import Dashboard
from tui.session import Session

TYPING_SECONDS = 1.2
"""Digits typed within this time make one broker id."""
WHEEL_ROWS = 3
EDGE_SECONDS = 0.12
"""How long the mouse is held beside the cells until one more broker comes into sight."""


class Surface(Protocol):
    """The map under the hands: what is drawn on it, and what draws it anew."""

    view: MapView
    model: Model | None
    scene: Scene | None
    places: Places
    top: int
    first: int

    @property
    def dashboard(self) -> Dashboard: ...

    @property
    def session(self) -> Session: ...

    def show(self, session: Session) -> None: ...

    def say(self, text: str, role: str = "text") -> None: ...

    def clear_message(self) -> None: ...

    def step(self, rows: int) -> None: ...

    def to_row(self, index: int) -> None: ...

    def go_to(self, verdict: Verdict) -> None: ...

    def action_enter(self) -> None: ...

    def set_timer(self, delay: float, callback: Callable[[], None]) -> Timer: ...


class DragController:
    """Holds what is carried; `drag` is None while the hands are empty."""

    def __init__(self, screen: Surface) -> None:
        self._screen = screen
        self.drag: Drag | None = None
        self._digit_at = 0.0
        self._edge = 0
        """-1 or 1 while the mouse that carries is held to the left or right of the cells."""
        self._edge_timer: Timer | None = None

    def check(self, session: Session) -> None:
        """Hold what is carried against the session: open the hands when it can be no longer."""
        drag, state, load = self.drag, session.state, session.load
        if drag is None or state is None or load is None:
            return
        why = drag.lost(state, session.plan)
        if why is None:
            self.drag = drag.renewed(state, load, session.plan)
            return
        self.drag = None
        self._screen.view = replace(self._screen.view, broker=drag.sources[drag.primary])
        self._screen.say(f"{why}: nothing was changed.", "look")

    # -- carrying --------------------------------------------------------------------------------

    def pick_up(
        self,
        partitions: Iterable[TopicPartition],
        first: TopicPartition,
        broker: int,
        *,
        by_mouse: bool = False,
    ) -> bool:
        """Pick up the replicas of these partitions on a broker; return whether there are any.

        Only those of `first`'s topic that are there: nothing goes along that cannot be seen.
        """
        screen, session = self._screen, self._screen.session
        if session.past_moment is not None:
            screen.say(READ_ONLY, "look")
            return False
        state, load = session.state, session.load
        assert state is not None
        assert load is not None
        more = sorted(
            tp
            for tp in set(partitions) - {first}
            if tp.topic == first.topic and state.find(tp) is not None
        )
        drag = pick_up(state, load, session.plan, [first, *more], broker, by_mouse=by_mouse)
        if drag is None:
            screen.say(f"Broker {broker} holds no replica of p{first.partition}.")
            return False
        self.drag, self._edge = drag, 0
        screen.view = replace(screen.view, broker=broker, cursor_partition=first.partition)
        screen.show(session)
        return True

    def drag_to(self, broker: int) -> None:
        screen = self._screen
        assert self.drag is not None
        if broker == self.drag.target:
            return
        self.drag = self.drag.with_target(broker)
        screen.view = replace(screen.view, broker=broker)
        screen.clear_message()
        screen.show(screen.session)

    def sideways(self, ids: list[int], step: int) -> None:
        """Carry one broker to the left or to the right."""
        assert self.drag is not None
        at = ids.index(self.drag.target) + step
        if 0 <= at < len(ids):
            self.drag_to(ids[at])

    def type_digit(self, digit: str) -> None:
        """Carry to the broker whose id is typed; digits within a moment make one id."""
        screen, model = self._screen, self._screen.model
        if self.drag is None or model is None:
            return
        now = screen.dashboard.monotonic()
        digits = self.drag.digits if now - self._digit_at < TYPING_SECONDS else ""
        self._digit_at = now
        ids = set(model.state.broker_ids.tolist())
        for text in (digits + digit, digit):
            if any(str(id).startswith(text) for id in ids):
                self.drag = replace(self.drag, digits=text)
                if int(text) in ids:
                    self.drag_to(int(text))
                return
        screen.say(f"There is no broker {digits}{digit}.", "look")

    def lead(self) -> None:
        """Have what is carried lead where it is dropped, or not."""
        if self.drag is None:
            return
        if all(self.drag.leads.values()):
            self._screen.say("It leads already, and will where it is dropped.")
            return
        self.drag = replace(self.drag, to_lead=not self.drag.to_lead)
        self._screen.show(self._screen.session)

    def drop(self) -> None:
        screen, session, drag = self._screen, self._screen.session, self.drag
        if drag is None or session.state is None:
            return
        finding = drag.finding if drag.moved else None
        if not drag.can_drop:
            assert finding is not None
            screen.say(f"Not here: {finding.sentence}", "act")
            return
        plan = drag.dropped(session.state, session.plan)
        self.drag = None
        screen.view = replace(screen.view, marked=frozenset())
        session.edit(plan)
        screen.dashboard.draw()
        if finding is not None:
            screen.say(f"In the plan, but: {finding.sentence}", "look")

    def let_go(self) -> None:
        """Put everything back; the cursor returns to where it was lifted."""
        if self.drag is None:
            return
        screen = self._screen
        source = self.drag.sources[self.drag.primary]
        self.drag = None
        screen.view = replace(screen.view, broker=source)
        screen.show(screen.session)

    # -- the mouse -------------------------------------------------------------------------------

    def press(self, x: int, y: int) -> bool:
        """Take a press of the button; return whether something was picked up."""
        screen = self._screen
        screen.clear_message()
        model, scene, places = screen.model, screen.scene, screen.places
        if model is None or scene is None:
            return False
        if y == 0:
            for placed in places.verdicts:
                if placed.start <= x < placed.end:
                    screen.go_to(placed.verdict)
            return False
        index = screen.top + y - places.rows_at
        if not 0 <= y - places.rows_at < places.rows or index >= len(model.rows):
            return False
        if x >= scene.layout.main or self.drag is not None:
            return False
        column = scene.columns.broker_at(x)
        is_second_click = index == model.cursor and (column is None or column == model.column)
        if column is not None:
            screen.view = replace(screen.view, broker=int(model.state.broker_ids[column]))
        screen.to_row(index)
        if model.partitions is None:
            if is_second_click:
                screen.action_enter()
            return False
        tp, session = screen.model.tp if screen.model else None, screen.session
        if column is None or tp is None or session.state is None:
            return False
        broker = int(model.state.broker_ids[column])
        if broker not in session.plan.target(session.state, tp):
            return False
        marked = screen.view.marked if tp in screen.view.marked else frozenset()
        return self.pick_up({tp} | marked, tp, broker, by_mouse=True)

    def hover(self, x: int) -> None:
        """Carry on while the button is held; only the column matters."""
        scene = self._screen.scene
        if self.drag is None or not self.drag.by_mouse or scene is None:
            return
        column = scene.columns.broker_at(x)
        if column is not None:
            self._edge = 0
            self.drag_to(int(scene.model.state.broker_ids[column]))
            return
        self._edge = -1 if x < scene.columns.cells_at else 1
        if self._edge_timer is None:
            self._drag_past_edge()

    def _drag_past_edge(self) -> None:
        """Carry to the next broker out of sight, and on while the mouse stays beside the cells."""
        screen, scene = self._screen, self._screen.scene
        self._edge_timer = None
        if self.drag is None or not self.drag.by_mouse or scene is None or not self._edge:
            return
        columns = scene.columns
        column = columns.first - 1 if self._edge < 0 else columns.first + columns.shown
        if 0 <= column < columns.brokers:
            screen.first += self._edge
            self.drag_to(int(scene.model.state.broker_ids[column]))
            self._edge_timer = screen.set_timer(EDGE_SECONDS, self._drag_past_edge)

    def release(self, x: int, y: int) -> None:
        screen, drag, scene = self._screen, self.drag, self._screen.scene
        if drag is None or not drag.by_mouse or scene is None:
            return
        places = screen.places
        inside = scene.columns.broker_at(x) is not None and 0 <= y - places.rows_at < places.rows
        if not inside or not (drag.moved or drag.to_lead):
            self.let_go()
        elif drag.can_drop:
            self.drop()
        else:
            finding = drag.finding
            self.let_go()
            if finding is not None:
                screen.say(f"Not there: {finding.sentence}", "act")

    def scroll(self, rows: int) -> None:
        self._screen.step(rows)

    def lose_mouse(self) -> None:
        """The terminal or another widget took the mouse: what it carried goes back."""
        if self.drag is not None and self.drag.by_mouse:
            self.let_go()


class MapCanvas(Canvas):
    """The map's surface: tells the hands about the mouse."""

    DEFAULT_CSS = "MapCanvas { width: 1fr; height: 1fr; }"

    def __init__(self, drag_controller: DragController) -> None:
        super().__init__(id="map")
        self._drag_controller = drag_controller

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if self._drag_controller.press(event.x, event.y):
            self.capture_mouse()
        event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._drag_controller.hover(event.x)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self.release_mouse()
        self._drag_controller.release(event.x, event.y)
        event.stop()

    def on_mouse_release(self, event: events.MouseRelease) -> None:
        self._drag_controller.lose_mouse()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._drag_controller.scroll(WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._drag_controller.scroll(-WHEEL_ROWS)
