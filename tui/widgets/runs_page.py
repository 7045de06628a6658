"""The runs of a cluster as lines, with moves that nobody here started, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from core.run.view import RunSummary
from core.units import format_duration, format_rate
from tui.widgets.foreign import ForeignMove, foreign_lines
from tui.widgets.lines import (
    BLANK,
    Line,
    Lines,
    Span,
    Tone,
    bright,
    dim,
    fit,
    highlighted,
    hitting,
    left,
    plain,
    right,
    rule,
    window,
)
from tui.widgets.run_page import ending_of
from tui.widgets.run_rows import amount_words


@dataclass(frozen=True, slots=True)
class RunHit:
    """A click on a run of the list."""

    run: str


def runs_lines(
    runs: Sequence[RunSummary] | None,
    foreign: Sequence[ForeignMove],
    cursor: int,
    now: datetime,
    width: int,
    height: int,
) -> Lines:
    """Return the list; `runs` is None until it was read."""
    lines: list[Line] = []
    going = [run for run in runs or () if not run.state.ended]
    if foreign:
        title = f"{len(foreign)} in flight, not started here"
        lines += [rule(title, width)]
        lines += foreign_lines(foreign, width, max(height // 3, 3))
        note = "  Somebody else's: shown, never cleared, never overridden."
        lines += [fit((dim(note),), width), BLANK]
    elif not going:
        lines += [BLANK, fit((bright("  Nothing is moving."),), width), BLANK]
    lines += [rule("runs of this cluster", width)]
    if runs is None:
        return (*lines, fit((dim("  reading"),), width))
    if not runs:
        lines += [fit((dim("  none yet"),), width), BLANK, *_what_to_do(width)]
        return tuple(lines[:height])
    lines += [_header(width)]
    room = height - len(lines) - 4
    for i in window(len(runs), min(room, len(runs)), cursor):
        line = run_line(runs[i], now, width, selected=i == cursor)
        hit = RunHit(runs[i].run)
        lines.append(highlighted(line, width, hit) if i == cursor else hitting(line, hit))
    if not going:
        lines += [BLANK, *_what_to_do(width)]
    return tuple(lines[:height])


def run_line(run: RunSummary, now: datetime, width: int, *, selected: bool) -> Line:
    """Return one run: when, how it ended, how much, how long, by whom."""
    mark, tone, word = ending_of(run.state)
    took = ((run.ended_at or now) - run.started_at).total_seconds()
    return fit(
        (
            Span("▸ " if selected else "  ", Tone.YOURS, bold=True),
            plain(f"{run.started_at.astimezone(UTC):%Y-%m-%d %H:%M}Z  "),
            Span(left(f"{mark} {word}", 20), tone),
            plain(right(f"{run.done} of {run.moves}", 10)),
            plain(right(amount_words(run.moved_bytes, run.total_bytes), 17)),
            plain(right(format_duration(took), 11)),
            dim(right(format_rate(run.rate_bytes_per_s), 11)),
            dim(f"  {run.run}  {run.who}"),
        ),
        width,
    )


def _header(width: int) -> Line:
    columns = (
        left("  started", 21)
        + left("ended", 20)
        + right("moves", 10)
        + right("bytes", 17)
        + right("took", 11)
        + right("a side", 11)
        + "  run"
    )
    return fit((dim(columns),), width)


def _what_to_do(width: int) -> Lines:
    def step(key: str, words: str) -> Line:
        return fit((plain("  "), Span(f"{key:<4}", Tone.YOURS, bold=True), dim(words)), width)

    return (
        step("1", "make a plan on the map: pick a replica up, carry it, drop it"),
        step("2", "look at what it would take, and apply it with A"),
    )
