"""Bars with a resolution of an eighth of a column, so that small changes show."""

from __future__ import annotations

import math

from tui.drawing.spans import Ground, Line, Span, Tone

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
