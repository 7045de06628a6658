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
) -> Iterator[Record]:
    """Yield the records of all sources by time; at one time, by file and then by line.

    `shifts_ms` is added to the times of what these brokers wrote. What is out of order by more
    than HELD records keeps its place in its file, and is counted.
    """
    shifts = {source.number: shifts_ms.get(_broker(source), 0) for source in sources}
    # Latest first: the next to be opened stands at the end.
    closed = sorted(sources, key=lambda s: (s.first_ms + shifts[s.number], s.number), reverse=True)
    heap: list[tuple[int, int, int, Record, Iterator[tuple[int, int, int, Record]]]] = []

    def open_next() -> None:
        source = closed.pop()
        keyed = _keyed(source, shifts[source.number], disorder)
        first = next(keyed, None)
        if first is not None:
            heappush(heap, (*first, keyed))

    while heap or closed:
        if not heap:
            open_next()
            continue
        at_ms, _, _, record, keyed = heap[0]
        while closed and closed[-1].first_ms + shifts[closed[-1].number] - EARLY_MS <= at_ms:
            open_next()
            at_ms, _, _, record, keyed = heap[0]
        following = next(keyed, None)
        if following is None:
            heappop(heap)
        else:
            heapreplace(heap, (*following, keyed))
        shift = shifts[record.source]
        yield record._replace(at_ms=record.at_ms + shift) if shift else record


def _broker(source: Source) -> int:
    return -1 if source.broker is None else source.broker


def _keyed(
    source: Source, shift_ms: int, disorder: Disorder
) -> Iterator[tuple[int, int, int, Record]]:
    """Yield one source's records with a key (time, file, place) that never goes back."""
    held: deque[Record] = deque()
    last_ms = -(2**62)
    place = 0
    for record in records(source):
        if held and record < held[-1]:  # records compare by time, then by line
            insort(held, record)
        else:
            held.append(record)
        if len(held) > HELD:
            place += 1
            ready = held.popleft()
            last_ms = _key(ready, shift_ms, last_ms, disorder)
            yield last_ms, source.number, place, ready
    for ready in held:
        place += 1
        last_ms = _key(ready, shift_ms, last_ms, disorder)
        yield last_ms, source.number, place, ready


def _key(record: Record, shift_ms: int, last_ms: int, disorder: Disorder) -> int:
    """Return by what a record is ordered: its time, or that of the one before if that is later."""
    at_ms = record.at_ms + shift_ms
    if at_ms < last_ms:
        disorder.records += 1
        disorder.longest_ms = max(disorder.longest_ms, last_ms - at_ms)
        return last_ms
    return at_ms
