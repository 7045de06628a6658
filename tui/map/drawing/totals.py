"""Draws the totals of brokers under the map: leaders, in, out, disk, each with its skew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich.style import Style

from core.load.load import Float64
from core.load.view.heat import Int8, Metric, deviation_levels
from core.load.view.text import Scale, scale_of
from core.load.view.totals import max_ratio
from core.load.view.verdicts import SKEW
from core.plan.effect import Effect
from tui.drawing.canvas import Row
from tui.drawing.spans import ratio
from tui.map.drawing.topic_rows import Brush, Grid, sign, signed
from tui.map.view import Model


@dataclass(frozen=True, eq=False)
class TotalsLine:
    """One line of totals: values of length B with their deviation from fair share."""

    title: str
    values: Float64
    level: Int8
    skew: float
    scale: Scale


def totals_lines(model: Model, count: int) -> list[TotalsLine]:
    """Return the lines there is room for, the most telling first."""
    totals = model.totals
    shown = {4: ("leaders", "in", "out", "disk"), 3: ("leaders", "in", "disk")}.get(
        count, ("leaders", "in")
    )
    lines = []
    for word in shown[:count]:
        if word == "disk":
            percent = totals.disk_used * 100
            skew = max_ratio(totals.disk_used, totals.disk_fair)[1]
            if np.isnan(percent).all():
                size = Metric.SIZE
                lines.append(_line("size", totals.values[size], totals.level(size), 0.0, unit="B"))
            else:
                # An empty cluster's disks differ wildly in ratio and not at all in fact.
                level = np.where(percent < 20, 0, totals.disk_level).astype(np.int8)
                lines.append(TotalsLine("disk %", percent, level, skew, Scale(1.0, "")))
            continue
        metric = Metric(word)
        unit = "" if metric is Metric.LEADERS else "B/s"
        values, level = totals.values[metric], totals.level(metric)
        lines.append(_line(word, values, level, totals.skew(metric), unit=unit))
    return lines


def now_and_after(model: Model, effect: Effect) -> list[TotalsLine]:
    """Return what brokers carry now and once the plan is done."""
    metric = Metric.OUT if model.view.metric is Metric.OUT else Metric.IN
    now = model.totals.values[metric]
    fair = model.totals.fair[metric]
    before, after = effect.before.in_bytes_per_s, effect.after.in_bytes_per_s
    if metric is Metric.OUT:
        before, after = effect.before.out_bytes_per_s, effect.after.out_bytes_per_s
    if np.isnan(now).all():
        metric = Metric.REPLICAS
        now, fair = model.totals.values[metric], model.totals.fair[metric]
        before = effect.before.replicas.astype(np.float64)
        after = effect.after.replicas.astype(np.float64)
    then = now + after - before
    unit = metric.unit
    lines = []
    for word, values in (("now", now), ("after", then)):
        level = deviation_levels(values, fair, np.zeros(len(values)))
        skew = max_ratio(values, fair)[1]
        line = _line(metric.value, values, level, skew, unit=unit, largest=float(np.nanmax(now)))
        title = f"{line.title} {word}" if word == "now" else " " * len(line.title) + f" {word}"
        lines.append(TotalsLine(title, line.values, line.level, line.skew, line.scale))
    return lines


def _line(
    word: str,
    values: Float64,
    level: Int8,
    skew: float,
    *,
    unit: str,
    largest: float | None = None,
) -> TotalsLine:
    if largest is None:
        largest = float(np.nanmax(values, initial=0.0))
    scale = scale_of(largest, counted=not unit)
    title = f"{word} {scale.prefix}{unit}".rstrip()
    return TotalsLine(title, values, level, skew, scale)


def draw_totals(
    row: Row, grid: Grid, line: TotalsLine, changed: frozenset[int] = frozenset()
) -> None:
    """Draw one line; `changed` are columns to be written in green."""
    model, columns, brush = grid.model, grid.columns, grid.brush
    row.put(columns.name_at, line.title[: columns.cells_at - 2], brush.style("text"))
    for column, value in enumerate(line.values.tolist()):
        at = columns.at(column)
        if at is None:
            continue
        level = 0 if grid.stale else int(line.level[column])
        style = brush.palette.heat(level)
        if not model.state.brokers[column].alive:
            style = brush.style("act")
        text = line.scale.text(value, "0")
        off = sign(level) if brush.few_colors else ""
        if len(text) <= columns.digits:
            text = signed(text, off, columns)
            if column in changed and abs(level) < 3:
                style = brush.style("fine", bold=True) + Style(bgcolor=style.bgcolor)
        elif np.isnan(value):
            pass  # it is not even for being unknown
        elif off or len(text) > columns.cell or row.chars[at - 1].isdigit():
            text = off
        elif not level and column != model.column:
            # Numbers that touch cannot be told apart: only those that matter are written.
            text = ""
        row.fill(at, at + columns.cell, style)
        row.put_right(at + columns.cell, text, style)
    if columns.has_skew and line.skew > 0:
        style = brush.style("look", bold=True) if line.skew >= SKEW else brush.style("dim")
        row.put_right(columns.skew_end, ratio(line.skew), style)


def draw_rule(row: Row, title: str, brush: Brush, *, role: str = "dim") -> int:
    """Draw a rule with a title; return the column after the title."""
    row.fill(0, row.width - 1, brush.style("faint"), "─")
    return row.put(1, f" {title} ", brush.style(role, bold=role == "bright")) if title else 0
