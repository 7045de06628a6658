"""Page: a screen's body made of lines of toned spans; the edge where tones become styles.

How long a bar is without colour is shown here, so that renderers need not know of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message

from tui.drawing.canvas import Canvas, Row
from tui.drawing.spans import BLANK, Ground, Line, Lines, Span, cells, columns, fit
from tui.theming import Palette


def row_of(line: Line, width: int, palette: Palette, *, ascii_only: bool) -> Row:
    """Return the cells of one line."""
    row = Row(width, palette.style())
    x = 0
    for span in line:
        style = _style(span, span.ground.value, palette)
        x = row.put(x, _drawn(span, palette, ascii_only=ascii_only), style)
    return row


def text_of_lines(lines: Lines, palette: Palette, *, ascii_only: bool) -> Text:
    """Return lines as rich text upon the ground of dialogs."""
    text = Text(no_wrap=True)
    for y, line in enumerate(lines):
        text.append("\n" if y else "")
        for span in line:
            drawn = _drawn(span, palette, ascii_only=ascii_only)
            text.append(drawn, _style(span, "panel", palette))
    return text


def _style(span: Span, ground: str, palette: Palette) -> Style:
    if span.cluster_color is not None:
        return palette.cluster(span.cluster_color)
    return palette.style(span.tone.value, ground, bold=span.bold)


def _drawn(span: Span, palette: Palette, *, ascii_only: bool) -> str:
    text = cells(span.text)
    if span.ground is Ground.TROUGH and (ascii_only or palette.plain):
        # Without colour nothing else shows how long the whole bar is.
        text = text.replace(" ", "." if ascii_only else "░")
    return text


class Page(Canvas):
    """Shows lines; tells what was clicked on (`Hit`) and which way the wheel turned (`Turned`)."""

    DEFAULT_CSS = "Page { width: 1fr; height: 1fr; }"

    @dataclass
    class Hit(Message):
        """A click on a span that means something; `twice` for a double click."""

        hit: object
        twice: bool

    @dataclass
    class Turned(Message):
        """The wheel turned: `steps` is 1 down, -1 up."""

        steps: int

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.lines: Lines = ()
        self._look: tuple[str, bool, bool, int] | None = None

    def show(self, lines: Lines, palette: Palette, *, ascii_only: bool) -> None:
        """Draw as much of these lines as there is room for; only cells that differ are sent."""
        width = self.size.width
        lines = tuple(fit(line, width) for line in lines[: self.size.height])
        look = (palette.name, palette.plain, ascii_only, width)
        kept = len(self.lines) if look == self._look else 0
        rows = [
            self._rows[y]
            if y < kept and line == self.lines[y]
            else row_of(line, width, palette, ascii_only=ascii_only)
            for y, line in enumerate(lines)
        ]
        self.lines, self._look = lines, look
        self.put_rows(rows)

    def hit_at(self, x: int, y: int) -> object:
        """Return what the span at this column and row means, None when nothing."""
        at = 0
        for span in self.lines[y] if 0 <= y < len(self.lines) else BLANK:
            at += columns(span.text)
            if x < at:
                return span.hit
        return None

    def on_click(self, event: events.Click) -> None:
        hit = self.hit_at(event.x, event.y)
        if hit is not None:
            event.stop()
            self.post_message(self.Hit(hit, event.chain > 1))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.post_message(self.Turned(1))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.post_message(self.Turned(-1))
