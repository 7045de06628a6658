"""The timeline as the dashboard holds it: events read, and those that the filter selects. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import datetime

from core.watch.timeline.events import KIND_FILTERS, Event, Kind
from core.watch.timeline.text import EventGroup, format_event
from tui.timeline.lane_data import Lanes


@dataclass(frozen=True, slots=True)
class TimelineFilter:
    """What of the timeline is asked for: typed words, and one kind or all of them."""

    words: str = ""
    kind: str = ""

    def next_kind(self) -> str:
        kinds = ["", *KIND_FILTERS]
        return kinds[(kinds.index(self.kind) + 1) % len(kinds)]

    @property
    def kinds(self) -> Kind:
        """Return the kinds that are asked for; none at all stands for all."""
        kinds = KIND_FILTERS[self.kind] if self.kind else Kind(0)
        for word in self._words:
            kinds |= KIND_FILTERS.get(word, Kind(0))
        return kinds

    @property
    def _words(self) -> list[str]:
        return self.words.lower().split()

    def has(self, event: Event) -> bool:
        """Return whether an event is asked for: any of the brokers and kinds, all other words.

        `b2` is a broker, a kind is written as on the command line, anything else stands in what
        the event says; `!` before any of them leaves out what it stands for.
        """
        brokers: set[int] = set()
        text: str | None = None
        for word in self._words:
            bare = word.removeprefix("!")
            lacks = bare != word
            if not bare:
                continue
            if (broker := _broker(bare)) is not None:
                if not lacks:
                    brokers.add(broker)
                elif broker in event.brokers:
                    return False
            elif bare in KIND_FILTERS:
                if lacks and event.kind & KIND_FILTERS[bare]:
                    return False
            else:
                text = format_event(event).lower() if text is None else text
                if (bare in text) is lacks:
                    return False
        if brokers and not brokers & event.brokers:
            return False
        return not self.kinds or bool(event.kind & self.kinds)


def _broker(word: str) -> int | None:
    return int(word[1:]) if word[:1] == "b" and word[1:].isdecimal() else None


@dataclass(frozen=True, eq=False, slots=True)
class RecordedTimeline:
    """What was read of a cluster's timeline: the newest of it, and what of that is asked for."""

    cluster_id: str
    span: tuple[datetime, datetime]
    events: tuple[Event, ...]
    """All that were read, also those that are not asked for."""
    reported_upto: int
    """The number of what was told last."""
    cut: bool
    """Whether older ones of what was seen were left in the file."""
    reported_cut: bool
    """Whether some of what was told in that time was left there."""
    timeline_filter: TimelineFilter
    groups: tuple[EventGroup, ...]
    """What is asked for, folded, in the order in which it began."""
    lanes: Lanes

    def moment_after(self, at: datetime, steps: int) -> datetime:
        """Return when so many happenings later, or earlier, than `at` all of it had happened."""
        moments = sorted({happening.ended for happening in self.groups})
        if not moments:
            return at
        if steps < 0:
            index = bisect_left(moments, at) + steps
        else:
            index = bisect_right(moments, at) + steps - 1
        return moments[min(max(index, 0), len(moments) - 1)]

    def described_at(self, at: datetime) -> str:
        """Return what had just happened at a moment; "" for nothing."""
        texts = [happening.text for happening in self.groups if happening.ended == at]
        more = f", and {len(texts) - 1} more" if len(texts) > 1 else ""
        return texts[0] + more if texts else ""


@dataclass(frozen=True, eq=False, slots=True)
class Comparison:
    """What is different between two moments: what came and went between them is not in it."""

    since: datetime
    until: datetime
    now: bool
    """Whether the later one is the newest there is."""
    groups: tuple[EventGroup, ...]
    changes: int
    """How many changes there are, also those that are not asked for."""


@dataclass(frozen=True, slots=True)
class TimelineRowKey:
    """Names a row for as long as it is there: a happening, or one of its events."""

    kind: Kind
    about: str
    began: datetime
    event: int | None = None


@dataclass(frozen=True, eq=False, slots=True)
class TimelineRow:
    """One row of the list: a happening, or one of its events where it is unfolded."""

    key: TimelineRowKey
    happening: EventGroup
    event: Event | None = None

    @property
    def at(self) -> datetime:
        return self.happening.began if self.event is None else self.event.at

    @property
    def until(self) -> datetime:
        """Return when all of it had happened."""
        return self.happening.ended if self.event is None else self.event.at

    @property
    def text(self) -> str:
        return self.happening.text if self.event is None else format_event(self.event)


def key_of(happening: EventGroup) -> TimelineRowKey:
    return TimelineRowKey(happening.kind, happening.about, happening.began)


def rows_of(
    groups: tuple[EventGroup, ...], unfolded: frozenset[TimelineRowKey]
) -> tuple[TimelineRow, ...]:
    """Return the rows of the list, oldest first."""
    rows = []
    for happening in groups:
        key = key_of(happening)
        rows.append(TimelineRow(key, happening))
        if key in unfolded:
            rows += [
                TimelineRow(TimelineRowKey(key.kind, key.about, key.began, n), happening, event)
                for n, event in enumerate(happening.events)
            ]
    return tuple(rows)


def row_at(rows: tuple[TimelineRow, ...], key: TimelineRowKey | None) -> int:
    """Return where a row is, or the one that is nearest in time; the last one for None."""
    if not rows:
        return 0
    if key is None:
        return len(rows) - 1
    for n, row in enumerate(rows):
        if row.key == key:
            return n
    return min(range(len(rows)), key=lambda n: (abs(rows[n].at - key.began), n))
