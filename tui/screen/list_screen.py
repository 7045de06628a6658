"""Screens that are a page of rows: how they are drawn, the cursor's keys, the filter typed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from textual import events
from textual.widget import Widget

from tui.drawing.page import Page
from tui.drawing.spans import Lines
from tui.screen.base import DashboardScreen
from tui.screen.text_filter import pasted, type_filter
from tui.session import Session

EDGE = 10**9


class PageScreen(DashboardScreen):
    """A screen whose body is one page of lines."""

    def compose_body(self) -> Iterable[Widget]:
        yield Page(id=f"{self.PLACE}-page")

    @abstractmethod
    def lines(self, session: Session, width: int, height: int) -> Lines:
        """Return the lines of the page."""

    def show_body(self, session: Session) -> None:
        page = self.query_one(Page)
        lines = self.lines(session, page.size.width, page.size.height)
        page.show(lines, self.palette, ascii_only=self.dashboard.ascii_only)


class CursorKeys:
    """Up, down, pages, ends and the wheel; a screen says in `step` what a row is."""

    WHEEL: ClassVar[int] = 1
    """Rows that a turn of the wheel goes."""

    @property
    def page(self) -> int:
        """Return how many rows half a page is."""
        return 10

    @abstractmethod
    def step(self, rows: int) -> None:
        """Move the cursor by rows, up to the first or the last one."""

    def action_up(self) -> None:
        self.step(-1)

    def action_down(self) -> None:
        self.step(1)

    def action_page_up(self) -> None:
        self.step(-self.page)

    def action_page_down(self) -> None:
        self.step(self.page)

    def action_top(self) -> None:
        self.step(-EDGE)

    def action_bottom(self) -> None:
        self.step(EDGE)

    def on_page_turned(self, message: Page.Turned) -> None:
        self.step(message.steps * self.WHEEL)


class Filtering(DashboardScreen):
    """A screen with a filter; while that is being typed, keys go to it."""

    def __init__(self) -> None:
        super().__init__()
        self.typing = False

    @property
    @abstractmethod
    def words(self) -> str:
        """Return the filter as far as it is typed."""

    @property
    @abstractmethod
    def can_filter(self) -> bool:
        """Return whether there is anything to filter."""

    @abstractmethod
    def filter_by(self, words: str) -> None:
        """Show what these words find."""

    def action_filter(self) -> None:
        if self.can_filter:
            self.typing = True
            self.show(self.session)

    def on_key(self, event: events.Key) -> None:
        """Keys go to the filter while it is being typed."""
        super().on_key(event)
        if not self.typing:
            return
        edited = type_filter(self.words, event.key, event.character)
        if edited is None:
            return
        words, self.typing = edited
        event.stop()
        event.prevent_default()
        self.filter_by(words)

    def on_paste(self, event: events.Paste) -> None:
        if self.typing:
            self.filter_by(self.words + pasted(event.text))
            event.stop()
