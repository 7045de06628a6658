"""What brokers wrote into their state-change logs, as events of the timeline.

At corrected times: where the logs tell how far a broker's clock is off, it is put right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from core.watch.statelog import event as log
from core.watch.statelog.event import to_milliseconds
from core.watch.statelog.files import SLACK_MS, LogFile, select_time_range
from core.watch.statelog.merge import EventFilter, Merge, MergeTally
from core.watch.statelog.output import event_text
from core.watch.timeline.events import ALL_KINDS, Event, Kind, LogNote

_KINDS: Mapping[log.LogEventKind, Kind] = {
    log.LogEventKind.LEADER: Kind.LEADER,
    log.LogEventKind.FOLLOWER: Kind.LEADER,
    log.LogEventKind.ELECTED: Kind.LEADER,
    log.LogEventKind.ISR: Kind.ISR_SHRINK | Kind.ISR_EXPAND,
    log.LogEventKind.OFFLINE: Kind.OFFLINE,
    log.LogEventKind.ASSIGNED: Kind.ASSIGNMENT,
    log.LogEventKind.CREATED: Kind.PARTITION,
    log.LogEventKind.DELETED: Kind.PARTITION,
    log.LogEventKind.FAILED: Kind.LEADER,
}


class LogEvents:
    """Brokers' logs from `since` to `until`, both included; only that part of them is read.

    `shifts_ms` is what was added to the times of each broker, `unsure` whose clock is not known.
    """

    def __init__(
        self, sources: Sequence[LogFile], since: datetime, until: datetime, *, whole: bool = True
    ) -> None:
        self._from_ms, self._to_ms = to_milliseconds(since), to_milliseconds(until) + 1
        self.sources = select_time_range(sources, self._from_ms, self._to_ms)
        self.shifts_ms: dict[int, int] = {}
        self.unsure: tuple[int, ...] = ()
        self._whole = whole
        self.tally = MergeTally()
        """Of this time, and a little around it."""

    def align(self) -> None:
        """Learn how far the clocks of brokers are apart in this time; reads it once."""
        around = EventFilter(self._from_ms - SLACK_MS, self._to_ms + SLACK_MS)
        for _ in Merge(self.sources, around, tally=self.tally):
            pass
        offsets = self.tally.clocks.offsets()
        self.shifts_ms = {o.broker: -o.ahead_ms for o in offsets if o.sure and o.ahead_ms}
        self.unsure = tuple(o.broker for o in offsets if not o.sure) if len(offsets) > 1 else ()

    @property
    def whole(self) -> bool:
        """Return whether all that was named could be read, as far as it was."""
        return self._whole and all(source.whole for source in self.sources)

    def events(self, kinds: Kind = ALL_KINDS) -> Iterator[Event]:
        """Yield what is of one of these kinds, in the order of its corrected time."""
        within = EventFilter(self._from_ms, self._to_ms)
        for event in Merge(self.sources, within, self.shifts_ms):
            kind = _KINDS.get(event.change.kind)
            if kind is not None and (not kinds or kind & kinds):
                yield _event(event, kind)


def _event(event: log.LogEvent, kind: Kind) -> Event:
    change = event.change
    who = "?" if event.broker is None else str(event.broker)
    named = (event.broker, change.leader, change.previous_leader, change.replica)
    logged = LogNote(
        f"log of {'controller' if event.by_controller else 'broker'} {who}",
        event_text(event),
        tuple(sorted({broker for broker in named if broker is not None and broker >= 0})),
        event.file,
    )
    return Event(event.at, kind, None, logged, change.topic, change.partition)
