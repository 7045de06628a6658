"""The throttle table: what each rate takes, which broker and side is slowest, why never."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.plan.copies import Side
from core.run.journal.rates import RateBounds
from core.units import format_duration, format_rate
from tui.drawing.spans import (
    Line,
    Lines,
    Span,
    Tone,
    dim,
    plain,
    right,
    row_line,
    window,
    wrap_text,
)

if TYPE_CHECKING:
    from core.plan.estimate.estimate import Estimate

RANGE_FROM = 68
"""Columns from which the table has room for the range of each time."""
SIDES = {Side.LEADER: "out", Side.FOLLOWER: "in", Side.LOG_DIRS: "log dirs"}


@dataclass(frozen=True, slots=True)
class RateHit:
    """A click on a rate, by its index in the table."""

    index: int


def throttle_lines(
    table: Sequence[Estimate],
    chosen: int,
    width: int,
    height: int,
    *,
    focused: bool,
) -> Lines:
    """Return header and rates, as many as fit `height`, the chosen one among them."""
    wide = width >= RANGE_FROM
    header = (
        dim("  " + right("a side", 10)),
        dim(right("time", 11)),
        dim(right("range", 22) if wide else ""),
        dim("  slowest"),
    )
    rows = []
    for i in window(len(table), height - 1, chosen):
        line = _rate_line(table[i], i == chosen, focused, wide)
        rows.append(row_line(line, width, RateHit(i), chosen=i == chosen and focused))
    return (header, *rows)


def reason_lines(estimate: Estimate, width: int, height: int, *, table_width: int) -> Lines:
    """Return what the chosen rate means; the range too, where the table has no room for it."""
    notes: list[tuple[str, Tone]] = []
    if table_width < RANGE_FROM and (between := _time_range(estimate)):
        notes.append((f"between {between.replace('–', 'and')}", Tone.DIM))
    if estimate.never is not None:
        notes.append((f"never: {estimate.never}", Tone.ACT))
    elif (crowd := estimate.near_capacity) is not None:
        side = f"b{crowd.broker} {SIDES[crowd.side]}"
        notes.append((f"▲ {side} comes to {crowd.fraction:.0%} of its capacity", Tone.LOOK))
    if estimate.calibration is not None:
        notes.append((estimate.calibration.words, Tone.DIM))
    if estimate.note:
        notes.append((estimate.note, Tone.DIM))
    lines = [(Span(part, tone),) for text, tone in notes for part in wrap_text(text, width)]
    return tuple(lines[:height])


def _rate_line(estimate: Estimate, chosen: bool, focused: bool, wide: bool) -> Line:
    mark = Span("▸ " if chosen else "  ", Tone.YOURS if focused else Tone.DIM, bold=True)
    rate = right(format_rate(estimate.rate_bytes_per_s), 10)
    if estimate.never is not None:  # in a word: the sentence stands below the table
        cause = "inflow" if "ordinary replication" in estimate.never else ""
        return (
            mark,
            Span(rate, Tone.ACT if chosen else Tone.PLAIN, bold=chosen),
            Span(right("never", 11), Tone.ACT, bold=True),
            plain(" " * 22 if wide else ""),
            Span(f"  {_slowest(estimate)} ✗ {cause}", Tone.ACT),
        )
    crowd = estimate.near_capacity
    tone = Tone.LOOK if crowd else Tone.PLAIN
    return (
        mark,
        Span(rate, Tone.YOURS if chosen else Tone.PLAIN, bold=chosen),
        Span(right(format_duration(estimate.seconds), 11), Tone.BRIGHT if chosen else tone, chosen),
        dim(right(_time_range(estimate), 22) if wide else ""),
        plain(f"  {_slowest(estimate)}"),
        Span(f" ▲ b{crowd.broker} {crowd.fraction:.0%}", Tone.LOOK) if crowd else plain(""),
    )


def _slowest(estimate: Estimate) -> str:
    if estimate.limit is None:
        return "-"
    broker, side = estimate.limit
    return f"b{broker} {SIDES[side]}"


def _time_range(estimate: Estimate) -> str:
    if estimate.range_seconds is None:
        return ""
    low, high = estimate.range_seconds
    if any(math.isinf(value) or math.isnan(value) for value in (low, high)):
        return ""
    first, last = format_duration(low), format_duration(high)
    return first if first == last else f"{first} – {last}"


def bounds_words(bounds: RateBounds) -> str:
    """Return between which rates an adaptive one stays."""
    lowest, highest = format_rate(bounds.min_bytes_per_s), format_rate(bounds.max_bytes_per_s)
    return f"{lowest} to {highest}"
