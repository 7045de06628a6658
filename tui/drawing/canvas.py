"""Canvas: a widget that draws text by cells and repaints only the cells that changed.

Textual's compositor does not compare cells; this widget does, and refreshes regions. `Row` is
one line being written; adjacent cells of one style become one segment.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.drawing.spans import cells, columns

MERGE_GAP = 6
"""Unchanged cells between two changed runs that cost less than another cursor move and colour."""


class Row:
    """One line of `width` cells, each a character and a style."""

    __slots__ = ("chars", "styles", "width")

    def __init__(self, width: int, style: Style) -> None:
        self.width = width
        self.chars = [" "] * width
        self.styles = [style] * width

    def put(self, x: int, text: str, style: Style) -> int:
        """Write `text` at column `x`, cropped to the line; return the column after it."""
        text = cells(text)
        end = x + len(text)
        if x >= 0 and end <= self.width:
            self.chars[x:end] = text
            self.styles[x:end] = [style] * len(text)
            return end
        for at, char in enumerate(text, x):
            if 0 <= at < self.width:
                self.chars[at] = char
                self.styles[at] = style
        return end

    def put_right(self, end: int, text: str, style: Style) -> int:
        """Write `text` so that it ends before column `end`; return where it starts."""
        start = end - columns(text)
        self.put(start, text, style)
        return start

    def fill(self, x: int, end: int, style: Style, char: str = " ") -> None:
        """Fill columns `x` to `end`."""
        x, end = max(0, x), min(end, self.width)
        if end > x:
            self.put(x, char * (end - x), style)

    def tint(self, x: int, end: int, style: Style) -> None:
        """Lay a style over what is written: its colours win, the characters stay."""
        for at in range(max(0, x), min(end, self.width)):
            self.styles[at] = self.styles[at] + style

    @property
    def text(self) -> str:
        return "".join(self.chars)

    def strip(self) -> Strip:
        """Return the line as run-length segments."""
        segments: list[Segment] = []
        start = 0
        styles, chars = self.styles, self.chars
        for at in range(1, self.width):
            if styles[at] is not styles[start] and styles[at] != styles[start]:
                segments.append(Segment("".join(chars[start:at]), styles[start]))
                start = at
        if self.width:
            segments.append(Segment("".join(chars[start:]), styles[start]))
        return Strip(segments, self.width)

    def changed_spans(self, other: Row) -> list[tuple[int, int]]:
        """Return the column ranges in which this line differs from `other`."""
        if self.width != other.width:
            return [(0, self.width)]
        if self.chars == other.chars and self.styles == other.styles:
            return []
        spans: list[tuple[int, int]] = []
        for at in range(self.width):
            if self.chars[at] == other.chars[at] and self.styles[at] == other.styles[at]:
                continue
            if spans and at - spans[-1][1] <= MERGE_GAP:
                spans[-1] = (spans[-1][0], at + 1)
            else:
                spans.append((at, at + 1))
        return spans


class Canvas(Widget):
    """Draws the rows it was last given; below them it is blank."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: list[Row] = []
        self._strips: list[Strip] = []
        self._faded: Style | None = None

    def fade(self, style: Style | None) -> None:
        """Draw everything in this style, however it is written, or again as it is (None)."""
        if style != self._faded:
            self._faded = style
            self.refresh()

    @property
    def text(self) -> str:
        """Return what is drawn as plain text."""
        return "\n".join(row.text for row in self._rows)

    def put_rows(self, rows: Sequence[Row]) -> None:
        """Draw these rows; only cells that differ from what is drawn are sent."""
        old, self._rows = self._rows, list(rows)
        strips: list[Strip] = []
        regions: list[Region] = []
        width = self.size.width
        for y, row in enumerate(self._rows):
            if y >= len(old):
                strips.append(row.strip())
                regions.append(Region(0, y, width or row.width, 1))
                continue
            spans = row.changed_spans(old[y])
            strips.append(row.strip() if spans else self._strips[y])
            regions.extend(Region(x, y, end - x, 1) for x, end in spans)
        regions.extend(Region(0, y, width, 1) for y in range(len(self._rows), len(old)))
        self._strips = strips
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        width, blank = self.size.width, self.rich_style
        if y < len(self._strips):
            strip = self._strips[y]
            if self._faded is not None:
                strip = Strip([Segment(text, self._faded) for text, *_ in strip], strip.cell_length)
            return strip.adjust_cell_length(width, blank)
        return Strip.blank(width, blank)
