"""Charts of values over time, drawn by plotext and returned as lines.

plotext keeps its figure in globals: one chart is drawn at a time, under a lock.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from core.cluster.state import Int64
from core.load.load import Float64
from core.units import format_bytes
from tui.drawing.spans import Line, Lines, Span, Tone

_LOCK = threading.Lock()
_TICKS = 15
"""plotext's number for the colour of frame and numbers; series count from 1."""
_FRAME = re.compile(r"([─│┼┤├└┘┬┴┌┐]+)")
_COLOR = re.compile(r"\x1b\[(?:38;5;)?(\d+)m")
_MARKERS = ("hd", "dot")
_DRAWN = ("▄", "•")
"""What these markers look like in a chart."""


@dataclass(frozen=True, eq=False, slots=True)
class Series:
    """One line of a chart: `at` in seconds since the epoch, ascending; NaN values leave gaps."""

    name: str
    at: Float64
    values: Float64
    tone: Tone


def chart_lines(
    series: Sequence[Series],
    *,
    since: float,
    until: float,
    unit: str,
    width: int,
    height: int,
    gap_seconds: float,
    plain: bool = False,
) -> Lines:
    """Return a chart; `plain` tells series apart without colour, `gap_seconds` are not joined."""
    import plotext

    top = max(
        (float(np.nanmax(s.values)) for s in series if np.isfinite(s.values).any()), default=0
    )
    step = nice_step(top, min(max(height // 3, 2), 5))
    ticks = [step * i for i in range(math.ceil(max(top / step, 1)) + 1)]
    times = _time_ticks(since, until, max(width // 14, 2))
    with _LOCK:
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.limit_size(False, False)
        plotext.plotsize(width, height)
        for i, curve in enumerate(series):
            marker = _MARKERS[i % 2] if plain else _MARKERS[0]
            for run in _runs(curve, since, until, gap_seconds):
                draw = plotext.plot if len(run) > 1 else plotext.scatter
                at, values = curve.at[run] - since, curve.values[run]
                draw(at.tolist(), values.tolist(), marker=marker, color=i + 1)
        plotext.xlim(0, until - since)
        plotext.ylim(0, ticks[-1])
        labels = ["0" if tick == 0 else format_bytes(tick, unit=unit) for tick in ticks]
        plotext.yticks(ticks, labels)
        clock = [f"{datetime.fromtimestamp(at, UTC):%H:%M}" for at in times]
        plotext.xticks([at - since for at in times], clock)
        plotext.xaxes(True, False)
        plotext.yaxes(True, False)
        plotext.grid(True, False)
        plotext.ticks_color(_TICKS)
        drawn = str(plotext.build())
        plotext.clear_figure()
    tones = [trace.tone for trace in series]
    return tuple(tuple(_spans(line, tones)) for line in drawn.split("\n")[:height])


def nice_step(top: float, max_lines: int = 5) -> float:
    """Return the distance of at most `max_lines` ticks: 1, 2 or 5 times a power of ten."""
    if top <= 0:
        return 1.0
    power = float(10 ** (math.floor(math.log10(top)) - 1))
    return next(step for f in (1, 2, 5, 10, 20, 50, 100) if (step := f * power) * max_lines >= top)


def _runs(curve: Series, since: float, until: float, gap: float) -> Iterator[Int64]:
    """Yield indices of known values that follow each other without a gap."""
    known = np.flatnonzero(np.isfinite(curve.values) & (curve.at >= since) & (curve.at <= until))
    if len(known):
        yield from np.split(known, np.flatnonzero(np.diff(curve.at[known]) > gap) + 1)


def _time_ticks(since: float, until: float, max_lines: int) -> list[float]:
    steps = (300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600)
    step = next((s for s in steps if (until - since) / s <= max_lines), 43200)
    first = math.ceil(since / step) * step
    return [float(at) for at in range(first, int(until) + 1, step)]


def _spans(line: str, tones: Sequence[Tone]) -> Iterator[Span]:
    """Read plotext's colours back as tones: frame and grid faint, numbers dim, series their own."""
    color: int | None = None
    for i, part in enumerate(_COLOR.split(line)):
        if i % 2:
            color = None if part == "0" else int(part)
        elif part and color is not None and 0 < color <= len(tones):
            yield Span(part, tones[color - 1])
        else:
            for piece in _FRAME.split(part):
                if piece:
                    yield Span(piece, Tone.FAINT if _FRAME.fullmatch(piece) else Tone.DIM)


def legend(series: Sequence[Series], *, plain: bool = False) -> Line:
    """Return the names of the series, each with its mark."""
    spans: list[Span] = []
    for i, curve in enumerate(series):
        mark = _DRAWN[i % 2] if plain else "━"
        spans += [Span(f"{mark} ", curve.tone, bold=True), Span(f"{curve.name}   ")]
    return tuple(spans)
