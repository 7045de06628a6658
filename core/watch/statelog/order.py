"""Records of many files in the order of time, however many bytes they have.

A file is in order but for small disorder (threads that wait for one appender), which a buffer
mends. It is opened once the merge comes to its first time, and closed at its end: rotated files
need no more handles than one.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from types import MappingProxyType

from core.watch.statelog.sources import Record, Source, records

HELD = 64
"""Records of one file that are held back, so that late ones find their place among them."""
EARLY_MS = 10_000
"""How long before its first time a file is opened, as that may not be its earliest."""


_Keyed = tuple[int, int, int, Record]
"""Time, file, place in it: no two are equal, so that records are not compared."""


@dataclass(slots=True)
class Disorder:
    """What no buffer could mend: records later in their file than others of a later time."""

    records: int = 0
    longest_ms: int = 0
    """The furthest that one of them lies back."""


def in_order(
    sources: Sequence[Source],
    disorder: Disorder,
    shifts_ms: Mapping[int, int] = MappingProxyType({}),
    counted_ms: tuple[int, int] = (-(2**62), 2**62),
) -> Iterator[Record]:
    """Yield the records of all sources by time; at one time, by file and then by line.

    `shifts_ms` is added to the times of what these brokers wrote. What is out of order by more
    than HELD records keeps its place in its file, and is counted if its time is in `counted_ms`.
    """
    shifts = {source.number: shifts_ms.get(_broker(source), 0) for source in sources}
    # Latest first: the next to be opened stands at the end.
    closed = sorted(sources, key=lambda s: (s.first_ms + shifts[s.number], s.number), reverse=True)
    heap: list[_Keyed] = []
    opened: dict[int, Iterator[_Keyed]] = {}

    def open_next() -> None:
        source = closed.pop()
        keyed = opened[source.number] = _keyed(source, shifts[source.number], disorder, counted_ms)
        first = next(keyed, None)
        if first is not None:
            heappush(heap, first)

    while heap or closed:
        if not heap:
            open_next()
            continue
        at_ms, number, _, record = heap[0]
        while closed and closed[-1].first_ms + shifts[closed[-1].number] - EARLY_MS <= at_ms:
            open_next()
            at_ms, number, _, record = heap[0]
        following = next(opened[number], None)
        if following is None:
            heappop(heap)
            del opened[number]
        else:
            heapreplace(heap, following)
        shift = shifts[number]
        yield record._replace(at_ms=record.at_ms + shift) if shift else record


def _broker(source: Source) -> int:
    return -1 if source.broker is None else source.broker


def _keyed(
    source: Source, shift_ms: int, disorder: Disorder, counted_ms: tuple[int, int]
) -> Iterator[_Keyed]:
    """Yield one source's records with a key (time, file, place) that never goes back."""
    number = source.number
    last_ms = -(2**62)
    for place, record in enumerate(_mended(source)):
        at_ms = record.at_ms + shift_ms
        if at_ms >= last_ms:
            last_ms = at_ms
        elif counted_ms[0] <= at_ms < counted_ms[1]:
            disorder.records += 1
            disorder.longest_ms = max(disorder.longest_ms, last_ms - at_ms)
        yield last_ms, number, place, record


def _mended(source: Source) -> Iterator[Record]:
    """Yield one source's records, late ones in their place as far as HELD of them reach."""
    held: deque[Record] = deque()
    for record in records(source):
        if held and record < held[-1]:  # records compare by time, then by line
            insort(held, record)
        else:
            held.append(record)
        if len(held) > HELD:
            yield held.popleft()
    yield from held
