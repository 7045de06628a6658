"""What the map's hands, its troubles and what is worked out ahead know of its screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from textual.timer import Timer

from core.load.view.verdicts import Verdict
from tui.map.drag import Drag
from tui.map.drawing.page import Places
from tui.map.drawing.scene import Scene
from tui.map.view import MapView, Model
from tui.screen.services import Dashboard
from tui.session import Session


class MapScreenProtocol(Protocol):
    """The map's screen: what is drawn on it, and what draws it anew."""

    view: MapView
    model: Model | None
    scene: Scene | None
    top: int
    first: int
    places: Places

    @property
    def dashboard(self) -> Dashboard: ...

    @property
    def session(self) -> Session: ...

    @property
    def drag(self) -> Drag | None: ...

    def show(self, session: Session) -> None: ...

    def say(self, text: str, role: str = "text") -> None: ...

    def clear_message(self) -> None: ...

    def step(self, rows: int) -> None: ...

    def to_row(self, index: int) -> None: ...

    def go_to(self, verdict: Verdict) -> None: ...

    def action_enter(self) -> None: ...

    # -- what Textual gives every screen -----------------------------------------------------------

    def call_later(self, callback: Callable[..., Any], *args: Any) -> bool: ...

    def set_timer(self, delay: float, callback: Callable[[], None]) -> Timer: ...

    def run_worker(
        self, work: Callable[[], None], *, group: str, exclusive: bool, thread: bool
    ) -> Any: ...
