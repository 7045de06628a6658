"""What brokers wrote into their state-change logs, as events of the timeline.

At corrected times: where the logs tell how far a broker's clock is off, it is put right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from core.watch.statelog import event as log
from core.watch.statelog.event import milliseconds
from core.watch.statelog.files import SLACK_MS, Source, narrowed
from core.watch.statelog.merge import Merge, Tally, Wanted
from core.watch.statelog.output import sentence
from core.watch.timeline.events import EVERY, Event, Kind, Logged

_KINDS: Mapping[log.Kind, Kind] = {
    log.Kind.LEADER: Kind.LEADER,
    log.Kind.FOLLOWER: Kind.LEADER,
    log.Kind.ELECTED: Kind.LEADER,
    log.Kind.ISR: Kind.ISR_SHRINK | Kind.ISR_EXPAND,
    log.Kind.OFFLINE: Kind.OFFLINE,
    log.Kind.ASSIGNED: Kind.ASSIGNMENT,
    log.Kind.CREATED: Kind.PARTITION,
    log.Kind.DELETED: Kind.PARTITION,
    log.Kind.FAILED: Kind.LEADER,
}


class Logs:
    """Brokers' logs from `since` to `until`, both included; only that part of them is read.

    `shifts_ms` is what was added to the times of each broker, `unsure` whose clock is not known.
    """

    def __init__(
        self, sources: Sequence[Source], since: datetime, until: datetime, *, whole: bool = True
    ) -> None:
        self._from_ms, self._to_ms = milliseconds(since), milliseconds(until) + 1
        self.sources = narrowed(sources, self._from_ms, self._to_ms)
        self.shifts_ms: dict[int, int] = {}
        self.unsure: tuple[int, ...] = ()
        self._whole = whole
        self.tally = Tally()
        """Of this time, and a little around it."""

    def align(self) -> None:
        """Learn how far the clocks of brokers are apart in this time; reads it once."""
        around = Wanted(self._from_ms - SLACK_MS, self._to_ms + SLACK_MS)
        for _ in Merge(self.sources, around, tally=self.tally):
            pass
        offsets = self.tally.clocks.offsets()
        self.shifts_ms = {o.broker: -o.ahead_ms for o in offsets if o.sure and o.ahead_ms}
        self.unsure = tuple(o.broker for o in offsets if not o.sure) if len(offsets) > 1 else ()

    @property
    def whole(self) -> bool:
        """Return whether all that was named could be read, as far as it was."""
        return self._whole and all(source.whole for source in self.sources)

    def events(self, kinds: Kind = EVERY) -> Iterator[Event]:
        """Yield what is of one of these kinds, in the order of its corrected time."""
        wanted = Wanted(self._from_ms, self._to_ms)
        for told in Merge(self.sources, wanted, self.shifts_ms):
            kind = _KINDS.get(told.change.kind)
            if kind is not None and (not kinds or kind & kinds):
                yield _event(told, kind)


def _event(told: log.Event, kind: Kind) -> Event:
    change = told.change
    who = "?" if told.broker is None else str(told.broker)
    named = (told.broker, change.leader, change.previous_leader, change.replica)
    logged = Logged(
        f"log of {'controller' if told.by_controller else 'broker'} {who}",
        sentence(told),
        tuple(sorted({broker for broker in named if broker is not None and broker >= 0})),
        told.file,
    )
    return Event(told.at, kind, None, logged, change.topic, change.partition)
