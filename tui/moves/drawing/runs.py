"""The history of a cluster's runs as lines: how each ended, how much, how long, as estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from core.run.reporting.views import RunSummary
from core.units import format_duration, format_rate
from tui.drawing.spans import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    left,
    plain,
    right,
    row_line,
    rule,
    window,
)
from tui.moves.drawing.rows import amount_words
from tui.moves.drawing.status import STYLES

FIRST_STEPS: Lines = tuple(
    (plain("  "), Span(f"{key:<4}", Tone.YOURS, bold=True), dim(words))
    for key, words in (
        ("1", "make a plan on the map: pick a replica up, carry it, drop it"),
        ("2", "look at what it would take, and apply it with A"),
    )
)


@dataclass(frozen=True, slots=True)
class RunHit:
    """A click on a run of the list."""

    run: str


def runs_lines(
    runs: Sequence[RunSummary] | None,
    external: int,
    cursor: int,
    now: datetime,
    width: int,
    height: int,
) -> Lines:
    """Return the list; `runs` is None until it was read, `external` counts moves not ours."""
    lines: list[Line] = []
    going = [run for run in runs or () if not run.state.ended]
    if external:
        notice = Span(f"  ◆ {external} in flight, not started here", Tone.LOOK, bold=True)
        lines += [(notice, dim("   f shows them")), BLANK]
    elif runs is not None and not going:
        lines += [BLANK, (bright("  Nothing is moving."),), BLANK]
    lines += [rule("runs of this cluster", width, note=f"{len(runs)}" if runs else "")]
    if runs is None:
        return (*lines, (dim("  reading"),))
    if not runs:
        lines += [(dim("  none yet"),), BLANK, *FIRST_STEPS]
        return tuple(lines[:height])
    lines += [_header(width)]
    room = height - len(lines) - 4
    for i in window(len(runs), min(room, len(runs)), cursor):
        line = run_line(runs[i], now, width, selected=i == cursor)
        lines.append(row_line(line, width, RunHit(runs[i].run), chosen=i == cursor))
    if not going:
        lines += [BLANK, *FIRST_STEPS]
    return tuple(lines[:height])


def run_line(run: RunSummary, now: datetime, width: int, *, selected: bool) -> Line:
    """Return one run: when, how it ended, how much, how long, by whom."""
    mark, tone, word = STYLES[run.state]
    # A run that goes on tells by its cluster's clock, which a simulated one has for itself.
    took = run.seconds or ((run.ended_at or now) - run.started_at).total_seconds()
    c = _columns(width)
    estimated = run.estimated_seconds
    return (
        Span("▸ " if selected else "  ", Tone.YOURS, bold=True),
        plain(left(f"{run.started_at.astimezone(UTC):{c.when}}Z", c.started)),
        Span(left(f"{mark} {word}", 19), tone),
        plain(right(f"{run.done} of {run.moves}", 10)),
        plain(right(amount_words(run.moved_bytes, run.total_bytes), c.bytes)),
        plain(right(format_duration(took), c.took)),
        dim(right("" if estimated is None else format_duration(estimated), c.estimated)),
        dim(right(format_rate(run.rate_bytes_per_s), c.rate) if c.rate else ""),
        dim(f"  {run.run}  {run.who}" if c.rate else ""),
    )


class _Columns(NamedTuple):
    """Widths, and how a time is written; `rate` 0 leaves out what a report tells too."""

    when: str
    started: int
    bytes: int
    took: int
    estimated: int
    rate: int


def _columns(width: int) -> _Columns:
    if width >= 110:
        return _Columns("%Y-%m-%d %H:%M", 19, 17, 11, 12, 11)
    return _Columns("%m-%d %H:%M", 14, 15, 9, 11, 0)


def _header(width: int) -> Line:
    c = _columns(width)
    ended = f"{left('  started', 2 + c.started)}{left('ended', 19)}{right('moves', 10)}"
    took = f"{right('bytes', c.bytes)}{right('took', c.took)}{right('estimated', c.estimated)}"
    run = f"{right('a side', c.rate)}  run" if c.rate else ""
    return (dim(f"{ended}{took}{run}"),)
