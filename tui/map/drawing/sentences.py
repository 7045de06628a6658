"""Sentences of words with roles: written in a row of the map, or one under the other beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.drawing.canvas import Row

if TYPE_CHECKING:
    from tui.map.drawing.topic_rows import Brush


@dataclass(frozen=True, slots=True)
class Word:
    """A piece of a sentence and its role in the palette."""

    text: str
    role: str = "text"
    bold: bool = False


Sentence = tuple[Word, ...]


def broken(sentence: Sentence, width: int) -> list[Sentence]:
    """Return a sentence as lines of at most `width`, broken between its words."""
    lines: list[list[Word]] = [[]]
    used = 0
    for word in sentence:
        text = word.text if used else word.text.lstrip(" ·")
        if used and used + len(text.rstrip()) > width:
            lines.append([])
            text, used = word.text.lstrip(" ·"), 0
        if text:
            lines[-1].append(Word(text, word.role, word.bold))
            used += len(text)
    return [tuple(line) for line in lines if line]


def write_sentence(row: Row, x: int, sentence: Sentence, brush: Brush) -> None:
    for word in sentence:
        x = row.put(x, word.text, brush.style(word.role, bold=word.bold))


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
