"""What screens and dialogs know of the dashboard that they are shown on, and how they are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

from textual.message import Message
from textual.screen import ModalScreen, Screen, ScreenResultType

from core.errors import TrimtabError
from tui.drawing.compositor import PreciseCompositor
from tui.feed.feed import Feed
from tui.session import Session
from tui.theming import Glyphs, Palette

if TYPE_CHECKING:
    from core.cli.common.context import Target

Done = TypeVar("Done")


class ShowInFlight(Message):
    """The Moves are to show what is in flight; `started` is the run that was just started."""

    def __init__(self, started: str | None) -> None:
        super().__init__()
        self.started = started


class Dashboard(Protocol):
    """The dashboard, as far as a screen needs it beside Textual's App."""

    session: Session
    ascii_only: bool
    few_colors: bool
    glyphs: Glyphs
    user_keys: Mapping[str, str]

    @property
    def palette(self) -> Palette: ...

    def monotonic(self) -> float: ...

    def draw(self) -> None: ...

    def say(self, text: str, role: str) -> None: ...

    def run_in_background(
        self,
        group: str,
        work: Callable[[], Done],
        take: Callable[[Done | TrimtabError], None],
    ) -> None: ...

    def action_show_screen(self, name: str) -> None: ...

    def show_moves(self, started: str | None = None) -> None: ...


class OpenCluster(NamedTuple):
    """A cluster that is not shown yet: what will be known of it, and what reads it."""

    session: Session
    feed: Feed


class Clusters(Protocol):
    """The clusters that this dashboard may go on with."""

    known: tuple[Target, ...]
    """As they were read last."""
    here: str
    """The label of the one that is shown."""
    write: bool
    """Whether those may be changed that are not marked read_only."""

    def read(self) -> tuple[Target, ...]:
        """Read them anew; raises UsageError."""

    def open(self, label: str) -> OpenCluster:
        """Return one that is not asked yet; raises UsageError where there is none any more."""


class DashboardPart(Screen[ScreenResultType]):
    """A screen or dialog: it sends what changed; under a dialog it has that drawn there.

    Textual hands up all that ever changed, for ever: what lies under a dialog never rests.

    A dialog names Textual's ModalScreen before this one: styles are had from the first base alone.
    """

    def __init__(
        self, name: str | None = None, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(name, id, classes)
        self._compositor = PreciseCompositor()

    @property
    def dashboard(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def follow(self, session: Session) -> None:
        """Draw what is so now; what takes longer than a key may is for a worker."""

    def show_lost(self, words: str) -> None:
        """Say since when the cluster does not answer; "" while it does."""

    def _compositor_refresh(self) -> None:
        above = self.app.screen
        if above is self or not isinstance(above, ModalScreen):
            super()._compositor_refresh()
            return
        regions = set(self._compositor._dirty_regions)
        self._compositor._dirty_regions.clear()
        self._dirty_widgets.clear()
        if regions:
            above.refresh(*regions)
