"""Clock offsets between brokers, from changes that several of them applied.

A new leader epoch or partition epoch reaches all of a partition's brokers within moments, so the
difference of the times at which two of them wrote it down is their clocks' difference and what one
was slower. Only a sample of the changes is kept, the same ones of each broker, whatever the logs'
size. Changes within one moment say no more than one of them: one election may be thousands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from zlib import crc32

from core.watch.statelog.event import LogEvent, LogEventKind

MAX_SAMPLE = 10_000
"""Changes in the sample at most."""
NEIGHBOURS = 8
"""With how many others a broker is compared at each change."""
MIN_MOMENTS = 3
MAX_SPREAD_MS = 1_000
_ONE_MOMENT_MS = 1_000
_APPLIED = (
    LogEventKind.FOLLOWER,
    LogEventKind.LEADER,
    LogEventKind.ISR,
    LogEventKind.METADATA,
    LogEventKind.REQUEST,
)

ChangeKey = tuple[str, int, int, int | None]
"""Topic, partition, leader epoch, partition epoch."""


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """One broker's clock against the one that stands in the middle."""

    broker: int
    ahead_ms: int | None
    """Positive when its clock is ahead; None when nothing tells."""
    within_ms: int
    """Half of what was seen lies within this."""
    moments: int
    """How many moments told, on the way to the middle one where they were fewest."""

    @property
    def sure(self) -> bool:
        return self.ahead_ms is not None and (
            self.moments >= MIN_MOMENTS and self.within_ms <= MAX_SPREAD_MS
        )


