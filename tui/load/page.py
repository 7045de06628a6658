"""The Load screen as lines: a chart over time, the numbers beside it, and what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from core.cluster.metadata import TopicPartition
from core.load.load import Source
from core.load.snapshot.format import LoadSnapshot
from core.units import format_bytes, format_rate
from tui.drawing.chart import Series, chart_lines, legend
from tui.drawing.spans import (
    BLANK,
    Line,
    Lines,
    RowHit,
    Span,
    Tone,
    bright,
    dim,
    empty_page,
    left,
    plain,
    right,
    row_line,
    rule,
    shorten,
    side_by_side,
    window,
)
from tui.load.statistics import SERIES, Numbers, known_words, numbers_lines, snapshot_lines

if TYPE_CHECKING:
    from core.load.windows import LoadHistory

SIDE_BY_SIDE = 110
WINDOW_SECONDS = 300.0


class Metric(Enum):
    """What the chart shows."""

    BYTES = "bytes"
    MESSAGES = "messages"
    SIZE = "size"


WAITING = (
    "The collector's first interval comes after half a minute, Spark's first 5-minute window "
    "when it has ended. Without Java there is the interval only; trimtab doctor says what is "
    "missing."
)
KEPT = "The first snapshot of each hour is kept for 7 days: H lists those that there are."
_RATES = {
    Metric.BYTES: ("in_bytes_per_s", "out_bytes_per_s"),
    Metric.MESSAGES: ("messages_per_s",),
    Metric.SIZE: ("size_bytes",),
}
_UNITS = {Metric.BYTES: "B/s", Metric.MESSAGES: "/s", Metric.SIZE: "B"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One row of the list: a broker or a partition with its newest rates."""

    of: int | TopicPartition
    name: str
    in_bytes_per_s: float
    out_bytes_per_s: float
    size_bytes: float
    notes: tuple[str, ...] = ()
    """What else is known, most important first; what does not fit whole is left out."""


@dataclass(frozen=True, eq=False, slots=True)
class LoadView:
    """What the Load screen shows; `history` is None until it was read."""

    choices: tuple[Choice, ...]
    cursor: int
    heading: str
    history: LoadHistory | None
    numbers: Numbers | None
    snapshot: LoadSnapshot | None
    age: str
    nothing: str
    """What is said where there are no choices."""
    metric: Metric
    hours: int
    plain: bool
    then: str = ""
    """The moment that is shown, in words; "" for now."""
    in_store: bool = False
    """Whether the snapshot is from an object store, which has no windows."""


