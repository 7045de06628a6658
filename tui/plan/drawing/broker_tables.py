"""Brokers before and after a plan: what they carry, and how far off their fair share they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from core.load.load import Float64
from core.load.view.heat import Metric
from core.load.view.totals import fair_shares, max_ratio
from core.plan.effect import Effect
from core.plan.planner.evenness import Evenness
from core.plan.planner.model.measures import Measure
from tui.drawing.spans import Line, Lines, Span, Tone, bar, dim, left, plain, right, window

LABEL = 5
ROOMY = 13
TIGHT = 10
HOT = 1.2
"""Times its fair share from which a broker is called hot; below it nothing is coloured."""


@dataclass(frozen=True, eq=False, slots=True)
class Column:
    """What brokers carry before and after, shape [B]; `parts` are their fair parts of the whole.

    Without parts, as of disks that are filled to some percent, the mean is what is fair.
    """

    name: str
    before: Float64
    after: Float64
    parts: Float64 | None = None
    scale: float = 1.0

    def fair(self, values: Float64) -> Float64:
        if self.parts is None:
            return np.full(len(values), np.nanmean(values))
        return fair_shares(values, self.parts)

    def skew(self, values: Float64) -> float:
        """Return the fullest broker's ratio to its fair share; 1 when everything is nothing."""
        ratio = max_ratio(values, self.fair(values))[1]
        return 1.0 if math.isnan(ratio) else ratio


