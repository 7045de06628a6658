"""Lines of toned spans on the map: written in a row of it, or one under the other beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.drawing.canvas import Row
from tui.drawing.spans import Line, Span

if TYPE_CHECKING:
    from tui.map.drawing.topic_rows import Brush


def broken(line: Line, width: int) -> list[Line]:
    """Return a line as lines of at most `width`, broken between its words."""
    lines: list[list[Span]] = [[]]
    used = 0
    for span in line:
        text = span.text if used else span.text.lstrip(" ·")
        if used and used + len(text.rstrip()) > width:
            lines.append([])
            text, used = span.text.lstrip(" ·"), 0
        if text:
            lines[-1].append(Span(text, span.tone, span.bold))
            used += len(text)
    return [tuple(part) for part in lines if part]


def write_line(row: Row, x: int, line: Line, brush: Brush) -> None:
    for span in line:
        x = row.put(x, span.text, brush.style(span.tone.value, bold=span.bold))


class Panel:
    """Writes lines one under the other beside the map."""

    def __init__(self, rows: Sequence[Row], start: int, brush: Brush) -> None:
        self.rows = rows
        self.start = start
        self.brush = brush
        self.y = 0

    def write(self, line: Line, *, on: str = "background", marked: bool = False) -> None:
        if self.y >= len(self.rows):
            return
        row = self.rows[self.y]
        if marked:
            row.fill(self.start - 1, row.width, self.brush.style(on=on))
            row.put(self.start, self.brush.glyphs.cursor, self.brush.style("yours", on, bold=True))
        x = self.start
        for span in line:
            text = span.text
            if marked and x == self.start:
                # The mark stands in the margin that the amount is padded with.
                x, text = x + 1, text[1:]
            style = self.brush.style(span.tone.value, on, bold=span.bold)
            if x + len(text) > row.width:
                text = text[: max(0, row.width - x - 1)] + self.brush.glyphs.ellipsis
            x = row.put(x, text, style)
        self.y += 1

    def title(self, text: str, more: str = "") -> None:
        if self.y >= len(self.rows):
            return
        row = self.rows[self.y]
        row.fill(self.start, row.width - 1, self.brush.style("faint"), self.brush.glyphs.rule)
        x = row.put(self.start, f"{text} ", self.brush.style("dim"))
        if more:
            row.put(x, f" {more} ", self.brush.style("bright", bold=True))
        self.y += 1

    def gap(self) -> None:
        self.y += 1
