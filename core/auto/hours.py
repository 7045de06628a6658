"""Hours of the week, as people write them: `mon-fri 09:00-18:00, sat 22:00-02:00`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from core.errors import UsageError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES
_PART = re.compile(
    r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?\s+)?"
    r"(?P<from>\d{1,2}:\d{2})-(?P<to>\d{1,2}:\d{2})"
)


@dataclass(frozen=True, slots=True)
class Hours:
    """Minutes of the week, Monday 00:00 is 0; `text` is how they were written."""

    text: str = ""
    minutes: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str, option: str) -> Hours:
        """Return the hours that `text` names; raises UsageError, which names the `option`.

        What ends before it begins goes on into the next day; without days it is every day.
        """
        found: set[int] = set()
        for part in text.lower().split(","):
            found |= _minutes(part.strip(), text, option)
        return cls(text, frozenset(found))

    def __bool__(self) -> bool:
        return bool(self.minutes)

    def holds(self, at: datetime) -> bool:
        """Return whether a moment is in them, by the zone that it is given in."""
        return at.weekday() * DAY_MINUTES + at.hour * 60 + at.minute in self.minutes


def _minutes(part: str, text: str, option: str) -> set[int]:
    match = _PART.fullmatch(part)
    if match is None:
        raise _not_hours(text, option)
    days = _days(match["first"], match["last"], text, option)
    begin, end = (_minute(match[name], text, option) for name in ("from", "to"))
    if begin % DAY_MINUTES == end % DAY_MINUTES and (begin, end) != (0, DAY_MINUTES):
        raise UsageError(
            f"{option}: {match['from']}-{match['to']} is no time at all.",
            next="A whole day is 00:00-24:00.",
        )
    length = end - begin if end > begin else end + DAY_MINUTES - begin
    return {
        (day * DAY_MINUTES + begin + minute) % WEEK_MINUTES
        for day in days
        for minute in range(length)
    }


def _days(first: str | None, last: str | None, text: str, option: str) -> list[int]:
    if first is None:
        return list(range(7))
    if first not in DAYS or (last is not None and last not in DAYS):
        raise _not_hours(text, option)
    begin = DAYS.index(first)
    many = 1 if last is None else (DAYS.index(last) - begin) % 7 + 1
    return [(begin + day) % 7 for day in range(many)]


def _minute(clock: str, text: str, option: str) -> int:
    hours, minutes = (int(part) for part in clock.split(":"))
    if minutes > 59 or hours * 60 + minutes > DAY_MINUTES:
        raise _not_hours(text, option)
    return hours * 60 + minutes


def _not_hours(text: str, option: str) -> UsageError:
    return UsageError(
        f"{option}: not hours of the week: {text!r}.",
        next='Write them like "mon-fri 09:00-18:00, sat 22:00-02:00", by this machine\'s clock.',
    )
