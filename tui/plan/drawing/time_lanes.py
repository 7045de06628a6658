"""A plan over time at the chosen rate: a lane per broker side and disk, the worst first."""

from __future__ import annotations

import math

from core.plan.copies import Side
from core.plan.estimate.plan_over_time import DiskLane, PlanTimeline, SideLane
from core.units import format_bytes, format_duration, format_rate
from tui.drawing.spans import Line, Lines, Span, Tone, dim, left, plain, right, rule

SHADES = " ░▒▓█"
"""Quarters of the highest rate of all; on disks of the most that any holds more."""
NEAR = "!"
"""What is drawn where a broker comes near its capacity: it reads without colour, too."""
DOES = {Side.LEADER: "sends", Side.FOLLOWER: "receives", Side.LOG_DIRS: "log dirs"}
FIXED = 52
"""Columns of a lane beside what is drawn of it."""
DISKS_SHARE = 3
"""One line in so many is left to disks, where not all lanes fit."""


def lane_lines(timeline: PlanTimeline, width: int, height: int) -> Lines:
    """Return a header and as many lanes as fit `height`, how many more there are among it."""
    head = rule("over time", width, note=f"{format_duration(timeline.ends)} in all")
    names = (
        dim(" " + left("broker", 15) + right("at most", 9) + right("besides", 9)),
        dim(right("in use", 7) + " " * max(width - FIXED, 0) + right("until", 11)),
    )
    room = max(height - 2, 1)
    every = len(timeline.lanes) + len(timeline.disks)
    rows = room if every <= room else max(room - 1, 1)
    disks = min(len(timeline.disks), max(rows - len(timeline.lanes), rows // DISKS_SHARE))
    lanes: tuple[SideLane | DiskLane, ...] = (
        *timeline.lanes[: rows - disks],
        *timeline.disks[:disks],
    )
    shown = [_line(lane, timeline, max(width - FIXED, 0)) for lane in lanes]
    more = every - len(shown)
    rest: Lines = ((dim(f"  {more} more"),),) if more else ()
    return (head, names, *shown, *rest)[:height]


def _line(lane: SideLane | DiskLane, whole: PlanTimeline, room: int) -> Line:
    """Return a lane, with a shade in `room` for each part of the time, or that it is too much."""
    if isinstance(lane, SideLane):
        does, highest, of_all = DOES[lane.side], lane.max_bytes_per_s, whole.max_bytes_per_s
        amount, besides = format_rate(highest), format_rate(lane.besides_bytes_per_s)
    else:
        does, highest, of_all = "disk", lane.max_bytes, whole.max_disk_bytes
        amount, besides = f"+{format_bytes(highest)}", format_bytes(lane.used_bytes)
    shades = [
        Span(NEAR, Tone.LOOK, bold=True)
        if near
        else Span(SHADES[min(math.ceil(4 * part / of_all - 0.001), 4)], Tone.DIM)
        for part, near in (lane.columns(room, whole.ends) if room else ())
    ]
    fraction = "" if lane.max_fraction is None else f"{lane.max_fraction:.0%}"
    tone = Tone.LOOK if lane.is_near(highest) else Tone.PLAIN
    return (
        plain(" " + left(f"b{lane.broker}", 6) + left(does, 9)),
        Span(right(amount, 9), tone),
        dim(right(besides, 9)),
        Span(right(fraction, 7), tone),
        plain("  "),
        *shades,
        plain(right(format_duration(lane.ends), 9)),
    )
