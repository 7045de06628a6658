"""Lines of toned spans, and bars, a character a cell: what renderers return. No Textual in here.

Names are their users': Kafka lets a group, a client or a rack be called anything.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from itertools import zip_longest
from typing import TypeAlias

from rich.cells import cell_len

from core.cluster.metadata import TopicPartition


def cells(text: str) -> str:
    """Return what is drawn of `text`: `?` for what a terminal would obey or draw two cells wide.

    What is drawn upon the character before takes no cell, and is left out.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_one_cell_char, text))


def columns(text: str) -> int:
    """Return how many columns `text` takes."""
    return len(cells(text))


@lru_cache(maxsize=4096)
def _one_cell_char(char: str) -> str:
    if not char.isprintable():
        return "?"
    return ("", char, "?")[cell_len(char)]


class Tone(Enum):
    """What a text means; the values are a theme's roles."""

    PLAIN = "text"
    BRIGHT = "bright"
    DIM = "dim"
    FAINT = "faint"
    TROUGH = "panel"
    RAISED = "raised"
    YOURS = "yours"
    LOOK = "look"
    ACT = "act"
    FINE = "fine"


class Ground(Enum):
    """What a text stands on; the values are a theme's roles."""

    NONE = "background"
    CURSOR = "cursor"
    TROUGH = "panel"


@dataclass(frozen=True, slots=True)
class Span:
    """Text of one tone; `hit` names what a click on it means."""

    text: str
    tone: Tone = Tone.PLAIN
    bold: bool = False
    ground: Ground = Ground.NONE
    hit: object = None
    cluster_color: str | None = None
    """What the cluster whose name it is, is marked with: that it stands on, whatever its tone."""


@dataclass(frozen=True, slots=True)
class RowHit:
    """A click on a row of a list, by its index."""

    index: int


Line: TypeAlias = tuple[Span, ...]
Lines: TypeAlias = tuple[Line, ...]

BLANK: Line = ()


def plain(text: str) -> Span:
    return Span(text)


BORDER: Line = (Span(" "), Span("│", Tone.FAINT), Span(" "))
"""What stands between two blocks side by side."""


def dim(text: str) -> Span:
    return Span(text, Tone.DIM)


def bright(text: str) -> Span:
    return Span(text, Tone.BRIGHT, bold=True)


def text_of(line: Line) -> str:
    """Return what a line says, without tones."""
    return "".join(span.text for span in line)


def width_of(line: Iterable[Span]) -> int:
    return sum(columns(span.text) for span in line)


def left(text: str, width: int) -> str:
    """Return `text` in exactly `width` columns; what does not fit ends in an ellipsis."""
    drawn = cells(text)
    if len(drawn) <= width:
        return drawn.ljust(width)
    return drawn[: width - 1] + "…" if width > 0 else ""


def shorten(name: str, width: int) -> str:
    """Return a name in at most `width` columns; where it is longer, its middle goes.

    Names that begin alike, as topics of one kind do, end differently.
    """
    drawn = cells(name)
    if len(drawn) <= width:
        return drawn
    end = width // 3
    return (drawn[: width - 1 - end] + "…" + drawn[len(drawn) - end :])[: max(width, 0)]


def partition_name(tp: TopicPartition, width: int) -> str:
    """Return `topic-17`; a topic that is too long loses its middle, never the number."""
    number = f"-{tp.partition}"
    return shorten(tp.topic, width - len(number)) + number


def right(text: str, width: int) -> str:
    drawn = cells(text)
    return drawn.rjust(width) if len(drawn) <= width else left(drawn, width)


def fit(line: Line, width: int) -> Line:
    """Return the line in exactly `width` columns, cut or filled with blanks."""
    spans: list[Span] = []
    room = width
    for span in line:
        taken = columns(span.text)
        if taken > room:
            if room > 0:
                spans.append(replace(span, text=left(span.text, room)))
            return tuple(spans)
        spans.append(span)
        room -= taken
    if room > 0:
        spans.append(Span(" " * room))
    return tuple(spans)


def highlight_line(line: Line, width: int, hit: object = None) -> Line:
    """Return the line as the one under the cursor, over the whole width."""
    return tuple(
        replace(
            span,
            ground=Ground.CURSOR if span.ground is Ground.NONE else span.ground,
            hit=span.hit if span.hit is not None else hit,
        )
        for span in fit(line, width)
    )


