"""Lanes of brokers and the autopilot over time, aggregated into columns. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from core.autopilot.log import EntryKind, mode_of, parse_clause
from core.cluster.metadata import Broker
from core.cluster.state import ClusterState
from core.watch.timeline.events import Event, Kind, Note, Replicas

AUTOPILOT = -1
"""Stands for the autopilot among the brokers' ids."""


class Lane(IntEnum):
    """How a broker or the autopilot was; of what falls into one column the highest is shown."""

    ABSENT = 0
    UP = 1
    LEADS = 2
    """It came to lead a partition, or leads one no more."""
    REPORTED = 3
    """Somebody told of it: a client, a run, who broke it on purpose."""
    UNOBSERVED = 4
    """Nobody looked."""
    BEHIND = 5
    """It is in less ISRs than it should be."""
    BACK = 6
    DOWN = 7

    SUGGESTS = 8
    ACTS = 9
    WAITED = 10
    """The autopilot said why it did nothing."""
    DECIDED = 11
    """It would have acted, acted, or failed to."""


_MODES = {"suggest": Lane.SUGGESTS, "act": Lane.ACTS}


@dataclass(frozen=True, eq=False, slots=True)
class Lanes:
    """For each broker, and AUTOPILOT: when it changed, in seconds since 1970, and to what."""

    times: dict[int, list[float]]
    became: dict[int, list[Lane]]

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(sorted(self.times.keys() - {AUTOPILOT}))

    @property
    def autopilot(self) -> bool:
        """Return whether there is anything to show of one."""
        return AUTOPILOT in self.times

    def cells(self, broker: int, since: float, until: float, width: int) -> list[Lane]:
        """Return the worst of each of `width` equal parts of a time; `broker` may be AUTOPILOT."""
        times, became = self.times[broker], self.became[broker]
        step = (until - since) / max(width, 1)
        edges = [since + step * n for n in range(width + 1)]
        cells = []
        for n in range(width):
            # What happened at the very edge belongs to what follows, at the last edge to the end.
            first = bisect_left(times, edges[n])
            if first == len(times) or times[first] > edges[n]:
                first = max(first - 1, 0)
            last = (bisect_right if n == width - 1 else bisect_left)(times, edges[n + 1])
            cells.append(max(became[first:last], default=Lane.ABSENT))
        return cells

    def worst(self, since: float, until: float) -> list[int]:
        """Return the brokers, those to whom most happened in a time first."""
        rank = {b: max(self.cells(b, since, until, 1)) for b in self.brokers}
        return sorted(rank, key=lambda b: (-rank[b], b))


def lanes_of(start: ClusterState, events: Iterable[Event]) -> Lanes:
    """Return the lanes of a cluster from a picture on, by what happened after it."""
    drawing = _LaneBuilder(start)
    for event in events:
        drawing.take(event)
    return Lanes(drawing.times, drawing.became)


class _LaneBuilder:
    def __init__(self, start: ClusterState) -> None:
        began = start.fetched_at.timestamp()
        self.alive: dict[int, bool] = {b.id: b.alive for b in start.brokers}
        behind = start.replica_broker[~start.in_sync & ~start.adding]
        self.behind: dict[int, int] = Counter(behind.tolist())
        self.times: dict[int, list[float]] = {}
        self.became: dict[int, list[Lane]] = {}
        self.mode = Lane.ABSENT
        for broker in start.broker_by_id:
            self._put(broker, began, self._now(broker))

    def take(self, event: Event) -> None:
        at = event.at.timestamp()
        match event.before, event.after:
            case (_, Broker(id, _, _, _, alive)):
                self.alive[id] = alive
                if event.kind & Kind.BROKER_UP:
                    self._put(id, at, Lane.BACK)
                self._put(id, at, self._now(id))
            case (Broker(id, _, _, _, _), None):
                self.alive.pop(id, None)
                self._put(id, at, Lane.ABSENT)
            case (Replicas() | None as before, Replicas() | None as after):
                self._replicas(at, before, after)
            case (_, Note(_, text, brokers)):
                if event.kind & Kind.AUTOPILOT:
                    self._add_autopilot(at, text)
                for id in brokers:
                    if id in self.times:
                        self._put(id, at, Lane.REPORTED)
                        self._put(id, at, self._now(id))
            case (_, int(seconds)) if event.kind & Kind.GAP and seconds > 0:
                for id in self.times.keys() - {AUTOPILOT}:
                    self._put(id, max(at - seconds, self.times[id][-1]), Lane.UNOBSERVED)
                    self._put(id, at, self._now(id))

    def _add_autopilot(self, at: float, text: str) -> None:
        match parse_clause(text):
            case None | EntryKind.ENDED:
                return
            case EntryKind.SWITCH:
                self.mode = _MODES.get(mode_of(text), Lane.ABSENT)
            case EntryKind.WAIT:
                self._put(AUTOPILOT, at, Lane.WAITED)
            case what:
                # Its mode may have been set before the first of what is shown.
                self.mode = Lane.SUGGESTS if what is EntryKind.SUGGEST else Lane.ACTS
                self._put(AUTOPILOT, at, Lane.DECIDED)
        self._put(AUTOPILOT, at, self.mode)

    def _replicas(self, at: float, before: Replicas | None, after: Replicas | None) -> None:
        touched = set()
        for of, sign in ((before, -1), (after, 1)):
            if of is None:
                continue
            for broker in of.replicas:
                if broker not in of.isr and broker not in of.adding:
                    self.behind[broker] = self.behind.get(broker, 0) + sign
                    touched.add(broker)
        for broker in touched:
            self._put(broker, at, self._now(broker))
        if before is not None and after is not None and before.leader != after.leader:
            for broker in {before.leader, after.leader} & self.alive.keys():
                self._put(broker, at, Lane.LEADS)
                self._put(broker, at, self._now(broker))

    def _now(self, broker: int) -> Lane:
        if broker not in self.alive:
            return Lane.ABSENT
        if not self.alive[broker]:
            return Lane.DOWN
        return Lane.BEHIND if self.behind.get(broker, 0) > 0 else Lane.UP

    def _put(self, broker: int, at: float, lane: Lane) -> None:
        times, became = self.times.setdefault(broker, []), self.became.setdefault(broker, [])
        if not became or became[-1] is not lane:
            times.append(at)
            became.append(lane)
