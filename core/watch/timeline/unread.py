"""What the recorder may not read is told: a quiet timeline is not to look like a quiet cluster."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from core.clock import Clock
from core.cluster.faults import Fault
from core.cluster.state import ClusterState
from core.units import counted
from core.watch.timeline.events import Event, Kind, Told

RECORDER: Final = "recorder"
"""Who tells of the recorder's own limits, beside those that tell of the cluster."""
LASTS_SECONDS: Final = 75.0
"""Some topics' configs are asked for again after a minute: until then they may be late."""


class Unread:
    """Whether something of one kind can be read, told when that changes."""

    def __init__(self, kind: Kind, what: str) -> None:
        self._kind, self._what = kind, what
        self._unread = False

    def seen(self, at: datetime, why: str) -> list[Event]:
        """Return what there is to tell; `why` it cannot be read now, "" when it can."""
        if bool(why) == self._unread:
            return []
        self._unread = bool(why)
        text = f"could not read {self._what}: {why}" if why else f"could read {self._what} again"
        return [Event(at, self._kind, None, Told(RECORDER, text))]


class ConfigsUnread:
    """Looks on for topics whose configs the recorder may not read: no change of them shows."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unread = Unread(Kind.CONFIG, "configs of topics")
        self._since: float | None = None

    def news(self, state: ClusterState) -> list[Event]:
        """Return that topics cannot be read, or can again, when that is new."""
        count = sum(topic.min_insync is None for topic in state.topics)
        if not count:
            self._since = None
            return self._unread.seen(state.fetched_at, "")
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        if count < len(state.topics) and now - self._since < LASTS_SECONDS:
            return []
        why = f"changes of {counted(count, 'topic')} of {len(state.topics):,} do not show"
        return self._unread.seen(state.fetched_at, f"{why} (DESCRIBE_CONFIGS is missing?)")


class MovesUnread:
    """Looks on for moves that the recorder may not see: that one begins does not show."""

    def __init__(self) -> None:
        self._unread = Unread(Kind.ASSIGNMENT, "what is in flight")

    def news(self, state: ClusterState) -> list[Event]:
        """Return that it cannot be read, or can again, when that is new."""
        return self._unread.seen(state.fetched_at, state.moves_unknown)


def refused(answers: Iterable[object]) -> str:
    """Return the first of the answers that says that a right is missing, or ""."""
    faults = (answer for answer in answers if isinstance(answer, Fault))
    return next((str(fault) for fault in faults if "AUTHORIZATION" in fault.name), "")
