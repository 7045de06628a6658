"""Times as Spark's expressions have them: microseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from core.load.samples import WINDOW_LENGTH

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(moment: datetime | timedelta) -> int:
    """Return a moment or a duration in microseconds."""
    since = moment - EPOCH if isinstance(moment, datetime) else moment
    return since // timedelta(microseconds=1)


def moment(at: int) -> datetime:
    return EPOCH + timedelta(microseconds=at)


WINDOW = micros(WINDOW_LENGTH)
HOUR = 12 * WINDOW
DAY = 24 * HOUR


def floor(at: int, length: int) -> int:
    """Return the start of the window or hour that a time lies in."""
    return at - at % length