class ClockOffsets:
    """Notes changes as they pass; says at any time how far clocks are apart."""

    def __init__(self) -> None:
        self._mask = 0
        self._sample: dict[ChangeKey, dict[int, int]] = {}
        self._brokers: set[int] = set()

    def note(self, event: LogEvent) -> None:
        """Keep when this broker applied this change, if the change is in the sample."""
        at_ms, broker, by_controller, _, _, change, _, _, _, _ = event
        if broker is None:
            return
        self._brokers.add(broker)
        kind, topic, partition, _, epoch, version, _, _, _, before, _, _, _, _ = change
        if epoch is None or by_controller or kind not in _APPLIED:
            return
        # What a broker reads at its own start happened to the others long before.
        if before == -1 or topic is None or partition is None:
            return
        key = (topic, partition, epoch, version)
        if self._mask and _key_hash(key) & self._mask:
            return
        self._sample.setdefault(key, {}).setdefault(broker, at_ms)
        if len(self._sample) > MAX_SAMPLE:
            self._shrink_sample()

    def join(self, other: ClockOffsets) -> None:
        """Take in what another one noted of other files."""
        self._brokers |= other._brokers
        self._mask = max(self._mask, other._mask)
        for key, times in other._sample.items():
            mine = self._sample.setdefault(key, {})
            for broker, at_ms in times.items():
                mine[broker] = min(mine.get(broker, at_ms), at_ms)
        self._shrink_sample()

    def _shrink_sample(self) -> None:
        """Keep those of the sample only, which becomes smaller until it fits."""
        self._sample = {k: v for k, v in self._sample.items() if not _key_hash(k) & self._mask}
        while len(self._sample) > MAX_SAMPLE:
            self._mask = self._mask * 2 + 1
            self._sample = {k: v for k, v in self._sample.items() if not _key_hash(k) & self._mask}

    def offsets(self) -> tuple[ClockOffset, ...]:
        """Return every broker's offset, by id."""
        pairs = _pairs(self._sample.values())
        between = {pair: _pair_offset(times) for pair, times in pairs.items()}
        paths = _reachable_offsets(_reference_broker(between, self._brokers), between)
        known = sorted(ahead for ahead, _, _ in paths.values())
        middle = known[(len(known) - 1) // 2] if known else 0
        return tuple(
            ClockOffset(broker, paths[broker][0] - middle, *paths[broker][1:])
            if broker in paths
            else ClockOffset(broker, None, 0, 0)
            for broker in sorted(self._brokers)
        )


@lru_cache(maxsize=4096)
def _topic_checksum(topic: str) -> int:
    return crc32(topic.encode("utf-8", "replace"))


def _key_hash(key: ChangeKey) -> int:
    """Return a number that is the same in each process, and spreads keys evenly."""
    topic, partition, epoch, version = key
    # Of whole numbers only: what Python makes of a text, or of None, is each process's own.
    return hash((_topic_checksum(topic), partition, epoch, version or 0))


BrokerPair = tuple[int, int]


def _pairs(applied_at: Iterable[Mapping[int, int]]) -> dict[BrokerPair, list[tuple[int, int]]]:
    """Return the times at which two brokers applied the same changes."""
    pairs: dict[BrokerPair, list[tuple[int, int]]] = defaultdict(list)
    for times in applied_at:
        brokers = sorted(times)
        for at, broker in enumerate(brokers):
            for other in brokers[at + 1 : at + 1 + NEIGHBOURS]:
                pairs[broker, other].append((times[broker], times[other]))
    return pairs


def _pair_offset(times: list[tuple[int, int]]) -> tuple[int, int, int]:
    """Return how far the first is ahead, within what, and how many moments tell it.

    It is the middle of the shortest stretch that holds more than half of the moments: a broker
    that applied some changes minutes late does not shift it.
    """
    distances = sorted(_moments(times))
    half = len(distances) // 2 + 1
    start = min(
        range(len(distances) - half + 1), key=lambda i: distances[i + half - 1] - distances[i]
    )
    closest = distances[start : start + half]
    return round(median(closest)), (closest[-1] - closest[0] + 1) // 2, len(distances)


def _moments(times: list[tuple[int, int]]) -> list[int]:
    """Return one difference for each moment."""
    moments: list[list[int]] = []
    before: tuple[int, int] | None = None
    for time, other in sorted(times):
        near = (
            before is not None and max(time - before[0], abs(other - before[1])) <= _ONE_MOMENT_MS
        )
        if not near:
            moments.append([])
        moments[-1].append(time - other)
        before = (time, other)
    return [round(median(moment)) for moment in moments]


def _reference_broker(
    between: Mapping[BrokerPair, tuple[int, int, int]], brokers: set[int]
) -> int | None:
    """Return the broker that shares the most moments with others."""
    shared: dict[int, int] = defaultdict(int)
    for (first_broker, other), (_, _, moments) in between.items():
        shared[first_broker] += moments
        shared[other] += moments
    if not shared:
        return min(brokers, default=None)
    return max(sorted(shared), key=lambda broker: shared[broker])


def _reachable_offsets(
    root: int | None, between: Mapping[BrokerPair, tuple[int, int, int]]
) -> dict[int, tuple[int, int, int]]:
    """Return (ahead, within, moments) of the brokers that can be reached from one, surest first."""
    if root is None or not between:
        return {}
    edges: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
    for (first_broker, other), (ahead, within, moments) in between.items():
        edges[first_broker].append((other, -ahead, within, moments))
        edges[other].append((first_broker, ahead, within, moments))
    offsets = {root: (0, 0, max(moments for _, _, _, moments in edges[root]))}
    open_edges = [(root, edge) for edge in edges[root]]
    while open_edges:
        # Well-told pairs first, whatever lies between; then the narrowest.
        best = min(
            open_edges,
            key=lambda e: (e[1][3] < MIN_MOMENTS, offsets[e[0]][1] + e[1][2], -e[1][3], e[1][0]),
        )
        at, (broker, ahead, within, moments) = best
        ahead_before, within_before, moments_before = offsets[at]
        # `ahead` is broker's clock against that of `at`.
        offsets[broker] = ahead_before + ahead, within_before + within, min(moments_before, moments)
        open_edges = [
            (start, edge)
            for start, edge in [*open_edges, *((broker, edge) for edge in edges[broker])]
            if edge[0] not in offsets
        ]
    return offsets
