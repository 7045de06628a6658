"""The throttle table: what each rate takes, which broker and side is slowest, why never."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.cluster.state import ClusterState
from core.plan.estimate import Estimate
from core.plan.impact import BrokerTotals
from core.units import UNLIMITED, format_duration, format_rate
from tui.widgets.lines import (
    Line,
    Lines,
    Span,
    Tone,
    dim,
    fit,
    highlighted,
    hitting,
    plain,
    right,
    window,
    wrapped,
)

NEAR_CAPACITY = 0.8
_SIDES = {"leader": "out", "follower": "in"}


@dataclass(frozen=True, slots=True)
class RateHit:
    """A click on a rate, by its index in the table."""

    index: int


@dataclass(frozen=True, slots=True)
class Crowded:
    """A broker and side whose load with the throttle on top comes near its capacity."""

    broker: int
    side: str
    fraction: float


def crowded(state: ClusterState, totals: BrokerTotals, estimate: Estimate) -> Crowded | None:
    """Return the fullest broker and side at this rate, None when below 80 % or not known.

    What a broker copies comes on top of its load; it copies no faster than the rate.
    """
    worst: Crowded | None = None
    at = {int(broker): i for i, broker in enumerate(totals.brokers)}
    for row in estimate.rows:
        broker = state.broker_by_id.get(row.broker)
        if broker is None or not row.bytes or estimate.rate_bytes_per_s == UNLIMITED:
            continue
        leads = row.side == "leader"
        capacity = broker.out_capacity_bytes_per_s if leads else broker.in_capacity_bytes_per_s
        load = (totals.out_bytes_per_s if leads else totals.in_bytes_per_s)[at[row.broker]]
        if not capacity or np.isnan(load):
            continue
        fraction = float(load + estimate.rate_bytes_per_s) / capacity
        if fraction >= NEAR_CAPACITY and (worst is None or fraction > worst.fraction):
            worst = Crowded(row.broker, row.side, fraction)
    return worst


def throttle_lines(
    table: Sequence[Estimate],
    crowds: Sequence[Crowded | None],
    chosen: int,
    width: int,
    height: int,
    *,
    focused: bool,
) -> Lines:
    """Return header and rates, as many as fit `height`, the chosen one among them."""
    wide = width >= 46
    header = fit(
        (
            dim("  " + right("a side", 10)),
            dim(right("time", 10)),
            dim(right("range", 17) if wide else ""),
            dim("  slowest"),
        ),
        width,
    )
    rows = []
    for i in window(len(table), height - 1, chosen):
        line = _rate_line(table[i], crowds[i], i == chosen, focused, wide)
        rows.append(
            highlighted(line, width, RateHit(i))
            if i == chosen
            else hitting(fit(line, width), RateHit(i))
        )
    return (header, *rows)


def reason_lines(estimate: Estimate, crowd: Crowded | None, width: int, height: int) -> Lines:
    """Return in words what the chosen rate means: why never, or who gets near its limit."""
    if estimate.never is not None:
        return tuple(
            (Span(text, Tone.ACT),) for text in wrapped(f"never: {estimate.never}", width)[:height]
        )
    if crowd is not None:
        text = (
            f"▲ b{crowd.broker} {_SIDES[crowd.side]} with this on top: "
            f"{crowd.fraction:.0%} of its capacity"
        )
        return tuple((Span(part, Tone.LOOK),) for part in wrapped(text, width)[:height])
    return ()


def _rate_line(
    estimate: Estimate, crowd: Crowded | None, chosen: bool, focused: bool, wide: bool
) -> Line:
    mark = Span("▸ " if chosen else "  ", Tone.YOURS if focused else Tone.DIM, bold=True)
    rate = right(format_rate(estimate.rate_bytes_per_s), 10)
    if estimate.never is not None:
        return (
            mark,
            Span(rate, Tone.ACT if chosen else Tone.PLAIN, bold=chosen),
            Span(right("never", 10), Tone.ACT, bold=True),
            plain(" " * 17 if wide else ""),
            Span(f"  {_slowest(estimate)} ✗ {_cause(estimate.never)}", Tone.ACT),
        )
    tone = Tone.LOOK if crowd else Tone.PLAIN
    return (
        mark,
        Span(rate, Tone.YOURS if chosen else Tone.PLAIN, bold=chosen),
        Span(right(format_duration(estimate.seconds), 10), Tone.BRIGHT if chosen else tone, chosen),
        dim(right(_range(estimate), 17) if wide else ""),
        plain(f"  {_slowest(estimate)}"),
        Span(f" ▲ b{crowd.broker} {crowd.fraction:.0%}", Tone.LOOK) if crowd else plain(""),
    )


def _slowest(estimate: Estimate) -> str:
    if estimate.limit is None:
        return "-"
    broker, side = estimate.limit
    return f"b{broker} {_SIDES[side]}"


def _cause(never: str) -> str:
    """Return the shortest name for why a rate never ends; the sentence stands below the table."""
    return "inflow" if "down" not in never else "down"


def _range(estimate: Estimate) -> str:
    if estimate.range_seconds is None:
        return ""
    low, high = estimate.range_seconds
    if any(math.isinf(value) or math.isnan(value) for value in (low, high)):
        return ""
    first, last = format_duration(low), format_duration(high)
    return first if first == last else f"{first} – {last}"
