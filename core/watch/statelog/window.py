"""Which part of each log lies in a time range, so that a large log costs no more than that.

Plain files are searched by halves, as their times rise; packed ones are read from their beginning.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from core.watch.statelog.sources import GZIP, Source
from core.watch.statelog.stamps import LONGEST, STAMP, Times, decoded
from core.watch.statelog.zones import set_back_ms

SLACK_MS = 60_000
"""Read before and after the range: clocks differ, and threads write out of order."""
_CLOSE_BYTES = 1 << 16
_LOOKED_AT_BYTES = 1 << 20
"""How far a time is looked for: a stack trace has none."""


def narrowed(sources: Iterable[Source], from_ms: int, to_ms: int) -> tuple[Source, ...]:
    """Return the sources that have something in a range, each as far as it lies there.

    Times are milliseconds since 1970. A clock that is off by more than SLACK_MS, or was set back
    by more, is not noticed.
    """
    return tuple(
        replace(source, begin_byte=_begin(source, _from(source, from_ms)), stop_ms=to_ms + SLACK_MS)
        for source in sources
        if source.first_ms <= to_ms + SLACK_MS
    )


def _from(source: Source, from_ms: int) -> int:
    """Return the time to begin at, so that times rise from there on and are known.

    A probe takes each time for the first one in an hour that comes twice. What begins before that
    hour, and looks as if it were so much earlier still, has all of it behind it.
    """
    return from_ms - SLACK_MS - 2 * set_back_ms(source.zone, from_ms - SLACK_MS)


def _begin(source: Source, from_ms: int) -> int:
    """Return where a record begins before which all are older than `from_ms`."""
    if source.first_ms >= from_ms or _packed(source):
        return 0
    low, high = 0, source.size_bytes
    while high - low > _CLOSE_BYTES:
        middle = (low + high) // 2
        found = _first_time(source, middle, _LOOKED_AT_BYTES)
        if found is None or found[1] >= from_ms or found[0] >= high:
            high = middle
        else:
            low = found[0]
    return low


def _first_time(source: Source, at_byte: int, within: int) -> tuple[int, int] | None:
    """Return where the first record that begins after a byte of a plain file is, and its time.

    None when there is none within so many bytes.
    """
    with source.path.open("rb") as raw:
        raw.seek(at_byte)
        at_byte += len(raw.readline(within))
        data = raw.read(within)
    times = Times(source.zone, source.since_ms)
    for line in data.split(b"\n"):
        if (stamp := STAMP.match(decoded(line[:LONGEST]))) is not None:
            with suppress(ValueError):
                return at_byte, times.ms(stamp)
        at_byte += len(line) + 1
    return None


def _packed(source: Source) -> bool:
    with source.path.open("rb") as raw:
        return raw.read(len(GZIP)) == GZIP
