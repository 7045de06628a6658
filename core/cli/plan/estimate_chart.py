"""A plan over time as text: a lane for each broker side and disk, the worst first. ASCII only."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable

from core.load.view.verdicts import DISK_LOOK
from core.plan.copies import Side
from core.plan.estimate.near_capacity import NEAR_CAPACITY
from core.plan.estimate.plan_over_time import DiskLane, PlanTimeline
from core.text.tables import text_table
from core.units import format_bytes, format_duration, format_rate

LANES = 8
DISKS = 4
COLUMNS = 20
QUARTERS = " .:+#"
NEAR = "!"
_Row = tuple[str, str, str, str, str, str, str]

SIDES = {Side.LEADER: "sends", Side.FOLLOWER: "receives", Side.LOG_DIRS: "log dirs"}


def chart_text(found: PlanTimeline | None) -> str:
    """Return the lanes of the worst brokers at most 80 columns wide; "" where there are none."""
    if found is None:
        return ""
    shown = found.lanes[:LANES]
    rows = [
        (
            str(lane.broker),
            SIDES[lane.side],
            format_rate(lane.max_bytes_per_s),
            format_rate(lane.besides_bytes_per_s),
            "" if lane.max_fraction is None else f"{lane.max_fraction:.0%}",
            f"|{_drawn(lane.columns(COLUMNS, found.ends), found.max_bytes_per_s)}|",
            format_duration(lane.ends),
        )
        for lane in shown
    ]
    disks = found.disks[:DISKS]
    rows += [_disk_row(disk, found) for disk in disks]
    marked = []
    if any(lane.is_near(lane.max_bytes_per_s) for lane in shown):
        marked.append(f"{NEAR_CAPACITY:.0%} of capacity")
    if any(disk.is_near(disk.max_bytes) for disk in disks):
        marked.append(f"{DISK_LOOK:.0%} of a disk")
    legend = (
        f"Over time: a column is {format_duration(found.ends / COLUMNS)}, "
        f". : + # are quarters of {format_rate(found.max_bytes_per_s)}"
        + (f", on disks of {format_bytes(found.max_disk_bytes)} more" if disks else "")
        + (f", and {NEAR} is {' or '.join(marked)} or more." if marked else ".")
    )
    header = ("broker", "", "at most", "besides", "of can", "", "until")
    text = textwrap.fill(legend, 79) + "\n\n"
    text += text_table(header, rows, right="> >>> >")
    if more := len(found.lanes) - len(shown):
        last = max(lane.ends for lane in found.lanes[LANES:])
        text += f"{more} more, the last of them until {format_duration(last)}.\n"
    if more := len(found.disks) - len(disks):
        highest = max(disk.max_bytes for disk in found.disks[DISKS:])
        text += f"The disks of {more} more, at most +{format_bytes(highest)}.\n"
    if len(found.batches) > 1:
        text += (
            f"Batches: {len(found.batches)}, "
            f"the last begins after {format_duration(found.batches[-1])}.\n"
        )
    return text


def _disk_row(disk: DiskLane, whole: PlanTimeline) -> _Row:
    drawn = _drawn(disk.columns(COLUMNS, whole.ends), whole.max_disk_bytes)
    return (
        str(disk.broker),
        "disk",
        f"+{format_bytes(disk.max_bytes)}",
        format_bytes(disk.used_bytes),
        "" if disk.max_fraction is None else f"{disk.max_fraction:.0%}",
        f"|{drawn}|",
        format_duration(disk.ends),
    )


def _drawn(columns: Iterable[tuple[float, bool]], highest: float) -> str:
    """Return a character for each part of the whole time: its amount, or that it is too much."""
    quarters = ((math.ceil(4 * amount / highest - 0.001), near) for amount, near in columns)
    return "".join(NEAR if near else QUARTERS[min(quarter, 4)] for quarter, near in quarters)
