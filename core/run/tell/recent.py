"""How fast a run has been lately, which is what its time left is told from.

Seconds that say nothing of its pace are not counted: a process that was dead, a broker that was
down, a pause, the time before another rate was asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from core.run.record.records import Kind, Record, Sample
from core.run.tell.asked_for import ends_a_pause
from core.run.tell.rates import Point

LEAST_SECONDS = 5.0
"""A shorter time says nothing: within a quota window a throttled copy stalls and bursts."""


@dataclass(frozen=True, slots=True)
class Recent:
    """Bytes/s over what the newest samples saw of the run at work; None while too little."""

    bytes_per_s: float | None = None
    of: Mapping[int, float] = field(default_factory=dict)
    """The same for each move in flight that was seen for long enough."""


def recent(counted: Mapping[datetime, float], tracked: Mapping[int, Sequence[Point]]) -> Recent:
    """Return the pace of the newest samples, as far as the run was at work (`at_work`)."""
    came: dict[int, int] = {}
    took: defaultdict[int, float] = defaultdict(float)
    for index, track in tracked.items():
        for before, after in pairwise(track):
            if after.at in counted:
                came[index] = came.get(index, 0) + max(0, after.bytes - before.bytes)
                took[index] += counted[after.at]
    whole = sum(counted.values())
    return Recent(
        sum(came.values()) / whole if whole >= LEAST_SECONDS else None,
        {i: n / took[i] for i, n in came.items() if took[i] >= LEAST_SECONDS},
    )


def at_work(records: Iterable[Record], samples: Sequence[Sample]) -> dict[datetime, float]:
    """Return the seconds before each sample in which the run was at work as it is now."""
    gaps = _gaps(records)
    return {
        later.at: (later.at - earlier.at).total_seconds()
        for earlier, later in pairwise(samples)
        if not (earlier.payload["down"] or later.payload["down"])
        and not _between(gaps, earlier.at, later.at)
    }


def _gaps(records: Iterable[Record]) -> list[tuple[datetime, datetime]]:
    """Return when the run was not at work as now; what goes on still ends at the end of time."""
    gaps: list[tuple[datetime, datetime]] = []
    paused: datetime | None = None
    for record in records:
        if record.kind is Kind.STARTED:
            gaps.append((record.at, record.at))
        elif record.kind is Kind.REQUEST and not record.payload.get("refused"):
            if record.payload["kind"] == "throttle":
                gaps.append((datetime.min.replace(tzinfo=record.at.tzinfo), record.at))
            elif record.payload["kind"] == "pause":
                paused = paused or record.at
            elif paused is not None and ends_a_pause(record.payload):
                gaps.append((paused, record.at))
                paused = None
    if paused is not None:
        gaps.append((paused, datetime.max.replace(tzinfo=paused.tzinfo)))
    return gaps


def _between(gaps: Iterable[tuple[datetime, datetime]], start: datetime, end: datetime) -> bool:
    return any(begin <= end and over > start for begin, over in gaps)
