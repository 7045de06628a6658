"""When a run is to start: read from what people type, said back with its time zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from core.errors import UsageError
from core.units import format_duration, parse_duration

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")
_FORMS = "Write it like 02:30 (here, the next one), +90m, or 2026-01-31T02:30+01:00."
LONGEST = timedelta(days=30)


def parse_start(text: str, now: datetime) -> datetime:
    """Return the moment that `text` names, in UTC: `02:30`, `+90m`, or a date with a time.

    Without a zone it is this machine's. Raises UsageError for one that is past, more than
    LONGEST away, or that this zone's clocks skip or show twice.
    """
    words = text.strip()
    clock = _CLOCK.fullmatch(words)
    if words.startswith("+"):
        moment = now + timedelta(seconds=parse_duration(words[1:]))
    elif clock is not None:
        moment = _next(int(clock[1]), int(clock[2]), words, now)
    else:
        moment = _dated(words)
    if moment <= now:
        ago = format_duration((now - moment).total_seconds())
        raise UsageError(f"{said(moment)} is past: it was {ago} ago.", next=_FORMS)
    if moment - now > LONGEST:
        raise UsageError(
            f"{said(moment)} is in {(moment - now).days} days: the plan would be out of date.",
            next=f"Start it within {LONGEST.days} days.",
        )
    return moment.astimezone(UTC)


def said(moment: datetime) -> str:
    """Return a moment by this machine's clock with its zone, and in UTC where that differs."""
    here = moment.astimezone()
    words = f"{here:%Y-%m-%d %H:%M} {here.tzname()}"
    return words if not here.utcoffset() else f"{words} ({moment.astimezone(UTC):%H:%M} UTC)"


def _next(hour: int, minute: int, text: str, now: datetime) -> datetime:
    if hour > 23 or minute > 59:
        raise UsageError(f"Not a time: {text!r}.", next=_FORMS)
    today = now.astimezone().replace(hour=hour, minute=minute, second=0, microsecond=0, tzinfo=None)
    moment = _here(today)
    return moment if moment > now else _here(today + timedelta(days=1))


def _dated(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"Not a time: {text!r}.", next=_FORMS) from error
    if len(text) <= len("2026-01-31"):
        raise UsageError(f"At what time on {text}?", next=_FORMS)
    return _here(moment) if moment.tzinfo is None else moment


def _here(naive: datetime) -> datetime:
    """Return the one moment at which clocks here show `naive`."""
    first, second = naive.replace(fold=0).astimezone(), naive.replace(fold=1).astimezone()
    if first.utcoffset() == second.utcoffset():
        return first
    # Clocks are changed around it: they skip this time, or show it twice.
    shown = first.astimezone(UTC).astimezone().replace(tzinfo=None, fold=0)
    often = "twice that night" if shown == naive.replace(fold=0) else "never that night"
    offset = first.isoformat(timespec="minutes")
    raise UsageError(
        f"{naive:%Y-%m-%d %H:%M} comes {often}: clocks are changed.",
        next=f"Say it with its offset, like {offset}.",
    )