def effect_lines(effect: Effect, parts: Mapping[Metric, Float64], width: int, height: int) -> Lines:
    """Return one line for each broker touched, most changed first, and one for the skew."""
    every = _columns(effect, parts)
    roomy = width >= LABEL + ROOMY * len(every)
    cell = ROOMY if roomy else TIGHT
    columns = every[: max((width - LABEL) // cell, 1)]
    head: Line = (
        plain(" " * LABEL),
        *(dim(right(column.name, 9) + " " * (cell - 9)) for column in columns),
    )
    order = sorted(effect.touched, key=lambda i: -_change(every, i))
    rows: list[Line] = [head]
    for i in order[: max(height - 2, 0)]:
        broker = int(effect.before.brokers[i])
        spans: list[Span] = [plain(f"b{broker}".ljust(LABEL))]
        for column in columns:
            spans += _pair(column, i, roomy=roomy)
        rows.append(tuple(spans))
    spans = [dim("skew".ljust(LABEL))]
    for column in columns:
        spans += _skew_pair(column, roomy=roomy)
    rows.append(tuple(spans))
    left_out = len(order) - max(height - 2, 0)
    if left_out > 0:
        rows[-1] = (*rows[-1][: 1 + 3 * len(columns)], dim(f"  {left_out} more"))
    return tuple(rows[:height])


def effect_sentence(effect: Effect, parts: Mapping[Metric, Float64]) -> str:
    """Return the most changed brokers and the skew in one line, for where a table has no room."""
    if np.isnan(effect.before.in_bytes_per_s).all():
        counts, other = effect.before.replicas, effect.after.replicas
        column = Column(
            "replicas", counts.astype(np.float64), other.astype(np.float64), parts[Metric.REPLICAS]
        )
    else:
        column = _columns(effect, parts)[0]
    before, after = column.before * column.scale, column.after * column.scale
    order = sorted(effect.touched, key=lambda i: -abs(float(after[i] - before[i])))[:2]
    changed = [
        f"b{int(effect.before.brokers[i])} {_number(float(before[i]))} → {_number(float(after[i]))}"
        for i in order
    ]
    if not changed:
        return "no broker changes"
    old, new = column.skew(column.before), column.skew(column.after)
    return f"{column.name}  {' · '.join(changed)} · skew {old:.1f}× → {new:.1f}×"


def _columns(effect: Effect, parts: Mapping[Metric, Float64]) -> list[Column]:
    before, other = effect.before, effect.after
    leaders = before.leaders.astype(np.float64), other.leaders.astype(np.float64)
    rates = (before.out_bytes_per_s, other.out_bytes_per_s)
    every = (
        Column("in MB/s", before.in_bytes_per_s, other.in_bytes_per_s, parts[Metric.IN], 1e-6),
        Column("out MB/s", *rates, parts[Metric.OUT], 1e-6),
        Column("leaders", *leaders, parts[Metric.LEADERS]),
        Column("disk %", before.disk_fraction, other.disk_fraction, scale=100.0),
    )
    return [column for column in every if not np.isnan(column.before).all()]


def _change(columns: list[Column], i: int) -> float:
    """Return how much a broker changes, over all columns that are known."""
    return sum(
        abs(float(column.after[i] - column.before[i])) / (float(np.nanmean(column.before)) or 1.0)
        for column in columns
        if not np.isnan(column.before[i])
    )


def _pair(column: Column, i: int, *, roomy: bool) -> tuple[Span, ...]:
    old_value, other = float(column.before[i]), float(column.after[i])
    if math.isnan(old_value) or math.isnan(other):
        return _changed(dim("?"), None, roomy=roomy)
    old, new = _number(old_value * column.scale), _number(other * column.scale)
    if old == new:
        return _changed(dim(old), None, roomy=roomy)
    fair = float(column.fair(column.before)[i])
    hot = fair > 0 and old_value / fair >= HOT
    too_hot = fair > 0 and other / fair >= HOT and other > old_value
    nearer = abs(other - fair) < abs(old_value - fair)
    tone = Tone.FINE if nearer else Tone.LOOK if too_hot else Tone.BRIGHT
    return _changed(
        Span(old, Tone.LOOK if hot else Tone.PLAIN, bold=hot),
        Span(new, tone, bold=True),
        roomy=roomy,
    )


def _skew_pair(column: Column, *, roomy: bool) -> tuple[Span, ...]:
    old, new = column.skew(column.before), column.skew(column.after)
    if f"{old:.1f}" == f"{new:.1f}":
        return _changed(dim(f"{old:.1f}×"), None, roomy=roomy)
    return _changed(
        Span(f"{old:.1f}×", Tone.LOOK if old >= HOT else Tone.PLAIN),
        Span(f"{new:.1f}×", Tone.FINE if new < old else Tone.LOOK, bold=True),
        roomy=roomy,
    )


def _changed(old: Span, new: Span | None, *, roomy: bool) -> tuple[Span, ...]:
    """Return `88 → 63`, or only the one that stays, in the width of a column."""
    room, arrow = (6, " → ") if roomy else (5, "→")
    first = replace(old, text=right(old.text, room))
    if new is None:
        return (first, plain(" " * (len(arrow) + 4)))
    return (first, dim(arrow), replace(new, text=left(new.text, 4)))


def _number(value: float) -> str:
    """Return a number in at most four columns; a decimal only where it says something."""
    if 0 < abs(value) < 9.95 and not value.is_integer():
        return f"{value:.1f}"
    return f"{value:,.0f}" if abs(value) < 1000 else f"{value:.0f}"


NAME = 4
PAIR = 8
"""Columns of `220→104 `."""
SHORT = {Measure.REPLICAS: "repl", Measure.LEADER_IN: "lead in"}
FULL = 2.0
"""Fair shares at which a bar is full; a fair share is its middle."""


def bar_lines(even: Evenness, cursor: int, width: int, height: int) -> Lines:
    """Return a header and one line a broker, as many as fit, the row `cursor` among them."""
    measures = even.measures
    if not measures or height < 1:
        return ()
    # The last cell needs no gap after it.
    cell = max((width - NAME + 1) // len(measures), PAIR)
    shown = measures[: max((width - NAME + 1) // cell, 1)]
    names = (left(SHORT.get(m, m.words), cell) for m in shown)
    lines: list[Line] = [(dim(" " * NAME), *(dim(name) for name in names))]
    rows = even.by_need()
    for at in window(len(rows), height - 1, cursor):
        row = rows[at]
        spans: list[Span] = [plain(left(f"b{even.brokers[row]}", NAME))]
        for measure in shown:
            spans += _cell(even, row, measure, cell)
        lines.append(tuple(spans))
    return tuple(lines)


def _cell(even: Evenness, row: int, measure: Measure, width: int) -> tuple[Span, ...]:
    old, new = float(even.before[row, measure]), float(even.after[row, measure])
    counts = bool(even.counts[row])
    percent, other = _percent(old), _percent(new)
    was_off, is_off = (counts and abs(v - 1) > even.band + 1e-9 for v in (old, new))
    tone = Tone.LOOK if is_off else Tone.FINE if was_off else Tone.PLAIN
    first = Span(right(percent, 3), Tone.LOOK if was_off else Tone.DIM, bold=was_off and not is_off)
    if percent == other:
        pair: tuple[Span, ...] = (
            plain("    "),
            Span(right(percent, 3), tone if is_off else Tone.DIM, bold=is_off),
            plain(" "),
        )
    else:
        pair = (first, dim("→"), Span(left(other, 3), tone, bold=is_off), plain(" "))
    room = width - PAIR - 1
    if room < 3:
        return (*pair, plain(" " * (width - PAIR)))
    bar_tone = Tone.LOOK if is_off else Tone.FINE if was_off else Tone.RAISED
    return (*pair, *bar(new / FULL, room, bar_tone), plain(" "))


def _percent(share: float) -> str:
    return "?" if np.isnan(share) else f"{min(max(share, 0.0), 9.99):.0%}".rstrip("%")


def balance_spans(even: Evenness) -> tuple[Span, ...]:
    """Return in a word whether brokers are even, and whether they get so: `no → yes`."""
    now, then = (even.is_within(loads) for loads in (even.before, even.after))
    words = [dim("balanced "), _yes_or_no(now, even)]
    if now == then and then:
        return tuple(words)
    return (*words, dim(" → "), _yes_or_no(then, even))


def _yes_or_no(fine: bool, even: Evenness) -> Span:
    """Return the word; what is even by what is known need not be."""
    if fine and not even.measures:
        return dim("not known")
    if fine and not even.is_whole:
        return Span("as far as known", Tone.LOOK)
    return Span("yes" if fine else "no", Tone.FINE if fine else Tone.LOOK, bold=True)


def worst_spans(even: Evenness) -> tuple[Span, ...]:
    """Return which broker and measure are furthest off, and which then: another one's, maybe."""
    worst, left_over = even.furthest(even.before), even.furthest(even.after)
    if worst is None or left_over is None:
        return ()

    def place(at: tuple[int, Measure]) -> str:
        return f"b{even.brokers[at[0]]} {at[1].words} "

    now, then = float(even.before[worst]), float(even.after[left_over])
    where = "" if left_over == worst else place(left_over)
    return (
        dim("worst "),
        Span(
            f"{place(worst)}{now:.0%}",
            Tone.PLAIN if even.is_within(even.before) else Tone.LOOK,
        ),
        dim(" → "),
        Span(f"{where}{then:.0%}", Tone.FINE if even.is_within(even.after) else Tone.LOOK),
    )