def load_lines(view: LoadView, width: int, height: int) -> Lines:
    """Return the whole screen in `height` lines."""
    if view.snapshot is None:
        title = f"No load is kept of {view.then}." if view.then else "No load yet."
        return empty_page(title, (KEPT if view.then else WAITING,), width)
    if not view.choices:
        return empty_page(view.nothing, (), width)
    if width < SIDE_BY_SIDE:
        return _stacked_layout(view, width, height)
    panel = 60 if width >= 160 else 42
    main = width - panel - 4
    listed = min(len(view.choices), max(height // 3, 5))
    chart_height = height - 3 - listed - 2
    first: Lines = (
        _title(view),
        BLANK,
        *_chart(view, main, chart_height),
        BLANK,
        rule(view.heading, main),
        *_choices(view, main, listed),
    )
    second: Lines = (
        rule("numbers", panel),
        *numbers_lines(view.numbers, panel),
        BLANK,
        rule("snapshot", panel),
        *snapshot_lines(view.snapshot, view.age, panel),
    )
    return side_by_side(first, second, (main, panel), height)


def _stacked_layout(view: LoadView, width: int, height: int) -> Lines:
    assert view.snapshot is not None
    numbers = numbers_lines(view.numbers, min(width, 60), brief=height < 30)
    counts = snapshot_lines(view.snapshot, view.age, width)[: 1 if height < 30 else 6]
    listed = min(len(view.choices), 3 if height < 30 else 6)
    chart = max(height - 3 - len(numbers) - len(counts) - listed, 6)
    return (
        _title(view),
        *_chart(view, width, chart),
        rule(view.heading, width),
        *_choices(view, width, listed),
        rule("numbers", width),
        *numbers,
        *counts,
    )[:height]


def _title(view: LoadView) -> Line:
    until: Line = (dim(f"   last {view.hours} h"),)
    if view.then:
        until = (dim(f"   {view.hours} h up to "), Span(view.then, Tone.LOOK, bold=True))
    return (
        plain(" "),
        bright(view.choices[view.cursor].name),
        *until,
        dim(", 5-minute windows   "),
        *legend(_series(view), plain=view.plain),
    )


def _series(view: LoadView) -> list[Series]:
    if view.history is None:
        return []
    series = []
    for rate in _RATES[view.metric]:
        values = view.history.rates.get((rate, "avg"))
        if view.metric is Metric.SIZE:
            values = view.history.size_bytes
        if values is not None:
            name, tone = SERIES[rate]
            series.append(Series(name, view.history.starts, values, tone))
    return series


def _chart(view: LoadView, width: int, height: int) -> Lines:
    if view.history is None:
        return _centered_lines("reading", height)
    series = _series(view)
    if not any(np.isfinite(curve.values).any() for curve in series):
        live = view.snapshot is not None and view.snapshot.source is Source.LIVE
        if view.in_store:
            words = "no chart: an object store has snapshots, windows stay with the pipeline"
        elif live or not len(view.history):
            words = "no windows yet: Spark publishes the first when five minutes have passed"
        else:
            words = f"no {view.metric.value} are published for this; partitions have them"
        return _centered_lines(words, height)
    until = float(view.history.starts[-1]) + WINDOW_SECONDS
    first = float(view.history.starts[0])
    since = max(until - view.hours * 3600, min(first, until - 6 * WINDOW_SECONDS))
    return chart_lines(
        series,
        since=since,
        until=until,
        unit=_UNITS[view.metric],
        width=width,
        height=height,
        gap_seconds=WINDOW_SECONDS * 1.5,
        plain=view.plain,
    )


def _centered_lines(text: str, height: int) -> Lines:
    above = max(height // 2 - 1, 0)
    return (*(BLANK,) * above, (dim(f"  {text}"),), *(BLANK,) * (height - above - 1))[:height]


def _choices(view: LoadView, width: int, height: int) -> Lines:
    lines = []
    room = min(max(len(choice.name) for choice in view.choices), 28) + 2
    notes = _fitting(view.choices, width - 2 - room - 2 * 15 - 9)
    for i in window(len(view.choices), height, view.cursor):
        choice = view.choices[i]
        chosen = i == view.cursor
        line = (
            Span("▸ " if chosen else "  ", Tone.YOURS, bold=True),
            (bright if chosen else plain)(left(shorten(choice.name, room), room)),
            *_rate_spans("in", choice.in_bytes_per_s),
            *_rate_spans("out", choice.out_bytes_per_s),
            plain(right(known_words(choice.size_bytes, format_bytes), 9)),
            dim("".join(f"  {left(n, w)}" for n, w in zip(choice.notes, notes, strict=False))),
        )
        lines.append(row_line(line, width, RowHit(i), chosen=chosen))
    return tuple(lines)


def _fitting(choices: Sequence[Choice], width: int) -> tuple[int, ...]:
    """Return how wide each note's column is; those that do not fit whole in all rows are none."""
    widths: list[int] = []
    for column in zip_longest(*(choice.notes for choice in choices), fillvalue=""):
        widest = max(len(note) for note in column)
        if sum(widths) + 2 * len(widths) + 2 + widest > width:
            break
        widths.append(widest)
    return tuple(widths)


def _rate_spans(name: str, rate: float) -> tuple[Span, Span]:
    return plain(right(known_words(rate, format_rate), 10)), dim(f" {name:<4}")


def choice_named(choices: Sequence[Choice], of: int | TopicPartition) -> int:
    """Return the row of a broker or partition, 0 when it is not there."""
    return next((i for i, choice in enumerate(choices) if choice.of == of), 0)
