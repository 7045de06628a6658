"""The merge: events of many logs in the order of time, filtered, and signs of mixed clusters.

A file is in order but for small disorder (threads that wait for one appender), which a buffer
mends. It is opened once the merge comes to its first time, and closed at its end: rotated files
need no more handles than one. Nothing proves that logs are not of one cluster, or that one is there
twice: state-change logs do not name their cluster.
"""

from __future__ import annotations

import re
from bisect import insort
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush, heapreplace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from core.watch.statelog import messages
from core.watch.statelog.clock_offsets import ClockOffsets
from core.watch.statelog.event import LogEvent, LogEventKind, new_tuple
from core.watch.statelog.files import LogFile, Record, read_records

SAME_TIME_MS = 60_000
"""Two files that one broker wrote at once for longer than this are of two brokers, or copies."""
BOTH_MS = 60_000
"""A topic that is told with two ids by turns for longer than this is two topics."""
MAX_TOPICS = 100_000


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One sign: which broker or topic, where, and when."""

    broker: int | None
    topic: str | None
    files: tuple[Path, ...]
    from_ms: int
    to_ms: int


@dataclass(slots=True)
class MixedClusterCheck:
    """Notes events as they pass: when brokers wrote in which files, and topics' ids were told."""

    _spans: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _ids: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def note(self, event: LogEvent, source: int) -> None:
        """Stretch the spans of its broker in this file, and of its topic's id, to its time."""
        at_ms, change = event.at_ms, event.change
        if event.broker is not None:
            span = self._spans.get((event.broker, source))
            if span is None:
                self._spans[event.broker, source] = [at_ms, at_ms]
            else:
                span[1] = at_ms
        if change.topic_id is not None and change.topic is not None:
            span = self._ids.get((change.topic, change.topic_id))
            if span is not None:
                span[1] = at_ms
            elif len(self._ids) < MAX_TOPICS:
                self._ids[change.topic, change.topic_id] = [at_ms, at_ms]

    def join(self, other: MixedClusterCheck) -> None:
        """Take in what another one noted of other files."""
        self._spans |= other._spans
        for key, span in other._ids.items():
            mine = self._ids.setdefault(key, span)
            mine[:] = min(mine[0], span[0]), max(mine[1], span[1])

    def suspicions(self, sources: Sequence[LogFile]) -> tuple[Suspicion, ...]:
        """Return one for each broker, and each topic, that is in two places at once."""
        suspicions: list[Suspicion] = []
        paths = {source.number: source.path for source in sources}
        # A broker writes its server.log at the same time.
        of_broker: dict[tuple[int, bool], list[tuple[int, int, int]]] = {}
        for (broker, source), (first, last) in self._spans.items():
            log = (broker, paths[source].name.startswith("server"))
            of_broker.setdefault(log, []).append((first, last, source))
        for (broker, _), spans in sorted(of_broker.items()):
            spans.sort()
            until, held = spans[0][1], spans[0][2]
            for first, last, source in spans[1:]:
                if min(until, last) - first > SAME_TIME_MS:
                    files = (paths[held], paths[source])
                    suspicions.append(Suspicion(broker, None, files, first, min(until, last)))
                    break
                if last > until:
                    until, held = last, source
        of_topic: dict[str, list[list[int]]] = {}
        for (topic, _), span in self._ids.items():
            of_topic.setdefault(topic, []).append(span)
        for topic, ids in sorted(of_topic.items()):
            ids.sort()
            for (_, until), (first, last) in pairwise(ids):
                if min(until, last) - first > BOTH_MS:
                    suspicions.append(Suspicion(None, topic, (), first, min(until, last)))
                    break
        return tuple(suspicions)


BUFFERED_RECORDS = 64
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


def merge_records(
    sources: Sequence[LogFile],
    disorder: Disorder,
    shifts_ms: Mapping[int, int] = MappingProxyType({}),
    counted_ms: tuple[int, int] = (-(2**62), 2**62),
) -> Iterator[Record]:
    """Yield the records of all sources by time; at one time, by file and then by line.

    `shifts_ms` is added to the times of what these brokers wrote. What is out of order by more
    than the buffer holds keeps its place in its file, and is counted if its time is in
    `counted_ms`.
    """
    shifts = {s.number: 0 if s.broker is None else shifts_ms.get(s.broker, 0) for s in sources}
    # Latest first: the next to be opened stands at the end.
    closed = sorted(sources, key=lambda s: (s.first_ms + shifts[s.number], s.number), reverse=True)
    heap: list[_Keyed] = []
    opened: dict[int, Iterator[_Keyed]] = {}

    def open_next() -> None:
        source = closed.pop()
        keyed = opened[source.number] = _with_keys(
            source, shifts[source.number], disorder, counted_ms
        )
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