def row_line(line: Line, width: int, hit: object, *, chosen: bool) -> Line:
    """Return a row of a list over the whole width, as the one under the cursor where it is."""
    if chosen:
        return highlight_line(line, width, hit)
    return tuple(replace(s, hit=hit) if s.hit is None else s for s in fit(line, width))


def rule(title: str, width: int, *, note: str = "") -> Line:
    """Return one dim line with a title, and with a note towards its right end."""
    head = (Span("─ ", Tone.FAINT), dim(title), plain(" ")) if title else ()
    tail = (dim(f" {note} "), Span("─", Tone.FAINT)) if note else ()
    room = max(width - width_of(head) - width_of(tail), 0)
    return fit((*head, Span("─" * room, Tone.FAINT), *tail), width)


def side_by_side(
    first: Lines, second: Lines, widths: tuple[int, int], height: int, *, gap: Line = BORDER
) -> Lines:
    """Return two blocks side by side in `height` lines, each fitted to its width."""
    rows = zip_longest(range(height), first[:height], second[:height], fillvalue=BLANK)
    return tuple(fit(line, widths[0]) + gap + fit(other, widths[1]) for _, line, other in rows)


def empty_page(title: str, sentences: Iterable[str], width: int) -> Lines:
    """Return what a screen says that has nothing to show: a title and why, or what to do."""
    texts = (text for sentence in sentences for text in wrap_text(sentence, min(width - 4, 90)))
    return (BLANK, (bright(f"  {title}"),), *((dim(f"  {text}"),) for text in texts))


def filter_line(words: str, *, typing: bool) -> Line:
    """Return the filter of a list, with what its keys do while it is being typed."""
    keys = (Span(" ", Tone.YOURS, bold=True), dim("   enter keeps it, esc drops it"))
    return (Span(" / ", Tone.YOURS, bold=True), plain(words), *(keys if typing else ()))


def window(count: int, room: int, cursor: int) -> range:
    """Return which of `count` rows are in view so that the cursor's is, with some before it."""
    start = min(max(cursor - room // 2, 0), max(count - room, 0))
    return range(start, min(start + max(room, 0), count))


def wrap_text(text: str, width: int, max_lines: int | None = None) -> list[str]:
    """Return `text` in lines of at most `width` columns; an ellipsis ends what `max_lines` cuts."""
    return textwrap.wrap(text, max(width, 1), max_lines=max_lines, placeholder="…") or [""]


EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(fraction: float, width: int, tone: Tone = Tone.YOURS) -> Line:
    """Return a bar of `width` columns on its trough.

    Anything above nothing shows at least one step and anything below all leaves at least one
    open: a bar never claims that a move has not begun, or is over. Unknown (NaN) is empty.
    """
    if width <= 0:
        return ()
    whole = width * 8
    if math.isnan(fraction) or fraction <= 0:
        filled = 0
    elif fraction >= 1:
        filled = whole
    else:
        filled = min(max(round(fraction * whole), 1), whole - 1)
    drawn = bar_text(filled / 8)
    return (
        Span(drawn, tone, ground=Ground.TROUGH),
        Span(" " * (width - len(drawn)), tone, ground=Ground.TROUGH),
    )


def line_bar(done: float, begun: float, width: int) -> Line:
    """Return a thin bar of what is done, has begun (fractions of all) and is left."""
    to_done = _columns(done, width)
    to_begun = max(_columns(begun, width), to_done)
    return (
        Span("━" * to_done, Tone.YOURS),
        Span("─" * (to_begun - to_done), Tone.DIM),
        Span("╌" * (width - to_begun), Tone.FAINT),
    )


def _columns(fraction: float, width: int) -> int:
    return 0 if math.isnan(fraction) else min(max(round(fraction * width), 0), width)


def ratio(value: float) -> str:
    """Return a skew: `2.1×`; nothing for unknown or none at all."""
    if math.isnan(value) or value <= 0:
        return ""
    return f"{value:.1f}×" if value < 99.95 else "99×"


def bar_text(length: float, eighths: str = EIGHTHS) -> str:
    """Return a bar of `length` columns in steps of an eighth."""
    whole = int(length)
    part = eighths[round((length - whole) * 8)] if length > whole else ""
    return eighths[8] * whole + part.strip()
