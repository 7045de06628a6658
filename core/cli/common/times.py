"""Times as people type them: a time of day, a date, a delay, by this machine's clock.

Raises UsageError for a moment that these clocks skip or show twice.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

from core.errors import UsageError
from core.units import format_duration, parse_duration

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)
_DAY = timedelta(days=1)


def parse_time_of_day(text: str, forms: str) -> time | None:
    """Return the time of day of `2:30` or `02:30:15`, None for another form; raises UsageError."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups())
    try:
        return time(hour, minute, second)
    except ValueError as error:
        raise UsageError(f"Not a time: {text!r}.", next=forms) from error


def next_time_of_day(clock: time, now: datetime) -> datetime:
    """Return the first moment after `now` at which clocks here show `clock`."""
    today = datetime.combine(now.astimezone(), clock)
    return _resolve_local_time(today if max(_utc_candidates(today)) > now else today + _DAY)


def last_time_of_day(clock: time, now: datetime) -> datetime:
    """Return the last moment, `now` or before it, at which clocks here showed `clock`."""
    today = datetime.combine(now.astimezone(), clock)
    return _resolve_local_time(today if min(_utc_candidates(today)) <= now else today - _DAY)


def parse_dated(text: str) -> datetime | None:
    """Return the moment of an ISO 8601 date, maybe with a time and an offset; None for no date."""
    try:
        moment = datetime.fromisoformat(text)
        return _resolve_local_time(moment) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _utc_candidates(naive: datetime) -> tuple[datetime, datetime]:
    """Return both ways to read `naive`; they differ only where clocks are changed around it."""
    first, second = (naive.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def _resolve_local_time(naive: datetime) -> datetime:
    """Return the one moment at which clocks here show `naive`."""
    first, second = _utc_candidates(naive)
    if first == second:
        return first
    here = first.astimezone()
    often = "twice" if here.replace(tzinfo=None, fold=0) == naive.replace(fold=0) else "never"
    raise UsageError(
        f"{naive:%Y-%m-%d %H:%M} occurs {often}: clocks change that night.",
        next=f"Add its offset, like {here.isoformat(timespec='minutes')}.",
    )


MOMENT_FORMS = "Write it like 30m (ago), 03:10 (today, here), or 2026-01-31T03:10Z."


def parse_moment(text: str, now: datetime) -> datetime:
    """Return a moment: so long before `now`, a time of its day here, or a date."""
    words = text.strip()
    clock = parse_time_of_day(words, MOMENT_FORMS)
    if clock is not None:
        return last_time_of_day(clock, now)
    dated = parse_dated(words)
    if dated is not None:
        return dated
    try:
        return now - timedelta(seconds=parse_duration(words))
    except UsageError as error:
        raise UsageError(f"Not a time: {text!r}.", next=MOMENT_FORMS) from error


START_FORMS = "Write it like 02:30 (here, the next one), +90m, or 2026-01-31T02:30+01:00."
MAX_START_DELAY = timedelta(days=30)


def parse_start(text: str, now: datetime) -> datetime:
    """Return the moment that `text` names, in UTC: `02:30`, `+90m`, or a date with a time.

    Without a zone it is this machine's. Raises UsageError for one that is past, more than
    MAX_START_DELAY away, or that this zone's clocks skip or show twice.
    """
    words = text.strip()
    if words.startswith("+"):
        moment = now + timedelta(seconds=parse_duration(words[1:]))
    elif (clock := parse_time_of_day(words, START_FORMS)) is not None:
        moment = next_time_of_day(clock, now)
    elif (dated := parse_dated(words)) is None:
        raise UsageError(f"Not a time: {text!r}.", next=START_FORMS)
    elif len(words) <= len("2026-01-31"):
        raise UsageError(f"At what time on {words}?", next=START_FORMS)
    else:
        moment = dated
    if moment <= now:
        ago = format_duration((now - moment).total_seconds())
        raise UsageError(f"{format_local(moment)} is in the past, {ago} ago.", next=START_FORMS)
    if moment - now > MAX_START_DELAY:
        raise UsageError(
            f"{format_local(moment)} is in {(moment - now).days} days: the plan would be out of "
            "date.",
            next=f"Start it within {MAX_START_DELAY.days} days.",
        )
    return moment.astimezone(UTC)


def format_local(moment: datetime) -> str:
    """Return a moment by this machine's clock with its zone, and in UTC where that differs."""
    here = moment.astimezone()
    words = f"{here:%Y-%m-%d %H:%M} {here.tzname()}"
    return words if not here.utcoffset() else f"{words} ({moment.astimezone(UTC):%H:%M} UTC)"
