"""The log of a run: what was asked of it and what became of that, and its story, filtered."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from itertools import islice

from core.run.reporting.views import Level, RunEvent, RunRequest, RunView
from tui.drawing.spans import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    dim,
    filter_line,
    left,
    plain,
    rule,
    wrap_text,
)
from tui.memoize import memoize_last
from tui.moves.drawing.status import headline

LEVELS = {
    Level.INFO: Tone.PLAIN,
    Level.GOOD: Tone.FINE,
    Level.LOOK: Tone.LOOK,
    Level.ACT: Tone.ACT,
}
_MARKS = {Level.INFO: " ", Level.GOOD: "√", Level.LOOK: "▲", Level.ACT: "✗"}
REQUESTS = 6
EVENT_INDENT = 13
TWO_LINES_FROM = 6


def event_lines(events: Sequence[RunEvent], width: int, height: int) -> Lines:
    """Return the story so far, the newest first; with room for it, a long line takes two."""
    lines: list[Line] = []
    for event in list(reversed(events))[:height]:
        parts = [event.text]
        if height >= TWO_LINES_FROM:
            first, *rest = wrap_text(event.text, width - EVENT_INDENT - 1)
            parts = [first, *([" ".join(rest)] if rest else [])]
        lines += _event_lines(event, parts)
    return tuple(lines[:height])


def _event_lines(event: RunEvent, parts: Sequence[str]) -> list[Line]:
    """Return an event with its text in these parts, each on a line."""
    tone = LEVELS[event.level]
    at = dim(f"  {event.at.astimezone(UTC):%H:%M:%S} {_MARKS[event.level]} ")
    heads = [at, *[plain(" " * EVENT_INDENT)] * (len(parts) - 1)]
    return [(head, Span(part, tone)) for head, part in zip(heads, parts, strict=True)]


@memoize_last
def filter_events(events: tuple[RunEvent, ...], words: str) -> tuple[RunEvent, ...]:
    """Return the events that hold every word; `!word` leaves out those that hold it."""
    if not (parts := words.lower().split()):
        return events

    def holds(text: str) -> bool:
        return all(
            word[1:] not in text if word.startswith("!") and len(word) > 1 else word in text
            for word in parts
        )

    event_texts = zip(events, _search_texts(events), strict=True)
    return tuple(event for event, text in event_texts if holds(text))


@memoize_last
def _search_texts(events: tuple[RunEvent, ...]) -> tuple[str, ...]:
    """Return what is searched of each event: its time as it is shown, its kind, its text."""
    return tuple(
        f"{event.at.astimezone(UTC).time().isoformat('seconds')} {event.kind} {event.text}".lower()
        for event in events
    )


def log_lines(
    run: RunView, words: str, skipped: int, width: int, height: int, *, typing: bool
) -> Lines:
    """Return the whole log page: requests on top, then the story, `skipped` lines scrolled."""
    lines: list[Line] = [headline(run, width), BLANK]
    if run.requests:
        lines += [rule("asked for", width)]
        lines += request_lines(run.requests, min(REQUESTS, max(height // 4, 2)))
        lines += [BLANK]
    events = filter_events(run.events, words)
    note = f"{len(events):,} of {len(run.events):,}" if words else f"{len(run.events):,}"
    lines += [rule("what happened", width, note=note)]
    if typing or words:
        lines.append((plain(" "), *filter_line(words, typing=typing)))
    if words and not events:
        lines.append((dim("  nothing in the log matches"),))
    room = max(height - len(lines), 0)
    for event in islice(reversed(events), skipped, None):
        if room <= 0:
            break
        parts = wrap_text(event.text, max(width - EVENT_INDENT - 1, 20))
        lines += _event_lines(event, parts)
        room -= len(parts)
    return tuple(lines[:height])


def request_lines(requests: Sequence[RunRequest], height: int) -> Lines:
    """Return what was asked, the newest first: taken, refused with its reason, or waiting."""
    lines: list[Line] = []
    newest = list(reversed(requests))
    for request in newest[:height]:
        mark, word, tone = ("√", "taken", Tone.FINE) if request.taken else ("▲", "waits", Tone.LOOK)
        if request.refused:
            mark, word, tone = "✗", "refused", Tone.ACT
        lines.append(
            (
                dim(f"  {request.at.astimezone(UTC):%H:%M:%S} "),
                Span(f"{mark} {left(word, 9)}", tone, bold=tone is not Tone.FINE),
                plain(f"{request.what}   "),
                Span(request.refused, Tone.ACT) if request.refused else dim(request.who),
            )
        )
    if len(newest) > height:
        lines[-1] = (dim(f"  and {len(newest) - height + 1} before"),)
    return tuple(lines)
