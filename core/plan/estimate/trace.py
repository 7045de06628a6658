"""The trace of simulated copies: when each began and ended, and bytes moved over time.

Fetches come in bursts: what was fetched is told by quota windows, what flowed by its changes of
rate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from core.cluster.quota import SLOT_SECONDS, SLOTS
from core.plan.copies import BrokerSide, Copy, Flow, Side
from core.plan.estimate.average_rates import FluidFlows

MIN_CELL_SECONDS = SLOTS * SLOT_SECONDS
"""One quota window: what passes in less of it is a burst, and no rate."""
CHANGE = 0.05
"""A rate that changes by less than this share of a side's highest one is the same rate.

So many fetches are taken together that one of them is no change either."""
MAX_STEPS = 40
"""Of one side; where there are more, smaller changes are left out."""

Floats = npt.NDArray[np.float64]


class Fetch(NamedTuple):
    """What a fetch brought, in bytes that are not fetched again; `at` is when it was asked for."""

    at: float
    flow: Flow
    bytes: float


class Step(NamedTuple):
    """So many bytes/s from `start` to `end`, in seconds."""

    start: float
    end: float
    bytes_per_s: float

    @property
    def bytes(self) -> float:
        return (self.end - self.start) * self.bytes_per_s


@dataclass(frozen=True, eq=False)
class Trace:
    """All in seconds from the first submission; `ends` and `begun` are by copy, infinite is never.

    Until `simulated_until` fetches were simulated one by one, then it `flowed` (infinite: never).
    `when` and `steps` take `stretch` times what was simulated.
    """

    copies: Sequence[Copy]
    ends: list[float]
    begun: Mapping[int, float]
    fetches: Sequence[Fetch]
    simulated_until: float
    flowed: FluidFlows | None = None
    stretch: float = 1.0

    @property
    def submissions(self) -> tuple[float, ...]:
        """Return when batches, or what of them could begin, were submitted."""
        return tuple(sorted({begun * self.stretch for begun in self.begun.values()}))

    def when(self, at: int) -> tuple[float, float]:
        """Return from when to when a copy is in flight."""
        end = self.ends[at]
        return min(self.begun.get(at, end), end) * self.stretch, end * self.stretch

    @cached_property
    def _in_flight(self) -> Mapping[BrokerSide, list[tuple[float, float]]]:
        """Return when each side has copies in flight; short pauses count, a fetch is a second."""
        of: defaultdict[BrokerSide, list[tuple[float, float]]] = defaultdict(list)
        for at, copy in enumerate(self.copies):
            end = self.ends[at]
            for side in copy.flow.sides:
                of[side].append((min(self.begun.get(at, 0.0), end - SLOT_SECONDS), end))
        for side, intervals in of.items():
            joined: list[tuple[float, float]] = []
            for begin, end in sorted(intervals):
                if joined and begin <= joined[-1][1] + MIN_CELL_SECONDS:
                    joined[-1] = joined[-1][0], max(joined[-1][1], end)
                else:
                    joined.append((begin, end))
            of[side] = joined
        return dict(of)

    @cached_property
    def _fetches_by_side(self) -> Mapping[BrokerSide, tuple[list[float], list[float]]]:
        of: defaultdict[BrokerSide, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
        for at, flow, size in self.fetches:
            for side in flow.sides:
                of[side][0].append(at)
                of[side][1].append(size)
        return of

    @cached_property
    def _cumulative_flow(self) -> Mapping[BrokerSide, Floats]:
        """Return what each side has moved since the flow began, at each of its times."""
        bytes_by_side: dict[BrokerSide, Floats] = {}
        flowed = self.flowed
        if flowed is None or not flowed.sent:
            return bytes_by_side
        for side, brokers, moved in (
            (Side.LEADER, flowed.leaders, flowed.sent),
            (Side.FOLLOWER, flowed.destinations, flowed.received),
        ):
            whole = np.vstack([np.zeros(len(brokers)), *moved]).cumsum(axis=0)
            bytes_by_side |= {
                BrokerSide(int(broker), side): whole[:, i] for i, broker in enumerate(brokers)
            }
        return bytes_by_side

    @property
    def sides(self) -> tuple[BrokerSide, ...]:
        return tuple(self._in_flight)

    def steps(self, side: BrokerSide) -> tuple[Step, ...]:
        """Return what a side copies over time: all of it, until its last copy ends."""
        borders = self._borders(side)
        when, sizes = self._fetches_by_side.get(side, ([], []))
        moved = np.histogram(when, borders, weights=sizes)[0].astype(np.float64)
        flowed = self._cumulative_flow.get(side)
        if flowed is not None and self.flowed is not None:
            moved += np.diff(np.interp(borders, self.flowed.times, flowed))
        rates = moved / np.diff(borders)
        share = CHANGE
        while True:
            level = np.round(rates / max(float(rates.max()) * share, 1e-9))
            cuts = np.flatnonzero(np.diff(level)) + 1
            if len(cuts) < MAX_STEPS:
                break
            share *= 2
        places = np.concatenate([[0], cuts, [len(rates)]])
        whole = np.concatenate([[0.0], moved.cumsum()])
        steps = (
            Step(start * self.stretch, end * self.stretch, size / (end - start) / self.stretch)
            for start, end, size in zip(
                borders[places[:-1]].tolist(),
                borders[places[1:]].tolist(),
                np.diff(whole[places]).tolist(),
                strict=True,
            )
        )
        return tuple(step for step in steps if step.bytes_per_s > 0)

    def _borders(self, side: BrokerSide) -> Floats:
        """Return where cells begin and end: what was fetched, then each change."""
        when, _ = self._fetches_by_side.get(side, ([], []))
        times = np.array(self.flowed.times if self.flowed is not None else [])
        borders: set[float] = set()
        for begin, end in self._in_flight[side]:
            flows_from = begin
            if begin < self.simulated_until:
                flows_from = min(end, max(self.simulated_until, begin + MIN_CELL_SECONDS))
                fetches = bisect_left(when, flows_from) - bisect_left(when, begin)
                cells = min((flows_from - begin) / MIN_CELL_SECONDS, fetches * CHANGE)
                borders.update(np.linspace(begin, flows_from, max(1, int(cells)) + 1).tolist())
            borders.update(times[(times > flows_from) & (times < end)].tolist())
            borders |= {begin, end}
        return np.array(sorted(borders))
