"""Moments as people type them: a time of day, or a date, by this machine's clocks.

Raises UsageError for a moment that these clocks skip or show twice.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

from core.errors import UsageError

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)
_DAY = timedelta(days=1)


def parse_clock(text: str, forms: str) -> time | None:
    """Return the time of day that is written as `2:30` or `02:30:15`; None for another form.

    Raises UsageError, which says `forms`, for a time that no day has.
    """
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.groups())
    try:
        return time(hour, minute, second)
    except ValueError as error:
        raise UsageError(f"Not a time: {text!r}.", next=forms) from error


def next_at(clock: time, now: datetime) -> datetime:
    """Return the first moment after `now` at which clocks here show `clock`."""
    today = datetime.combine(now.astimezone(), clock)
    return _here(today if max(_readings(today)) > now else today + _DAY)


def last_at(clock: time, now: datetime) -> datetime:
    """Return the last moment, `now` or before it, at which clocks here showed `clock`."""
    today = datetime.combine(now.astimezone(), clock)
    return _here(today if min(_readings(today)) <= now else today - _DAY)


def parse_dated(text: str) -> datetime | None:
    """Return the moment of an ISO 8601 date, maybe with a time and an offset; None for no date."""
    try:
        moment = datetime.fromisoformat(text)
        return _here(moment) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _readings(naive: datetime) -> tuple[datetime, datetime]:
    """Return both ways to read `naive`; they differ only where clocks are changed around it."""
    first, second = (naive.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def _here(naive: datetime) -> datetime:
    """Return the one moment at which clocks here show `naive`."""
    first, second = _readings(naive)
    if first == second:
        return first
    here = first.astimezone()
    often = "twice" if here.replace(tzinfo=None, fold=0) == naive.replace(fold=0) else "never"
    raise UsageError(
        f"{naive:%Y-%m-%d %H:%M} comes {often} that night: clocks are changed.",
        next=f"Say it with its offset, like {here.isoformat(timespec='minutes')}.",
    )
