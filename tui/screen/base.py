"""What all screens share: header, footer, `show(session)`, and painting by cells.

A screen gives its body in `compose_body` and draws it in `show_body`; it never asks the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, TypeVar

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.widget import Widget

from core.errors import TrimtabError
from tui.actions.action import GLOBAL
from tui.actions.table import footer_of
from tui.drawing.canvas import Canvas
from tui.screen.footer import MAX_LINES, FooterLine, LongMessage, footer_row, message_rows
from tui.screen.header import HeaderLine
from tui.screen.services import DashboardPart
from tui.session import Session
from tui.theming import Glyphs, Palette

Done = TypeVar("Done")

FADED = Style(dim=True)
"""Laid over what is shown of a cluster that does not answer: weaker, in whatever colours."""


class DashboardScreen(DashboardPart[None]):
    """One of the screens; `PLACE` is its name in the table of actions."""

    PLACE: ClassVar[str]
    ALLOW_SELECT = False

    @property
    def session(self) -> Session:
        return self.dashboard.session

    @property
    def palette(self) -> Palette:
        return self.dashboard.palette

    @property
    def glyphs(self) -> Glyphs:
        return self.dashboard.glyphs

    def compose(self) -> ComposeResult:
        yield HeaderLine(self.dashboard.action_show_screen)
        yield from self.compose_body()
        yield FooterLine()
        yield LongMessage()

    def compose_body(self) -> Iterable[Widget]:
        """Return the widgets between header and footer."""
        return ()

    def show(self, session: Session) -> None:
        """Draw the session; called when it changed, when the size did, and on coming here."""
        if not (self.is_mounted and self.display and self.app.is_running) or not self.size.width:
            return  # not there yet, or leaving: its widgets go before it does
        palette, width = self.palette, self.size.width
        self.query_one(HeaderLine).show(session, self.PLACE, width, palette, self.glyphs)
        faded = palette.style("dim") + FADED if session.lost_since is not None else None
        for canvas in self.query(Canvas):
            if not isinstance(canvas, HeaderLine | FooterLine | LongMessage):
                canvas.fade(faded)
        self.show_body(session)
        self.show_footer()

    def show_body(self, session: Session) -> None:
        """Draw what is between header and footer."""

    def refetch(self) -> None:
        """Ask anew for what this screen alone asks for."""

    def run_in_thread(
        self,
        group: str,
        work: Callable[[], Done],
        then: Callable[[Done], None],
        failed: Callable[[TrimtabError], None] | None = None,
        *,
        exclusive: bool = True,
    ) -> None:
        """Have a thread work, then the event loop take the result, or say why there is none."""

        def answer() -> None:
            try:
                result = work()
            except TrimtabError as error:
                if failed is None:
                    raise
                self.call_later(failed, error)
            else:
                self.call_later(then, result)

        self.run_worker(answer, thread=True, exclusive=exclusive, group=group)

    # -- the footer ------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """Return where the user is, in the table of actions; a screen may have several modes."""
        return self.PLACE

    def footer_words(self) -> Mapping[str, str]:
        """Return words for actions whose name depends on the moment; "" leaves one out."""
        return {}

    def show_footer(self) -> None:
        session, palette, width = self.session, self.palette, self.size.width
        actions = footer_of((self.place, GLOBAL), drills=session.ground is not None)
        words = {action.id: action.name for action in actions} | dict(self.footer_words())
        if not (session.has_new_trouble or session.problem):
            words["show_problems"] = ""
        words = {id: self._replace_glyphs(word) for id, word in words.items()}
        keys, footer = self.dashboard.user_keys, self.query_one(FooterLine)
        row = footer_row(actions, words, keys, width, palette, writable=session.writable)
        message = message_rows(footer.message, width, palette) if footer.message else []
        footer.put_rows(message[-1:] or [row])
        self.query_one(LongMessage).show(message[:-1])

    def copy_text(self) -> str | None:
        """Return what `y` copies here; None when there is nothing."""
        return None

    def say(self, text: str, role: str = "text") -> None:
        """Show a message in the footer until the next key; roles are the palette's."""
        self.query_one(FooterLine).message = (self._replace_glyphs(text), role)
        self.show_footer()

    def say_error(self, error: TrimtabError) -> None:
        """Show shortly that something went wrong, and the key that shows all of it."""
        more = " — E shows it"
        room = (MAX_LINES - 1) * (self.size.width - 2) - len(more)
        words = " ".join(part for part in (error.title, error.next) if part)
        if len(words) > room:
            words = error.title
        if len(words) > room:
            words = words[: room - 1] + "…"
        self.say(words + more, "look")

    def _replace_glyphs(self, text: str) -> str:
        """Return text in the characters that this terminal was said to have."""
        return text.replace("√", self.glyphs.fine)

    def clear_message(self) -> None:
        """Take the message in the footer away."""
        footer = self.query_one(FooterLine)
        if footer.message is not None:
            footer.message = None
            self.show_footer()

    def on_key(self, event: events.Key) -> None:
        self.clear_message()

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self.dashboard.draw)

    def on_resize(self, event: events.Resize) -> None:
        self.dashboard.draw()
