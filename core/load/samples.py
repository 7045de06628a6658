"""The raw sample: one row a replica a poll; its columns, units, flags and methods.

The schema is `trimtab.sample/1`. A poll lies wholly in one segment, so (collector_id, poll_id,
topic_id, partition, broker_id) is unique over all segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum, IntFlag

FORMAT = "trimtab.sample/1"


class Method(IntEnum):
    """How the bytes of an interval were inferred; higher is worse, NONE is not at all.

    The numbers are part of the format.
    """

    NONE = 0
    COUNTED = 1
    """The leader counted the bytes of this partition alone."""
    CLEAN_SIZE = 2
    BYTES_PER_MESSAGE = 3
    SPLIT = 4
    """The leader counted the topic; split among those it leads, by how much each grew."""
    EVEN_SPLIT = 5
    """Split evenly, as nothing tells how much each grew: a hot partition is not seen."""


class Flag(IntFlag):
    """Why an interval of a replica has no delta, or a doubtful one."""

    FIRST = 1
    """No sample of this series before."""
    LEADER_CHANGED = 2
    SIZE_SHRUNK = 4
    """Segments were deleted or compacted."""
    TRUNCATED = 8
    """The log's end went backwards: an unclean election."""
    RECREATED = 16
    """The topic was deleted and made again."""
    CLOCK_STEP = 32
    """The wall clock jumped by more than 2 s."""
    PARTIAL_POLL = 64
    """The broker did not say what its log dirs hold."""
    GROUP_JUMPED = 128
    """A group without members went forward by more than it can have read: its offsets were set."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: Arrow type name, unit and whether it may be null."""

    name: str
    type: str
    nullable: bool = False
    unit: str = ""


COLUMNS = (
    Column("cluster_id", "string"),
    Column("topic", "string"),
    Column("topic_id", "string"),
    Column("partition", "int32"),
    Column("broker_id", "int32"),
    Column("is_leader", "bool"),
    Column("leader_epoch", "int32", nullable=True),
    Column("ts", "timestamp[us, UTC]"),
    Column("dt_ms", "int32", nullable=True, unit="ms"),
    Column("end_offset", "int64", nullable=True, unit="messages"),
    Column("start_offset", "int64", nullable=True, unit="messages"),
    Column("offset_delta", "int64", nullable=True, unit="messages"),
    Column("size_delta", "int64", nullable=True, unit="B"),
    Column("size_bytes", "int64", nullable=True, unit="B"),
    Column("in_bytes", "double", nullable=True, unit="B"),
    Column("out_bytes", "double", nullable=True, unit="B"),
    Column("in_method", "int8"),
    Column("out_method", "int8"),
    Column("replica_lag", "int64", nullable=True, unit="messages"),
    Column("group_lag", "int64", nullable=True, unit="messages"),
    Column("log_dir", "string", nullable=True),
    Column("source", "string"),
    Column("collector_id", "string"),
    Column("poll_id", "int64"),
    Column("flags", "int32"),
)

WINDOW_LENGTH = timedelta(minutes=5)
"""What samples are summed up over."""
MAX_CLOCK_AHEAD = timedelta(seconds=60)
"""How far a collector's clock may be ahead."""

UNIQUE_KEY = ("collector_id", "poll_id", "topic_id", "partition", "broker_id")


def latest_sample_time(now: datetime) -> datetime:
    """Return the latest time that a sample can be of.

    While a host's clock is ahead its samples seem to be of now; once it is put right, what was made
    of them lies beyond this, and must not be taken for the newest.
    """
    return now + MAX_CLOCK_AHEAD


# -- times as whole microseconds since the epoch, as Spark's expressions have them -----------------

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_micros(moment: datetime | timedelta) -> int:
    """Return a moment or a duration in microseconds."""
    since = moment - EPOCH if isinstance(moment, datetime) else moment
    return since // timedelta(microseconds=1)


def from_micros(at: int) -> datetime:
    """Return the moment that is so many microseconds after the epoch."""
    return EPOCH + timedelta(microseconds=at)


WINDOW_MICROS = to_micros(WINDOW_LENGTH)
HOUR_MICROS = to_micros(timedelta(hours=1))
DAY_MICROS = to_micros(timedelta(days=1))


def floor_micros(at: int, length: int) -> int:
    """Return the start of the window or hour that a time lies in."""
    return at - at % length
