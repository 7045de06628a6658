"""When a run is to start: read from what people type, said back with its time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from core.cli.moments import next_at, parse_clock, parse_dated
from core.errors import UsageError
from core.units import format_duration, parse_duration

_FORMS = "Write it like 02:30 (here, the next one), +90m, or 2026-01-31T02:30+01:00."
LONGEST = timedelta(days=30)


def parse_start(text: str, now: datetime) -> datetime:
    """Return the moment that `text` names, in UTC: `02:30`, `+90m`, or a date with a time.

    Without a zone it is this machine's. Raises UsageError for one that is past, more than
    LONGEST away, or that this zone's clocks skip or show twice.
    """
    words = text.strip()
    if words.startswith("+"):
        moment = now + timedelta(seconds=parse_duration(words[1:]))
    elif (clock := parse_clock(words, _FORMS)) is not None:
        moment = next_at(clock, now)
    elif (dated := parse_dated(words)) is None:
        raise UsageError(f"Not a time: {text!r}.", next=_FORMS)
    elif len(words) <= len("2026-01-31"):
        raise UsageError(f"At what time on {words}?", next=_FORMS)
    else:
        moment = dated
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
