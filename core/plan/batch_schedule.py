"""When the next batch of a run may begin, and with which of its moves. Pure.

It is let in before the one before has wholly ended, so that no broker idles.
See docs/explanation/runs.md.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from core.cluster.metadata import TopicPartition
from core.cluster.quota import SLOT_SECONDS, SLOTS
from core.plan.batches import MAX_MOVES, BatchInput
from core.plan.copies import Copy, PlanCopies
from core.plan.plan import Plan

WINDOW_SECONDS = SLOTS * SLOT_SECONDS
"""How long a batch is in flight alone at least: one quota window."""


@dataclass(frozen=True, slots=True)
class InFlightMove:
    """A move in flight or about to be; each of its `destinations` gets `extra_bytes` of it."""

    batch: int
    long: bool = False
    destinations: tuple[int, ...] = ()
    extra_bytes: int = 0


def may_start(
    batch: Sequence[InFlightMove],
    in_flight: Collection[InFlightMove],
    since_submission_seconds: float,
    *,
    max_extra_bytes: int | None,
) -> bool:
    """Return whether the next batch may be submitted beside what is in flight.

    At most one earlier batch may still be in flight, long moves not counted; it must have been
    for a quota window; and together they stay within twice MAX_MOVES, and no destination holds
    more than `max_extra_bytes`.
    """
    if not in_flight:
        return True
    if since_submission_seconds < WINDOW_SECONDS:
        return False
    if len({flight.batch for flight in in_flight if not flight.long}) > 1:
        return False
    if len(in_flight) + len(batch) > 2 * MAX_MOVES:
        return False
    if max_extra_bytes is None:
        return True
    held = _arriving(in_flight)
    comes = _arriving(batch)
    return all(
        held.get(b, 0) == 0 or held[b] + size <= max_extra_bytes for b, size in comes.items()
    )


def select_fitting(
    batch: Sequence[InFlightMove], in_flight: Collection[InFlightMove], max_extra_bytes: int | None
) -> list[int]:
    """Return which of a batch may begin now, by their places, so that no destination holds more.

    One that is larger by itself begins where its destinations receive nothing else.
    """
    if max_extra_bytes is None:
        return list(range(len(batch)))
    held = _arriving(in_flight)
    places = []
    for place, flight in enumerate(batch):
        there = [held.get(broker, 0) for broker in flight.destinations]
        if all(not size or size + flight.extra_bytes <= max_extra_bytes for size in there):
            places.append(place)
            for broker, size in zip(flight.destinations, there, strict=True):
                held[broker] = size + flight.extra_bytes
    return places


def _arriving(flights: Iterable[InFlightMove]) -> dict[int, int]:
    bytes_by_broker: defaultdict[int, int] = defaultdict(int)
    for flight in flights:
        for broker in flight.destinations:
            bytes_by_broker[broker] += flight.extra_bytes
    return bytes_by_broker


BETWEEN_SECONDS = 0.8
"""From the moment at which a batch may begin until it is copied: polled, listed, submitted."""


@dataclass(frozen=True, slots=True)
class CopyBatches:
    """The number of each copy's batch; no later batch waits for the copies that are `long`."""

    number: tuple[int, ...]
    long: frozenset[int] = frozenset()
    max_extra_bytes: int | None = None

    @classmethod
    def at_once(cls, copies: int) -> CopyBatches:
        return cls((0,) * copies)

    @classmethod
    def of(
        cls,
        plan: Plan,
        what: PlanCopies,
        work: BatchInput,
        rate_bytes_per_s: int,
        max_extra_bytes: int | None = None,
    ) -> CopyBatches:
        """Return the batches of a run at this rate."""
        if len(what.copies) < 2:
            return cls.at_once(len(what.copies))
        schedule = work.in_batches(
            rate_bytes_per_s=rate_bytes_per_s, max_extra_bytes=max_extra_bytes
        )
        move_of = {move.tp: index for index, move in enumerate(plan)}
        batch_of = {index: n for n, batch in enumerate(schedule.batches) for index in batch}
        moves = [move_of[copy.tp] for copy in what.copies]
        return cls(
            tuple(batch_of[index] for index in moves),
            frozenset(at for at, index in enumerate(moves) if index in schedule.long),
            max_extra_bytes,
        )