def _with_keys(
    source: LogFile, shift_ms: int, disorder: Disorder, counted_ms: tuple[int, int]
) -> Iterator[_Keyed]:
    """Yield one source's records with a key (time, file, place) that never goes back."""
    number = source.number
    last_ms = -(2**62)
    for place, record in enumerate(_sorted_records(source)):
        at_ms = record.at_ms + shift_ms
        if at_ms >= last_ms:
            last_ms = at_ms
        elif counted_ms[0] <= at_ms < counted_ms[1]:
            disorder.records += 1
            disorder.longest_ms = max(disorder.longest_ms, last_ms - at_ms)
        yield last_ms, number, place, record


def _sorted_records(source: LogFile) -> Iterator[Record]:
    """Yield one source's records, late ones in their place as far as the buffer reaches."""
    held: deque[Record] = deque()
    for record in read_records(source):
        if held and record < held[-1]:  # records compare by time, then by line
            insort(held, record)
        else:
            held.append(record)
        if len(held) > BUFFERED_RECORDS:
            yield held.popleft()
    yield from held


_UNKNOWN = LogEventKind.UNKNOWN
_LOGGER = " (state.change.logger)"
_TAIL = re.compile(r" \((?:state\.change\.logger|(?:org\.apache\.)?kafka\.[\w.$]+)\)(?: \[.*\])?$")
_OTHER_LOGGER = re.compile(r" \((?!state\.change\.logger\))[\w.$]+\)(?: \[.*\])?$")
"""The end of a record of a logger that tells no state changes, as most of server.log is."""
_BROKER = re.compile(r"(Broker|Controller) id=(\d{1,10})(?: epoch=(\d{1,10}))?")
_PARTITION = re.compile(r"Partition ([a-zA-Z0-9._-]+)-(\d{1,10}) broker=(\d{1,10})")
_NAMES = re.compile(r"[\s,]([^\s,]+)-(\d{1,10})(?=[\s,])")


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are asked for; times in milliseconds since 1970, the later one not included."""

    from_ms: int | None = None
    to_ms: int | None = None
    topic: re.Pattern[str] | None = None
    """Matches whole names."""
    partitions: frozenset[int] | None = None
    unknown: bool = False
    """Records of unknown form, too."""

    def keeps(self, event: LogEvent) -> bool:
        """Return whether an event of the wanted time is about a wanted partition."""
        if self.topic is None and self.partitions is None:
            return True
        change = event.change
        if change.topic is not None or change.partition is not None:
            return self._names(change.topic or "", change.partition)
        # Some records name several partitions.
        return change.kind is LogEventKind.OFFLINE and any(
            self._names(topic, int(partition)) for topic, partition in _NAMES.findall(event.text)
        )

    def _names(self, topic: str, partition: int | None) -> bool:
        if self.topic is not None and self.topic.fullmatch(topic) is None:
            return False
        return self.partitions is None or partition in self.partitions


@dataclass(slots=True)
class MergeTally:
    """What is noted of events as they pass, whether they are given out or not."""

    events: int = 0
    """Given out."""
    unknown: int = 0
    """Records of unknown form in the wanted time; lines before a file's first record too."""
    strange: int = 0
    """Those of them that another logger did not write, without lines before a first record."""
    first_ms: int | None = None
    last_ms: int | None = None
    """The span of what was given out."""
    topics: set[str] = field(default_factory=set)
    """Topics seen in the wanted time, whether wanted or not; MAX_TOPICS of them at most."""
    clocks: ClockOffsets = field(default_factory=ClockOffsets)
    mixed_clusters: MixedClusterCheck = field(default_factory=MixedClusterCheck)
    disorder: Disorder = field(default_factory=Disorder)

    def join(self, other: MergeTally) -> None:
        """Take in what was noted of other files."""
        self.events += other.events
        self.unknown += other.unknown
        self.strange += other.strange
        self.first_ms = min(_known_times(self.first_ms, other.first_ms), default=None)
        self.last_ms = max(_known_times(self.last_ms, other.last_ms), default=None)
        self.topics |= other.topics
        self.clocks.join(other.clocks)
        self.mixed_clusters.join(other.mixed_clusters)
        self.disorder.records += other.disorder.records
        self.disorder.longest_ms = max(self.disorder.longest_ms, other.disorder.longest_ms)


