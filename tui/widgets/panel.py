"""Sentences one under the other beside the map."""

from __future__ import annotations

from collections.abc import Sequence

from tui.widgets.canvas import Row
from tui.widgets.inspector import Sentence
from tui.widgets.topic_rows import Brush


class Panel:
    """Writes sentences one under the other beside the map."""

    def __init__(self, rows: Sequence[Row], start: int, brush: Brush) -> None:
        self.rows = rows
        self.start = start
        self.brush = brush
        self.y = 0

    def write(self, sentence: Sentence, *, on: str = "background", marked: bool = False) -> None:
        if self.y >= len(self.rows):
            return
        row = self.rows[self.y]
        if marked:
            row.fill(self.start - 1, row.width, self.brush.style(on=on))
            row.put(self.start, self.brush.glyphs.cursor, self.brush.style("yours", on, bold=True))
        x = self.start
        for word in sentence:
            text = word.text
            if marked and x == self.start:
                # The mark stands in the margin that the amount is padded with.
                x, text = x + 1, text[1:]
            style = self.brush.style(word.role, on, bold=word.bold)
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
