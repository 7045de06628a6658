"""When brokers copy at the chosen rate: a lane for each broker and side, the worst first."""

from __future__ import annotations

import math

from core.plan.copying import Side
from core.plan.time_line import Lane, TimeLine
from core.units import format_duration, format_rate
from tui.widgets.lines import Line, Lines, Span, Tone, dim, fit, left, plain, right, rule

SHADES = " ░▒▓█"
"""Quarters of the highest rate of all."""
NEAR = "!"
"""What is drawn where a broker comes near its capacity: it reads without colour, too."""
DOES = {Side.LEADER: "sends", Side.FOLLOWER: "receives", Side.LOG_DIRS: "log dirs"}
FIXED = 52
"""Columns of a lane beside what is drawn of it."""


def lane_lines(found: TimeLine, width: int, height: int) -> Lines:
    """Return a header and as many lanes as fit `height`, how many more there are among it."""
    head = rule("over time", width, note=f"{format_duration(found.ends)} in all")
    names = fit(
        (
            dim(" " + left("broker", 15) + right("at most", 9) + right("besides", 9)),
            dim(right("of can", 7) + " " * max(width - FIXED, 0) + right("until", 11)),
        ),
        width,
    )
    room = max(height - 2, 1)
    rows = room if len(found.lanes) <= room else max(room - 1, 1)
    lanes = tuple(_lane_line(lane, found, width) for lane in found.lanes[:rows])
    more = len(found.lanes) - len(lanes)
    rest: Lines = (fit((dim(f"  {more} more"),), width),) if more else ()
    return (head, names, *lanes, *rest)[:height]


def _lane_line(lane: Lane, whole: TimeLine, width: int) -> Line:
    near = lane.is_near(lane.most_bytes_per_s)
    tone = Tone.LOOK if near else Tone.PLAIN
    part = "" if lane.most_fraction is None else f"{lane.most_fraction:.0%}"
    return fit(
        (
            plain(" " + left(f"b{lane.broker}", 6) + left(DOES[lane.side], 9)),
            Span(right(format_rate(lane.most_bytes_per_s), 9), tone),
            dim(right(format_rate(lane.besides_bytes_per_s), 9)),
            Span(right(part, 7), tone),
            plain("  "),
            *_drawn(lane, whole, max(width - FIXED, 0)),
            plain(right(format_duration(lane.ends), 9)),
        ),
        width,
    )


def _drawn(lane: Lane, whole: TimeLine, width: int) -> Line:
    spans = []
    for mean, near in lane.columns(width, whole.ends) if width else ():
        quarters = math.ceil(4 * mean / whole.most_bytes_per_s - 0.001)
        spans.append(
            Span(NEAR, Tone.LOOK, bold=True) if near else Span(SHADES[min(quarters, 4)], Tone.DIM)
        )
    return tuple(spans)