def _known_times(*times: int | None) -> list[int]:
    return [at_ms for at_ms in times if at_ms is not None]


@dataclass(frozen=True, slots=True)
class Merge:
    """Yields events by iterating, once; then the tally is whole."""

    sources: Sequence[LogFile]
    event_filter: EventFilter = field(default_factory=EventFilter)
    shifts_ms: Mapping[int, int] = field(default_factory=dict)
    """What is added to the times of a broker."""
    tally: MergeTally = field(default_factory=MergeTally)

    def __iter__(self) -> Iterator[LogEvent]:
        chosen, tally = self.event_filter, self.tally
        from_ms = -(2**62) if chosen.from_ms is None else chosen.from_ms
        to_ms = 2**62 if chosen.to_ms is None else chosen.to_ms
        readers = {source.number: RecordReader(source).event for source in self.sources}
        note, watch, topics = tally.clocks.note, tally.mixed_clusters.note, tally.topics
        everything = chosen.topic is None and chosen.partitions is None
        for record in merge_records(self.sources, tally.disorder, self.shifts_ms, (from_ms, to_ms)):
            if not from_ms <= record.at_ms < to_ms:
                continue
            event = readers[record.source](record)
            note(event)
            watch(event, record.source)
            change = event.change
            if change.kind is _UNKNOWN:
                tally.unknown += 1
                if record.level and _OTHER_LOGGER.search(record.body) is None:
                    tally.strange += 1
                if not chosen.unknown:
                    continue
            elif change.topic is not None and len(topics) < MAX_TOPICS:
                topics.add(change.topic)
            if not everything and not chosen.keeps(event):
                continue
            tally.events += 1
            if tally.first_ms is None:
                tally.first_ms = event.at_ms
            tally.last_ms = event.at_ms
            yield event


class Writer(NamedTuple):
    """Who wrote a record, from the brackets in front of its message."""

    broker: int | None
    by_controller: bool = False
    controller_epoch: int | None = None
    topic: str | None = None
    partition: int | None = None


class RecordReader:
    """Reads what the records of one file tell; mostly the same broker wrote one as the last."""

    def __init__(self, source: LogFile) -> None:
        self._file, self._unsaid = str(source.path), Writer(source.broker)
        self._head, self._writer = "", self._unsaid

    def event(self, record: Record) -> LogEvent:
        """Return what a record tells."""
        at_ms, _, line, level, body, following = record
        end = len(body)
        if body.endswith(_LOGGER):
            end -= len(_LOGGER)
        elif tail := _TAIL.search(body) if ") [" in body or body.endswith(")") else None:
            end = tail.start()
        if self._head and body.startswith(self._head):
            text, writer = body[len(self._head) : end], self._writer
        else:
            begin, writer = self._begin(body)
            text = body[begin:end]
        broker, by_controller, epoch, topic, partition = writer
        change = messages.parse_message(text)
        if topic is not None and change.topic is None and change.kind is not _UNKNOWN:
            change = change._replace(topic=topic, partition=partition)
        more = tuple(following) if following else ()
        return new_tuple(
            LogEvent,
            (at_ms, broker, by_controller, epoch, level, change, text, more, self._file, line),
        )

    def _begin(self, body: str) -> tuple[int, Writer]:
        """Return where the message begins, and who wrote it; keeps both for the next one."""
        end = body.find("] ") if body.startswith("[") else -1
        writer = _writer(body[1:end]) if end > 0 else None
        if writer is None:
            return 0, self._unsaid
        self._head, self._writer = body[: end + 2], writer
        return end + 2, writer


@lru_cache(maxsize=4096)
def _writer(text: str) -> Writer | None:
    if match := _BROKER.fullmatch(text):
        epoch = int(match[3]) if match[3] else None
        return Writer(int(match[2]), match[1] == "Controller", epoch)
    if match := _PARTITION.fullmatch(text):
        return Writer(int(match[3]), topic=match[1], partition=int(match[2]))
    return None
