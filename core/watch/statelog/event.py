"""One event of a state-change log as a value; the timeline stores these too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

new_tuple = tuple.__new__
"""Makes a named tuple of all its values, in a quarter of the time that calling its class takes:
that is worth it for what each line of a log becomes."""


class LogEventKind(StrEnum):
    """What happened, in the words of whoever wrote the record."""

    LEADER = "leader"
    """The broker leads the partition from this leader epoch on."""
    FOLLOWER = "follower"
    """The broker follows the partition's leader from this leader epoch on."""
    ELECTED = "elected"
    """The controller put the partition online, with this leader."""
    ISR = "isr"
    """The leader epoch stays; this is the ISR now."""
    CREATED = "created"
    ASSIGNED = "assigned"
    """The controller gave the partition other replicas."""
    OFFLINE = "offline"
    DELETED = "deleted"
    REPLICA = "replica"
    """The controller put one replica into another state."""
    METADATA = "metadata"
    """The broker learned of partitions that it need not hold."""
    REQUEST = "request"
    """Controller and broker speak to each other."""
    FETCHERS = "fetchers"
    """Partitions change hands, or fetching begins or ends, many at a time."""
    SKIPPED = "skipped"
    """What was asked for is old, or so already."""
    FAILED = "failed"
    UNKNOWN = "unknown"
    """A form of record that is not known here."""


class Change(NamedTuple):
    """The values in a record's message; None is what it does not say."""

    kind: LogEventKind
    topic: str | None = None
    partition: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    previous_leader: int | None = None
    previous_epoch: int | None = None
    """-1 for a partition that the broker did not hold before, also after its own start."""
    offset: int | None = None
    """Where the leader epoch starts in this broker's log."""
    topic_id: str | None = None
    replica: int | None = None
    """The one replica that it is about."""
    partition_count: int | None = None
    """Partitions that the record is about, where it names none."""


class LogEvent(NamedTuple):
    """One record: when, who, what, and where it stands."""

    at_ms: int
    """Milliseconds since 1970 in UTC, by the clock of the broker that wrote it."""
    broker: int | None
    by_controller: bool
    controller_epoch: int | None
    level: str
    change: Change
    text: str
    """The message, without its time, its writer and its logger."""
    more: tuple[str, ...]
    """The lines that follow it, such as a stack trace."""
    file: str
    line: int
    """From 1."""

    @property
    def at(self) -> datetime:
        """Return its time, aware, in UTC."""
        return to_datetime(self.at_ms)


def to_datetime(at_ms: int) -> datetime:
    """Return milliseconds since 1970 as an aware datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def to_milliseconds(at: datetime) -> int:
    """Return an aware datetime as milliseconds since 1970."""
    return (at - _EPOCH) // timedelta(milliseconds=1)
