"""The files of a merge: found in folders, plain or gz, and read as records in constant memory."""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from stat import S_ISREG
from typing import IO, NamedTuple, cast

from core.errors import UsageError
from core.watch.statelog.event import new_tuple
from core.watch.statelog.timestamps import (
    LEVELS,
    MAX_LINE,
    STAMP,
    TIMED,
    TimestampParser,
    TimeZones,
    clock_set_back_ms,
    decode_line,
    last_repeat_ms,
)

GZIP = b"\x1f\x8b"
CHUNK_BYTES = 1 << 16
PEEKED_BYTES = 1 << 20
"""How far into a file its first time is looked for."""

_OVERLAP_MS = 60_000
"""Threads write out of order, so a file may begin so much earlier than the one before it ends."""

_KAFKAS = tuple(f"] {level} [" for level in LEVELS)
"""What follows `[2026-01-31 02:30:00,123` in Kafka's own layout; the bracket begins the message."""

_WRITER = re.compile(r"\[(?:Broker|Controller) id=(\d{1,10})\b|\[Partition \S+ broker=(\d{1,10})\b")


class Record(NamedTuple):
    """One record as it stands in a file; its message is not yet read."""

    at_ms: int
    source: int
    line: int
    level: str
    body: str
    more: list[str]


@dataclass(slots=True)
class LogFile:
    """One file: what is known of it before it is read, and what became of it."""

    path: Path
    number: int
    size_bytes: int
    zone: tzinfo
    broker: int | None
    """Who wrote its first record that says so."""
    first_ms: int
    since_ms: int | None = None
    """When it begins, if that is in the second one of an hour that comes twice."""
    lines: int = 0
    headless: int = 0
    """Lines before the first time: the end of a record that stands in an older file."""
    strange: int = 0
    """Lines that begin with a time, and are of no known layout; they go with the record before."""
    trouble: str | None = None
    """Why it was not read to its end, or that its end is cut short."""
    whole: bool = True
    """False when something of it could not be read."""
    read_bytes: int = 0
    begin_byte: int = 0
    """Where reading begins, at a record; of a plain file only."""
    stop_ms: int | None = None
    """Reading ends at the first record after this time."""

    def become(self, read: LogFile) -> None:
        """Take over what became of this file where another process read it."""
        self.lines, self.headless, self.read_bytes = read.lines, read.headless, read.read_bytes
        self.strange = read.strange
        self.trouble, self.whole = read.trouble, read.whole


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of a merge, and those that cannot be part of it with the reason."""

    sources: tuple[LogFile, ...]
    left_out: tuple[tuple[Path, str], ...]
    twice: tuple[Path, ...] = ()
    """Named more than once; read once."""


def find_log_files(named: Iterable[Path], zones: TimeZones) -> LogFiles:
    """Return the logs that are named, and those in the folders that are named.

    Raises UsageError for a name that is not there, and for a folder without any such log.
    """
    paths, left_out, twice = _collect_paths(named)
    sources: list[LogFile] = []
    for path in sorted(paths):
        try:
            sources.append(_open_log_file(path, len(sources), zones))
        except OSError as error:
            left_out.append((path, error.strerror or "it is no gzip file"))
        except (EOFError, zlib.error):
            left_out.append((path, "it is no whole gzip file"))
        except ValueError as error:
            left_out.append((path, str(error)))
    _resolve_repeated_hours(sources)
    return LogFiles(tuple(sources), tuple(left_out), tuple(twice))


def _collect_paths(named: Iterable[Path]) -> tuple[list[Path], list[tuple[Path, str]], list[Path]]:
    """Return the files to read, those that are left out and why, and those named twice."""
    paths: dict[tuple[int, int], Path] = {}
    left_out: list[tuple[Path, str]] = []
    twice: list[Path] = []

    def take(path: Path) -> None:
        try:
            status = path.stat()
        except OSError as error:
            left_out.append((path, error.strerror or "it cannot be read"))
            return
        if not S_ISREG(status.st_mode):
            left_out.append((path, "it is no plain file, which can be read again; copy it"))
        elif (key := (status.st_dev, status.st_ino)) in paths:
            twice.append(path)
        else:
            paths[key] = path

    def refused(error: OSError) -> None:
        left_out.append((Path(str(error.filename)), error.strerror or "it cannot be read"))

    for path in named:
        if not path.exists():
            raise UsageError(f"There is no {path}.", next="Name logs, or folders with logs.")
        if not path.is_dir():
            take(path)
            continue
        inside = [
            Path(place) / name
            for place, _, names in os.walk(path, onerror=refused)
            for name in sorted(names)
            if name.startswith("state-change") and ".log" in name
        ]
        if not inside and not left_out:
            raise UsageError(
                f"There is no state-change.log in {path}.",
                next="Name the folder that brokers log to, or the files themselves.",
            )
        for log in inside:
            take(log)
    return list(paths.values()), left_out, twice


def _open_log_file(path: Path, number: int, zones: TimeZones) -> LogFile:
    """Return a file's source; raises ValueError when no line in its beginning has a time."""
    first: re.Match[str] | None = None
    broker: int | None = None
    size = path.stat().st_size
    with _opened(path) as (stream, _):
        beginning = stream.read1(CHUNK_BYTES)
        while True:
            for line in decode_line(beginning).split("\n"):
                if (stamp := STAMP.match(line)) is None:
                    continue
                if broker is None and (writer := _WRITER.match(stamp[5])):
                    broker = int(writer[1] or writer[2])
                if first is None and _parse_ms(stamp, zones.of(broker)) is not None:
                    first = stamp
                if first is not None and broker is not None:
                    break
            if first is not None or len(beginning) >= PEEKED_BYTES:
                break
            if not (more := stream.read1(CHUNK_BYTES)):
                break
            beginning += more
    if not beginning:
        return LogFile(path, number, size, zones.of(None), None, 0)
    # In the zone of who wrote it, which a later line may be the first to say.
    first_ms = None if first is None else _parse_ms(first, zones.of(broker))
    if first_ms is None:
        raise ValueError("no line in its beginning has a time that is known here")
    return LogFile(path, number, size, zones.of(broker), broker, first_ms)


