"""The heat map as plain text, and the one unit that the numbers of a table share."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from core.cluster.state import ClusterState
from core.load.load import Float64, Load
from core.load.view.heat import HeatMap, Metric, Order, heat_map
from core.load.view.totals import broker_totals
from core.load.view.verdicts import Weight, verdicts

PREFIXES = ("", "k", "M", "G", "T", "P")
UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Scale:
    """What numbers are divided by, and the prefix that says so."""

    divisor: float
    prefix: str
    decimals: int = 0

    def text(self, value: float, nothing: str = "·") -> str:
        """Return a number in this scale; too small to show is `nothing`, unknown is `?`."""
        if math.isnan(value):
            return UNKNOWN
        scaled = value / self.divisor
        if round(scaled, self.decimals) == 0:
            return nothing
        return f"{scaled:.{self.decimals}f}"


def scale_of(largest: float, *, counted: bool = False) -> Scale:
    """Return the scale in which the largest value has two or three digits; counts have none."""
    if counted or math.isnan(largest) or largest <= 0:
        return Scale(1.0, "")
    step = 0
    # A little below the next thousand: 999.6 would be written as 1000.
    while largest / 1000**step >= 999.5 and step < len(PREFIXES) - 1:
        step += 1
    scaled = largest / 1000**step
    return Scale(1000.0**step, PREFIXES[step], 1 if scaled < 9.95 and step else 0)


NAME = 24
MARKS = {Weight.ACT: "✗", Weight.LOOK: "▲", Weight.MOVING: "●", Weight.FINE: "√"}


def heat_text(
    state: ClusterState,
    load: Load,
    metric: Metric | None = None,
    order: Order = Order.EXCESS,
    limit: int = 30,
    width: int = 120,
) -> str:
    """Return verdicts, topics by brokers and broker totals.

    Without a metric it is `in` where that is known, else `leaders`. A cell much above fair share
    is followed by `+`, much below by `-`, with replicas out of sync by `!`.
    """
    if metric is None:
        metric = Metric.LEADERS if np.isnan(load.in_bytes_per_s).all() else Metric.IN
    totals = broker_totals(state, load)
    heat = heat_map(state, load, metric)
    cell = 5
    shown = max(1, min(len(state.brokers), (width - NAME - 16) // cell))
    scale = _scale_of(heat.values, metric)
    lines = ["  ".join(f"{MARKS[v.weight]} {v.sentence}" for v in verdicts(state, load, totals))]
    unit = f"{scale.prefix}{metric.unit}"
    heading = f"{metric.value}{f' {unit}' if unit else ''}"
    ids = "".join(f"{broker.id:>{cell - 1}} " for broker in state.brokers[:shown])
    lines.append("")
    lines.append(f"{'topic':<{NAME}}{heading:>9} {ids} skew")
    rows = heat.order(order).tolist()[:limit]
    lines += [_row(heat, row, shown, cell, scale) for row in rows]
    if len(heat.topics) > len(rows):
        lines.append(f"… and {len(heat.topics) - len(rows):,} more topics")
    lines.append("")
    for word in (Metric.LEADERS, Metric.IN, Metric.OUT, Metric.SIZE):
        values = totals.values[word]
        scale = _scale_of(values, word)
        title = f"{word.value} {scale.prefix}{word.unit}".rstrip()
        cells = "".join(f"{scale.text(v):>{cell - 1}} " for v in values[:shown].tolist())
        skew = totals.skew(word)
        ratio = "" if math.isnan(skew) else f" {skew:.1f}×"
        lines.append(f"{title:<{NAME + 9}} {cells}{ratio}")
    if shown < len(state.brokers):
        hidden = len(state.brokers) - shown
        lines.append(f"… {hidden} more brokers: a wider terminal, or --json, shows all")
    return "\n".join(lines) + "\n"


def _row(heat: HeatMap, row: int, shown: int, cell: int, scale: Scale) -> str:
    name = heat.topics[row]
    if len(name) > NAME - 1:
        name = name[: NAME - 2] + "…"
    cells = []
    for column in range(shown):
        level = int(heat.level[row, column])
        mark = "+" if level >= 2 else "-" if level <= -2 else " "
        if heat.out_of_sync[row, column]:
            mark = "!"
        cells.append(f"{scale.text(float(heat.values[row, column])):>{cell - 1}}{mark}")
    total = scale.text(float(heat.total[row]))
    return f"{name:<{NAME}}{total:>9} {''.join(cells)} {_ratio(float(heat.skew[row]))}"


def _ratio(skew: float) -> str:
    return UNKNOWN if math.isnan(skew) else f"{skew:.1f}×"


def _scale_of(values: Float64, metric: Metric) -> Scale:
    return scale_of(float(np.nanmax(values, initial=0.0)), counted=not metric.unit)
