"""Brokers' own logs laid onto the timeline: which are meant, and what is said of their clocks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli.output import say

if TYPE_CHECKING:
    from core.watch.timeline.logged import Logs


def logs_of(
    files: Sequence[Path], zone_names: Sequence[str], since: datetime, until: datetime
) -> Logs:
    """Return the logs that are named, their clocks compared; raises UsageError for a wrong name.

    What cannot be read, what is doubtful of them, and whose clock is put right or is not known, is
    said.
    """
    from core.watch.statelog.sources import Found, find
    from core.watch.statelog.told import another_zone, doubts, zone_hint
    from core.watch.statelog.zones import parse_zones
    from core.watch.timeline.logged import Logs

    zones = parse_zones(tuple(zone_names))
    found = find(files, zones)
    logs = Logs(found.sources, since, until, whole=not found.left_out)
    logs.align()
    if not zone_names:
        say(f"Logs' times without a zone are taken as {zones.words}; --zone says another.")
    given = Found(logs.sources, found.left_out, found.twice)
    for line in doubts(logs.tally, given, "`statelog merge --json` has them all"):
        say(line)
    if logs.tally.unknown:
        say(f"{logs.tally.unknown:,} of their records are of unknown form, and left out.")
    for offset in filter(another_zone, logs.tally.clocks.offsets()):
        say(zone_hint(offset))
    for broker, shift_ms in sorted(logs.shifts_ms.items()):
        off = "ahead" if shift_ms < 0 else "behind"
        say(f"Broker {broker}'s clock is {abs(shift_ms) / 1000:.3f} s {off}: it is put right.")
    if logs.unsure:
        ids = ", ".join(map(str, logs.unsure))
        say(f"How far the clocks of brokers {ids} are off is not sure: their times are as logged.")
    return logs