def _parse_ms(stamp: re.Match[str], zone: tzinfo) -> int | None:
    try:
        return TimestampParser(zone).ms(stamp)
    except ValueError:
        return None


@contextmanager
def _opened(path: Path) -> Iterator[tuple[io.BufferedReader, IO[bytes]]]:
    """Give a file's unpacked bytes, and the file itself."""
    with path.open("rb") as raw:
        beginning = raw.read(len(GZIP))
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if beginning == GZIP else raw
        yield cast(io.BufferedReader, stream), raw  # both have read1, which is all that is used


def _read_lines(source: LogFile) -> Iterator[list[str]]:
    """Yield whole lines, many at a time; sets the source's trouble when it breaks off."""
    rest = b""
    try:
        with _opened(source.path) as (stream, raw):
            if source.begin_byte:
                raw.seek(source.begin_byte)
            while data := stream.read1(CHUNK_BYTES):
                source.read_bytes = raw.tell()
                data = rest + data
                end = data.rfind(b"\n") + 1
                if end:
                    yield decode_line(data[:end])[:-1].split("\n")
                elif len(data) >= MAX_LINE:
                    end = len(data)
                    yield [decode_line(data)]
                rest = data[end:]
    except (EOFError, zlib.error, gzip.BadGzipFile):
        source.trouble, source.whole = "the gzip file is cut short or damaged", False
    except OSError as error:
        source.trouble, source.whole = f"reading it failed: {error.strerror}", False
    if rest:
        if source.trouble is None:
            source.trouble = "its last line is cut short, or still being written"
        yield [decode_line(rest)]


