"""Brokers' load that leaves the band around its fair share, or comes back, for the timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from core.clock import Clock
from core.cluster.state import ClusterState
from core.load.heat import Metric
from core.load.snapshot import LoadSnapshot
from core.load.totals import broker_totals
from core.load.verdicts import SKEW
from core.units import format_rate
from core.watch.timeline.events import Event, Kind, Told

BACK: Final = 1.2
"""Under this many times its fair share a broker is in the band again; over SKEW it leaves it."""
LOOK_SECONDS: Final = 10.0
LASTS: Final = timedelta(seconds=60)
"""What comes and goes in less is not told."""
_LEFT, _CAME_BACK = "left the band", "came back into the band"
_Key = tuple[int, str]


class LoadNews:
    """Compares each new snapshot with the fair shares; what was told before, `told`, holds on."""

    def __init__(
        self,
        snapshot: Callable[[], LoadSnapshot | None],
        clock: Clock,
        told: Iterable[Event] = (),
    ) -> None:
        self._snapshot, self._clock = snapshot, clock
        self._due = float("-inf")
        self._last: datetime | None = None
        self._out: set[_Key] = set()
        self._turned: dict[_Key, datetime] = {}
        """Since when a broker has been on the other side of the band's edge."""
        for event in told:
            if isinstance(event.after, Told) and event.after.brokers:
                key = (event.after.brokers[0], event.after.by.rpartition(" ")[2])
                (self._out.add if event.after.text.startswith(_LEFT) else self._out.discard)(key)

    def news(self, state: ClusterState) -> list[Event]:
        """Return who left the band or came back, once it has lasted. Raises DocumentError."""
        if (now := self._clock.monotonic()) < self._due:
            return []
        self._due = now + LOOK_SECONDS
        snapshot = self._snapshot()
        if snapshot is None or snapshot.window_end == self._last:
            return []
        self._last = at = snapshot.window_end
        totals = broker_totals(state, snapshot.aligned(state))
        found = []
        for metric in (Metric.IN, Metric.OUT):
            values, fair = totals.values[metric], totals.fair[metric]
            for column, broker in enumerate(totals.brokers.tolist()):
                if not totals.alive[column] or not fair[column] > 0 or np.isnan(values[column]):
                    continue
                ratio = float(values[column] / fair[column])
                since = self._since((broker, metric.value), ratio, at)
                if since is not None:
                    text = f"{ratio:.1f} × its fair share, {format_rate(float(values[column]))}"
                    left = (broker, metric.value) in self._out
                    told = Told(
                        f"broker {broker} {metric.value}",
                        f"{_LEFT if left else _CAME_BACK}: {text}",
                        (broker,),
                    )
                    found.append(Event(since, Kind.LOAD, None, told))
        return found

    def _since(self, key: _Key, ratio: float, at: datetime) -> datetime | None:
        """Return since when a broker is on the other side, once it has stayed there."""
        out = key in self._out
        turned = ratio < BACK if out else ratio >= SKEW
        if not turned:
            self._turned.pop(key, None)
            return None
        since = self._turned.setdefault(key, at)
        if at - since < LASTS:
            return None
        del self._turned[key]
        (self._out.discard if out else self._out.add)(key)
        return since
