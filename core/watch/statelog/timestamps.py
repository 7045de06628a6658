"""Times in logs: their layouts, and the zone that log4j leaves out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from core.errors import UsageError
from core.watch.statelog.event import to_datetime, to_milliseconds

_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
_DISORDER_MS = 5 * 60 * 1000
"""What is later in a log may be so much earlier, without an hour that comes twice."""
_NEAR = timedelta(hours=3)
"""More than clocks are set back by anywhere."""


@dataclass(frozen=True, slots=True)
class TimeZones:
    """Which zone logs are in: one for all, and others for some brokers."""

    common: tzinfo = UTC
    of_broker: Mapping[int, tzinfo] = field(default_factory=dict)

    def of(self, broker: int | None) -> tzinfo:
        return self.common if broker is None else self.of_broker.get(broker, self.common)

    @property
    def words(self) -> str:
        """Return what is assumed, for people."""
        others = (f"broker {id} in {zone}" for id, zone in sorted(self.of_broker.items()))
        return ", ".join([str(self.common), *others])


def parse_zones(texts: Sequence[str]) -> TimeZones:
    """Return the zones of `Europe/Berlin`, `+02:00`, and `3=America/New_York` for broker 3 only.

    Raises UsageError for one that is not known.
    """
    common: tzinfo = UTC
    of_broker: dict[int, tzinfo] = {}
    for text in texts:
        broker, equals, name = text.partition("=")
        if not equals:
            common = _zone(text)
        elif broker.strip().isdecimal():
            of_broker[int(broker)] = _zone(name)
        else:
            raise UsageError(
                f"--zone {text}: {broker!r} is no broker's id.",
                next="Write it like 3=Europe/Berlin.",
            )
    return TimeZones(common, of_broker)


def parse_offset(text: str) -> tzinfo | None:
    """Return the zone of `Z`, `+0200`, `-05:30`; None for anything else."""
    if text == "Z":
        return UTC
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    ahead = timedelta(hours=int(match[2]), minutes=int(match[3]))
    if ahead >= timedelta(days=1):
        return None
    return timezone(-ahead if match[1] == "-" else ahead)


def _zone(text: str) -> tzinfo:
    name = text.strip()
    if name.upper() in ("UTC", "Z"):
        return UTC
    if (offset := parse_offset(name)) is not None:
        return offset
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise UsageError(
            f"--zone {text}: no time zone of that name is known here.",
            next="Write it like UTC, +02:00 or Europe/Berlin.",
        ) from error


def clock_set_back_ms(zone: tzinfo, ms: int) -> int:
    """Return by how much clocks are set back within hours of a time; 0 on nearly all days."""
    before, after = (
        (to_datetime(ms) + side).astimezone(zone).utcoffset() or timedelta()
        for side in (-_NEAR, _NEAR)
    )
    return max(0, (before - after) // timedelta(milliseconds=1))


def last_repeat_ms(zone: tzinfo, ms: int) -> int:
    """Return when the wall clock shows the same time for the last time; `ms` itself, mostly."""
    shown = to_datetime(ms).astimezone(zone)
    return max(ms, to_milliseconds(shown.replace(fold=1)))


MAX_LINE = 1 << 16
"""Bytes of one line, and characters that may follow a record: what is longer is cut in pieces."""

LEVELS = ("INFO", "TRACE", "ERROR", "WARN", "DEBUG", "FATAL")
"""The most frequent first."""
STAMP = re.compile(
    r"\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)[.,](\d{3})\d*(Z|[+-]\d\d:?\d\d)?\]?\s+"
    rf"(?:\[[^\]]*\]\s+)?({'|'.join(LEVELS)})\s+(.*)"
)
"""The grammar of a record's first line: time, thread or not, level, message. Blanks are any."""

TIMED = re.compile(r"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
"""A line that begins so, and is no STAMP, is of a layout that is not known here."""

_EDGES = ("0001", "9999")
"""Years that are no dates any more in another zone; no broker wrote in them."""


def decode_line(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return text.replace("\r\n", "\n") if "\r" in text else text


class TimestampParser:
    """Stamps of one file become milliseconds, in the order written; a second is reckoned once.

    When clocks are set back an hour comes twice: the second time is known by going backwards, also
    from `since_ms`, when the log begins, if that is known otherwise.
    """

    def __init__(self, zone: tzinfo, since_ms: int | None = None) -> None:
        self._zone, self._last_ms = zone, since_ms
        self._second, self._base = "", 0

    def second_ms(self, second: str) -> int:
        """Return `2026-01-31 02:30:00` in milliseconds; raises ValueError for what is no time."""
        if second != self._second:
            if second.startswith(_EDGES):
                raise ValueError(f"no time: {second!r}")
            written = datetime.fromisoformat(second[:16])
            ms = to_milliseconds(written.replace(tzinfo=self._zone))
            if self._last_ms is not None and ms < self._last_ms - _DISORDER_MS:
                # Only where the zone has this time twice do the two differ.
                ms = max(ms, to_milliseconds(written.replace(tzinfo=self._zone, fold=1)))
            self._last_ms = ms if self._last_ms is None else max(self._last_ms, ms)
            self._base, self._second = ms + int(second[17:]) * 1000, second
        return self._base

    def ms(self, stamp: re.Match[str]) -> int:
        """Return when a record was written; raises ValueError for the 31st of February."""
        if stamp[3] is None:
            return self.second_ms(stamp[1]) + int(stamp[2])
        zone = parse_offset(stamp[3])
        return TimestampParser(zone or self._zone).second_ms(stamp[1]) + int(stamp[2])