def read_records(source: LogFile) -> Iterator[Record]:
    """Yield a file's records as they stand in it, each with the lines that follow it.

    Holds one record and one chunk. A record that is followed by more than MAX_LINE characters goes
    on in another one of the same time.
    """
    times = TimestampParser(source.zone, source.since_ms)
    match, number = STAMP.match, source.number
    held: Record | None = None
    line, length = 0, 0
    at_ms: int | None
    for texts in _read_lines(source):
        for text in texts:
            line += 1
            try:
                # Kafka's own layout, without the expression, which is for all that is not it.
                if text.startswith(_KAFKAS, 24) and text[20] == ",":
                    at_ms = times.second_ms(text[1:20]) + int(text[21:24])
                    level, _, body = text[26:].partition(" ")
                elif stamp := match(text):
                    at_ms, level, body = times.ms(stamp), stamp[4], stamp[5]
                else:
                    at_ms = None
            except ValueError:
                at_ms = None
            if at_ms is not None:
                if held is not None:
                    yield held
                if source.stop_ms is not None and at_ms > source.stop_ms:
                    source.lines = line
                    return
                held, length = new_tuple(Record, (at_ms, number, line, level, body, [])), 0
            elif held is None:
                source.headless += 1
                yield Record(source.first_ms, number, line, "", text, [])
            elif length > MAX_LINE:
                yield held
                held, length = Record(held.at_ms, number, line, "", text, []), 0
            else:
                length += len(text) + 1
                held.more.append(text)
                if TIMED.match(text) is not None:
                    source.strange += 1
        source.lines = line
    source.read_bytes = source.size_bytes
    if held is not None:
        yield held


def _resolve_repeated_hours(sources: Iterable[LogFile]) -> None:
    """Find out which files begin in the second one of an hour that comes twice.

    In the first one a broker still wrote to the file before: one beside it that goes on from then.
    """
    known: list[LogFile] = []
    for source in sorted(sources, key=lambda source: source.first_ms):
        at_ms = source.first_ms
        if (later_ms := last_repeat_ms(source.zone, at_ms)) != at_ms:
            before = [
                other
                for other in known
                if (other.broker, other.path.parent) == (source.broker, source.path.parent)
                and other.first_ms <= at_ms
            ]
            last = max(before, key=lambda other: other.first_ms, default=None)
            records = () if last is None else read_records(replace(last))
            if any(record.at_ms > at_ms + _OVERLAP_MS for record in records):
                source.first_ms = source.since_ms = later_ms
        known.append(source)


SLACK_MS = 60_000
"""Read before and after the range: clocks differ, and threads write out of order."""
_CLOSE_BYTES = 1 << 16
_MAX_SEARCH_BYTES = 1 << 20
"""How far a time is looked for: a stack trace has none."""


def select_time_range(sources: Iterable[LogFile], from_ms: int, to_ms: int) -> tuple[LogFile, ...]:
    """Return the sources that have something in a range, each as far as it lies there.

    Times are milliseconds since 1970. A clock that is off by more than SLACK_MS, or was set back
    by more, is not noticed.
    """
    return tuple(
        replace(source, begin_byte=_begin(source, from_ms - SLACK_MS), stop_ms=to_ms + SLACK_MS)
        for source in sources
        if source.first_ms <= to_ms + SLACK_MS
    )


def _begin(source: LogFile, from_ms: int) -> int:
    """Return where a record begins before which all are older than `from_ms`.

    A probe takes each time for the first one in an hour that comes twice. What begins before that
    hour, and looks as if it were so much earlier still, has all of it behind it.
    """
    from_ms -= 2 * clock_set_back_ms(source.zone, from_ms)
    if source.first_ms >= from_ms or _is_gzip(source):
        return 0
    low, high = 0, source.size_bytes
    while high - low > _CLOSE_BYTES:
        middle = (low + high) // 2
        first_record = _first_time(source, middle, _MAX_SEARCH_BYTES)
        if first_record is None or first_record[1] >= from_ms or first_record[0] >= high:
            high = middle
        else:
            low = first_record[0]
    return low


def _first_time(source: LogFile, at_byte: int, within: int) -> tuple[int, int] | None:
    """Return where the first record that begins after a byte of a plain file is, and its time.

    None when there is none within so many bytes.
    """
    with source.path.open("rb") as raw:
        raw.seek(at_byte)
        at_byte += len(raw.readline(within))
        data = raw.read(within)
    times = TimestampParser(source.zone, source.since_ms)
    for line in data.split(b"\n"):
        if (stamp := STAMP.match(decode_line(line[:MAX_LINE]))) is not None:
            with suppress(ValueError):
                return at_byte, times.ms(stamp)
        at_byte += len(line) + 1
    return None


def _is_gzip(source: LogFile) -> bool:
    with source.path.open("rb") as raw:
        return raw.read(len(GZIP)) == GZIP
