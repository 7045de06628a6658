"""The times that lines of a log begin with, in whatever layout, as milliseconds."""

from __future__ import annotations

import re
from datetime import tzinfo

from core.watch.statelog.zones import WallClock, parse_offset

LONGEST = 1 << 16
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


def decoded(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return text.replace("\r\n", "\n") if "\r" in text else text


class Times:
    """Stamps of one file become milliseconds; a second is reckoned once."""

    def __init__(self, zone: tzinfo, since_ms: int | None = None) -> None:
        self._clock = WallClock(zone, since_ms)
        self._second, self._base = "", 0

    def second_ms(self, second: str) -> int:
        """Return `2026-01-31 02:30:00` in milliseconds; raises ValueError for what is no time."""
        if second != self._second:
            if second.startswith(_EDGES):
                raise ValueError(f"no time: {second!r}")
            self._base = self._clock.minute_ms(second[:16]) + int(second[17:]) * 1000
            self._second = second
        return self._base

    def ms(self, stamp: re.Match[str]) -> int:
        """Return when a record was written; raises ValueError for the 31st of February."""
        if stamp[3] is None:
            return self.second_ms(stamp[1]) + int(stamp[2])
        zone = parse_offset(stamp[3])
        return Times(zone or self._clock.zone).second_ms(stamp[1]) + int(stamp[2])
