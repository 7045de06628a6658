"""A plan over time at the chosen rate: a lane per broker side and disk, the worst first."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


def lane_lines(found: PlanTimeline, width: int, height: int) -> Lines:
    """Return a header and as many lanes as fit `height`, how many more there are among it."""
    head = rule("over time", width, note=f"{format_duration(found.ends)} in all")
    names = (
        dim(" " + left("broker", 15) + right("at most", 9) + right("besides", 9)),
        dim(right("of can", 7) + " " * max(width - FIXED, 0) + right("until", 11)),
    )
    room = max(height - 2, 1)
    every = len(found.lanes) + len(found.disks)
    rows = room if every <= room else max(room - 1, 1)
    disks = min(len(found.disks), max(rows - len(found.lanes), rows // DISKS_SHARE))
    shown = tuple(_lane_line(lane, found, width) for lane in found.lanes[: rows - disks])
    shown += tuple(_disk_line(disk, found, width) for disk in found.disks[:disks])
    more = every - len(shown)
    rest: Lines = ((dim(f"  {more} more"),),) if more else ()
    return (head, names, *shown, *rest)[:height]


def _lane_line(lane: SideLane, whole: PlanTimeline, width: int) -> Line:
    room = max(width - FIXED, 0)
    return _line(
        (f"b{lane.broker}", DOES[lane.side]),
        (format_rate(lane.max_bytes_per_s), format_rate(lane.besides_bytes_per_s)),
        lane.max_fraction,
        lane.is_near(lane.max_bytes_per_s),
        _drawn(lane.columns(room, whole.ends) if room else [], whole.max_bytes_per_s),
        lane.ends,
    )


def _disk_line(disk: DiskLane, whole: PlanTimeline, width: int) -> Line:
    room = max(width - FIXED, 0)
    return _line(
        (f"b{disk.broker}", "disk"),
        (f"+{format_bytes(disk.max_bytes)}", format_bytes(disk.used_bytes)),
        disk.max_fraction,
        disk.is_near(disk.max_bytes),
        _drawn(disk.columns(room, whole.ends) if room else [], whole.max_disk_bytes),
        disk.ends,
    )


def _line(
    names: tuple[str, str],
    amounts: tuple[str, str],
    fraction: float | None,
    near: bool,
    drawn: Line,
    ends_seconds: float,
) -> Line:
    tone = Tone.LOOK if near else Tone.PLAIN
    broker, does = names
    most, besides = amounts
    return (
        plain(" " + left(broker, 6) + left(does, 9)),
        Span(right(most, 9), tone),
        dim(right(besides, 9)),
        Span(right("" if fraction is None else f"{fraction:.0%}", 7), tone),
        plain("  "),
        *drawn,
        plain(right(format_duration(ends_seconds), 9)),
    )


def _drawn(columns: Sequence[tuple[float, bool]], most: float) -> Line:
    """Return a shade for each part of the time, or that it is too much."""
    spans = []
    for amount, near in columns:
        quarters = math.ceil(4 * amount / most - 0.001)
        spans.append(
            Span(NEAR, Tone.LOOK, bold=True) if near else Span(SHADES[min(quarters, 4)], Tone.DIM)
        )
    return tuple(spans)
