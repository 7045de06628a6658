"""Parses the filters of a timeline: times, kinds, topics and brokers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from core.cli.common.times import last_time_of_day, next_time_of_day, parse_dated, parse_time_of_day
from core.errors import UsageError
from core.patterns import matching, pattern
from core.units import parse_duration
from core.watch.timeline.events import KIND_FILTERS, Event, Kind

if TYPE_CHECKING:
    from core.watch.timeline.store import Timeline

FORMS = "Write it like 30m (ago), 03:10 (today, here), or 2026-01-31T03:10Z."


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are asked for; None and empty are all."""

    since: datetime | None
    until: datetime | None
    kinds: Kind
    topics: re.Pattern[str] | None
    brokers: frozenset[int]

    @property
    def is_narrowed(self) -> bool:
        """Return whether only some topics or brokers are asked for."""
        return self.topics is not None or bool(self.brokers)

    def refuse_unknown(self, timeline: Timeline) -> None:
        """Raise UsageError for topics and brokers that the timeline has never known."""
        from core.watch.timeline.coverage import list_brokers, list_topics

        if self.topics is not None:
            matching(self.topics.pattern, "--topics", list_topics(timeline), "topic")
        if self.brokers:
            known = list_brokers(timeline)
            for broker in sorted(self.brokers.difference(known)):
                ids = ", ".join(map(str, known))
                raise UsageError(f"No broker {broker} was seen.", next=f"There were {ids}.")

    def has(self, event: Event) -> bool:
        if self.topics is not None and not (event.topic and self.topics.fullmatch(event.topic)):
            return False
        return not self.brokers or bool(self.brokers & event.brokers)


def parse_moment(text: str, now: datetime) -> datetime:
    """Return the moment that is meant: so long before `now`, a time of its day here, or a date."""
    words = text.strip()
    clock = parse_time_of_day(words, FORMS)
    if clock is not None:
        return last_time_of_day(clock, now)
    dated = parse_dated(words)
    if dated is not None:
        return dated
    try:
        return now - timedelta(seconds=parse_duration(words))
    except UsageError as error:
        raise UsageError(f"Not a time: {text!r}.", next=FORMS) from error


def parse_range(
    since: str | None, until: str | None, now: datetime
) -> tuple[datetime | None, datetime | None]:
    """Return the moments that are meant, None where none is said.

    A time of day for `until` that was not since then is the next one, also if that is still to
    come: 13:00 to 14:00, asked for at 13:55, is an hour of today. Raises UsageError for none.
    """
    begin = None if since is None else parse_moment(since, now)
    end = None if until is None else parse_moment(until, now)
    if begin is None or end is None or begin < end:
        return begin, end
    clock = parse_time_of_day((until or "").strip(), FORMS)
    if clock is None:
        raise UsageError(f"--since {since} is not before --until {until}.", next="Swap the two.")
    return begin, next_time_of_day(clock, begin)


def parse_kinds(text: str | None) -> Kind:
    found = Kind(0)
    for word in text.split(",") if text else ():
        if word.strip() not in KIND_FILTERS:
            raise UsageError(
                f"There is no kind {word.strip()!r}.", next=f"Kinds are {', '.join(KIND_FILTERS)}."
            )
        found |= KIND_FILTERS[word.strip()]
    return found


def parse_topics(text: str | None) -> re.Pattern[str] | None:
    return None if text is None else pattern(text, "--topics")