class Submissions:
    """What is in flight, and when the next batch begins (core.plan.batch_schedule.may_start).

    `begins_at` is that time in seconds from the first submission, infinite while it waits for
    what is in flight, or when there is none left. `begun` tells when each copy was submitted.
    """

    def __init__(
        self,
        copies: Sequence[Copy],
        batches: CopyBatches,
        in_flight: Collection[int] = (),
        last: float = 0.0,
    ) -> None:
        """Begin with the copies `in_flight`, the newest of them submitted at `last`."""
        self._copies, self._batches = copies, batches
        parts: defaultdict[int, list[int]] = defaultdict(list)
        for at, number in enumerate(batches.number):
            if at not in in_flight:
                parts[number].append(at)
        self._waiting = [parts[number] for number in sorted(parts, reverse=True)]
        self._open: Counter[TopicPartition] = Counter()
        self._in_flight: Counter[int] = Counter()
        self._arriving: dict[TopicPartition, InFlightMove] = {}
        self._last = 0.0
        self.begun: dict[int, float] = {}
        self.begins_at = 0.0 if copies else math.inf
        if in_flight:
            self._submit(sorted(in_flight), last)
            self._plan_next(0.0)

    @property
    def waiting(self) -> list[int]:
        """Return the copies that have not begun."""
        return [at for part in self._waiting for at in part]

    def begin(self, now: float) -> list[int]:
        """Submit the next batch, or what of it may arrive now, and return its copies."""
        batch = self._waiting.pop()
        part = self._fitting(batch)
        if len(part) < len(batch):
            begun = set(part)
            self._waiting.append([at for at in batch if at not in begun])
        self._submit(part, now)
        self._plan_next(now)
        return part

    def _submit(self, part: Sequence[int], now: float) -> None:
        self.begun |= dict.fromkeys(part, now)
        for at in part:
            self._open[self._copies[at].tp] += 1
        for at in {self._copies[at].tp: at for at in part}.values():
            self._in_flight[self._counted(at)] += 1
        if self._batches.max_extra_bytes is not None:
            self._arriving |= self._in_flight_moves(part)
        self._last = now

    def caught_up(self, at: int, now: float) -> None:
        """Take in that a copy has ended; its partition has with the last of its copies."""
        tp = self._copies[at].tp
        self._open[tp] -= 1
        if not self._open[tp]:
            batch = self._counted(at)
            self._in_flight[batch] -= 1
            if not self._in_flight[batch]:
                del self._in_flight[batch]
            self._arriving.pop(tp, None)
            self._plan_next(now)

    def _counted(self, at: int) -> int:
        """Return the batch that a copy holds up; long ones hold up none."""
        return -1 if at in self._batches.long else self._batches.number[at]

    def _fitting(self, batch: list[int]) -> list[int]:
        """Return the copies of a batch that may begin beside what is in flight."""
        max_bytes = self._batches.max_extra_bytes
        if max_bytes is None:
            return batch
        flights = self._in_flight_moves(batch)
        places = set(select_fitting(list(flights.values()), self._arriving.values(), max_bytes))
        begin = {tp for place, tp in enumerate(flights) if place in places}
        return [at for at in batch if self._copies[at].tp in begin]

    def _in_flight_moves(self, part: Sequence[int]) -> dict[TopicPartition, InFlightMove]:
        destinations: defaultdict[TopicPartition, list[int]] = defaultdict(list)
        for at in part:
            destinations[self._copies[at].tp].append(self._copies[at].destination)
        sizes = {self._copies[at].tp: round(self._copies[at].size_bytes) for at in part}
        return {
            tp: InFlightMove(0, destinations=tuple(brokers), extra_bytes=sizes[tp])
            for tp, brokers in destinations.items()
        }

    def _plan_next(self, now: float) -> None:
        part = self._fitting(self._waiting[-1]) if self._waiting else []
        if not part:
            self.begins_at = math.inf
        elif not self._in_flight:
            self.begins_at = now + BETWEEN_SECONDS
        elif (
            len(self._in_flight.keys() - {-1}) > 1
            or self._in_flight.total() + len(part) > 2 * MAX_MOVES
        ):
            self.begins_at = math.inf
        else:
            self.begins_at = max(now, self._last + WINDOW_SECONDS) + BETWEEN_SECONDS
