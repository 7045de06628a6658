"""Brokers' own logs laid onto the timeline: which are meant, and what is said of their clocks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli.context import say

if TYPE_CHECKING:
    from core.watch.timeline.logged import Logs


def logs_of(
    files: Sequence[Path], zone_names: Sequence[str], since: datetime, until: datetime
) -> Logs:
    """Return the logs that are named, their clocks compared; raises UsageError for a wrong name.

    What cannot be read, and whose clock is put right or is not known, is said.
    """
    from core.watch.statelog.sources import find
    from core.watch.statelog.zones import parse_zones
    from core.watch.timeline.logged import Logs

    found = find(files, parse_zones(tuple(zone_names)))
    for path, why in found.left_out:
        say(f"{path} is left out: {why}.")
    logs = Logs(found.sources, since, until)
    logs.align()
    for source in logs.sources:
        if not source.whole:
            say(f"{source.path}: {source.trouble}.")
    for broker, shift_ms in sorted(logs.shifts_ms.items()):
        off = "ahead" if shift_ms < 0 else "behind"
        say(f"Broker {broker}'s clock is {abs(shift_ms) / 1000:.3f} s {off}: it is put right.")
    if logs.unsure:
        ids = ", ".join(map(str, logs.unsure))
        say(f"How far the clocks of brokers {ids} are off is not sure: their times are as logged.")
    return logs
