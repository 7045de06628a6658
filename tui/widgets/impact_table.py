"""Before and after: what a plan does to the brokers it touches, and to the skew of all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from core.load.snapshot import Float64
from core.plan.impact import Impact
from tui.widgets.lines import Line, Lines, Span, Tone, dim, fit, left, plain, right

LABEL = 5
ROOMY = 13
TIGHT = 10
HOT = 1.2
"""Times the mean from which a broker is called hot; below it nothing is coloured."""


def impact_lines(impact: Impact, width: int, height: int) -> Lines:
    """Return one line for each broker touched, most changed first, and one for the skew."""
    every = _columns(impact)
    roomy = width >= LABEL + ROOMY * len(every)
    cell = ROOMY if roomy else TIGHT
    columns = every[: max((width - LABEL) // cell, 1)]
    head: Line = (
        plain(" " * LABEL),
        *(dim(right(name, 9) + " " * (cell - 9)) for name, *_ in columns),
    )
    order = sorted(impact.touched, key=lambda i: -_change(impact, i))
    rows: list[Line] = [fit(head, width)]
    for i in order[: max(height - 2, 0)]:
        broker = int(impact.before.brokers[i])
        spans: list[Span] = [plain(f"b{broker}".ljust(LABEL))]
        for _, before, after, scale in columns:
            spans += _pair(before, after, i, scale, roomy=roomy)
        rows.append(fit(tuple(spans), width))
    spans = [dim("skew".ljust(LABEL))]
    for _, before, after, _ in columns:
        spans += _skew_pair(before, after, roomy=roomy)
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


def _columns(impact: Impact) -> list[_Column]:
    """Return the columns of which anything is known: name, before, after and scale."""
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
    return [column for column in every if not np.isnan(column[1]).all()]


def _change(impact: Impact, i: int) -> float:
    """Return how much a broker changes, over all columns that are known."""
    return sum(
        abs(float(after[i] - before[i])) / (float(np.nanmean(before)) or 1.0)
        for _, before, after, _ in _columns(impact)
        if not np.isnan(before[i])
    )


def _pair(
    before: Float64, after: Float64, i: int, scale: float, *, roomy: bool
) -> tuple[Span, ...]:
    one, other = float(before[i]), float(after[i])
    if math.isnan(one) or math.isnan(other):
        return _changed(dim("?"), None, roomy=roomy)
    old, new = _number(one * scale), _number(other * scale)
    if old == new:
        return _changed(dim(old), None, roomy=roomy)
    mean = float(np.nanmean(before))
    hot = mean > 0 and one / mean >= HOT
    too_hot = mean > 0 and other / mean >= HOT and other > one
    nearer = abs(other - mean) < abs(one - mean)
    tone = Tone.FINE if nearer else Tone.LOOK if too_hot else Tone.BRIGHT
    return _changed(
        Span(old, Tone.LOOK if hot else Tone.PLAIN, bold=hot),
        Span(new, tone, bold=True),
        roomy=roomy,
    )


def _skew_pair(before: Float64, after: Float64, *, roomy: bool) -> tuple[Span, ...]:
    old, new = skew(before), skew(after)
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
