"""Before and after: what a plan does to the brokers it touches, and to the skew of all."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from core.load.snapshot import Float64
from core.plan.impact import Impact
from tui.widgets.lines import Line, Lines, Span, Tone, dim, fit, left, plain, right

HOT = 1.2
"""Times the mean from which a broker is called hot; below it nothing is coloured."""


def impact_lines(impact: Impact, width: int, height: int) -> Lines:
    """Return one line for each broker touched, most changed first, and one for the skew."""
    columns = _columns(impact, width)
    head: Line = (dim(right("", 5)), *(dim(right(name, 9) + "    ") for name, *_ in columns))
    order = sorted(impact.touched, key=lambda i: -_change(impact, i))
    rows: list[Line] = [fit(head, width)]
    for i in order[: max(height - 2, 0)]:
        broker = int(impact.before.brokers[i])
        spans: list[Span] = [plain(f"b{broker}".ljust(5))]
        for _, before, after, scale in columns:
            spans += _pair(before, after, i, scale)
        rows.append(fit(tuple(spans), width))
    spans = [dim("skew ")]
    for _, before, after, _ in columns:
        spans += _skew_pair(before, after)
    rows.append(fit(tuple(spans), width))
    left_out = len(order) - max(height - 2, 0)
    if left_out > 0:
        rows[-1] = fit((*rows[-1][: 1 + 3 * len(columns)], dim(f"  {left_out} more")), width)
    return tuple(rows[:height])


def impact_sentence(impact: Impact) -> str:
    """Return the most changed brokers and the skew in one line, for where a table has no room."""
    known = not np.isnan(impact.before.in_bytes_per_s).all()
    before, after = (
        (impact.before.in_bytes_per_s, impact.after.in_bytes_per_s)
        if known
        else (impact.before.replicas.astype(np.float64), impact.after.replicas.astype(np.float64))
    )
    scale, unit = (1e-6, "in MB/s") if known else (1.0, "replicas")
    order = sorted(impact.touched, key=lambda i: -abs(float(after[i] - before[i])))[:2]
    parts = [
        f"b{int(impact.before.brokers[i])} "
        f"{_number(float(before[i]) * scale)} → {_number(float(after[i]) * scale)}"
        for i in order
    ]
    if not parts:
        return "no broker changes"
    return f"{unit}  {' · '.join(parts)} · skew {skew(before):.1f}× → {skew(after):.1f}×"


def skew(values: Float64) -> float:
    """Return the largest value over the mean; 1 when everything is nothing, NaN when unknown."""
    mean = float(np.nanmean(values)) if not np.isnan(values).all() else math.nan
    return float(np.nanmax(values)) / mean if mean > 0 else (math.nan if math.isnan(mean) else 1.0)


_Column: TypeAlias = tuple[str, Float64, Float64, float]


def _columns(impact: Impact, width: int) -> list[_Column]:
    """Return as many columns as fit: name, before, after and scale."""
    before, after = impact.before, impact.after
    every: list[_Column] = [
        ("in MB/s", before.in_bytes_per_s, after.in_bytes_per_s, 1e-6),
        ("out MB/s", before.out_bytes_per_s, after.out_bytes_per_s, 1e-6),
        (
            "leaders",
            before.leaders.astype(np.float64),
            after.leaders.astype(np.float64),
            1.0,
        ),
        ("disk %", before.disk_fraction, after.disk_fraction, 100.0),
    ]
    known = [column for column in every if not np.isnan(column[1]).all()]
    return known[: max((width - 5) // 13, 1)]


def _change(impact: Impact, i: int) -> float:
    """Return how much a broker changes, over all columns that are known."""
    return sum(
        abs(float(after[i] - before[i])) / (float(np.nanmean(before)) or 1.0)
        for _, before, after, _ in _columns(impact, 100)
        if not np.isnan(before[i])
    )


def _pair(before: Float64, after: Float64, i: int, scale: float) -> list[Span]:
    one, other = float(before[i]), float(after[i])
    if math.isnan(one) or math.isnan(other):
        return [dim(right("?", 6)), plain(" " * 7)]
    old, new = _number(one * scale), _number(other * scale)
    if old == new:
        return [dim(right(old, 6)), plain(" " * 7)]
    mean = float(np.nanmean(before))
    hot = mean > 0 and one / mean >= HOT
    too_hot = mean > 0 and other / mean >= HOT and other > one
    nearer = abs(other - mean) < abs(one - mean)
    tone = Tone.FINE if nearer else Tone.LOOK if too_hot else Tone.BRIGHT
    return [
        Span(right(old, 6), Tone.LOOK if hot else Tone.PLAIN, bold=hot),
        dim(" → "),
        Span(left(new, 4), tone, bold=True),
    ]


def _skew_pair(before: Float64, after: Float64) -> list[Span]:
    old, new = skew(before), skew(after)
    if f"{old:.1f}" == f"{new:.1f}":
        return [dim(right(f"{old:.1f}×", 6)), dim(" " * 7)]
    return [
        Span(right(f"{old:.1f}×", 6), Tone.LOOK if old >= HOT else Tone.PLAIN),
        dim(" → "),
        Span(left(f"{new:.1f}×", 4), Tone.FINE if new < old else Tone.LOOK, bold=True),
    ]


def _number(value: float) -> str:
    """Return a number in at most four columns; a decimal only where it says something."""
    if 0 < abs(value) < 9.95 and not value.is_integer():
        return f"{value:.1f}"
    return f"{value:,.0f}" if abs(value) < 1000 else f"{value:.0f}"
