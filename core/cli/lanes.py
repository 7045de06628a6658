"""A plan over time as text: a lane for each broker and side, the worst first. ASCII only."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

from core.cli.table import table
from core.plan.copying import Side
from core.plan.crowding import NEAR_CAPACITY
from core.plan.time_line import Lane, TimeLine
from core.units import format_duration, format_rate

LANES = 8
COLUMNS = 20
QUARTERS = " .:+#"
NEAR = "!"
SIDES = {Side.LEADER: "sends", Side.FOLLOWER: "receives", Side.LOG_DIRS: "log dirs"}


def lanes_text(found: TimeLine | None) -> str:
    """Return the lanes of the worst brokers at most 80 columns wide; "" where there are none."""
    if found is None:
        return ""
    shown = found.lanes[:LANES]
    rows = [
        (
            str(lane.broker),
            SIDES[lane.side],
            format_rate(lane.most_bytes_per_s),
            format_rate(lane.besides_bytes_per_s),
            "" if lane.most_fraction is None else f"{lane.most_fraction:.0%}",
            f"|{''.join(_drawn(lane, found))}|",
            format_duration(lane.ends),
        )
        for lane in shown
    ]
    near = any(lane.is_near(lane.most_bytes_per_s) for lane in shown)
    legend = (
        f"Over time: a column is {format_duration(found.ends / COLUMNS)}, "
        f". : + # are quarters of {format_rate(found.most_bytes_per_s)}"
        + (f" and {NEAR} is {NEAR_CAPACITY:.0%} of capacity or more." if near else ".")
    )
    header = ("broker", "", "at most", "besides", "of can", "", "until")
    text = textwrap.fill(legend, 79) + "\n\n"
    text += table(header, rows, right="> >>> >")
    if more := len(found.lanes) - len(shown):
        last = max(lane.ends for lane in found.lanes[LANES:])
        text += f"{more} more, the last of them until {format_duration(last)}.\n"
    if len(found.batches) > 1:
        text += (
            f"Batches: {len(found.batches)}, "
            f"the last begins after {format_duration(found.batches[-1])}.\n"
        )
    return text


def _drawn(lane: Lane, whole: TimeLine) -> Iterator[str]:
    """Yield a character for each part of the whole time: its mean rate, or that it is too much."""
    for mean, near in lane.columns(COLUMNS, whole.ends):
        quarters = math.ceil(4 * mean / whole.most_bytes_per_s - 0.001)
        yield NEAR if near else QUARTERS[min(quarters, 4)]
