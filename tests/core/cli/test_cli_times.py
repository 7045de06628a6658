"""Moments as people say them; by this machine's zone unless it is said otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from core.cli.common.times import format_local, parse_moment, parse_start
from core.cli.timeline.timeline import parse_range
from core.errors import UsageError

AFTERNOON = datetime(2026, 10, 14, 13, 55, tzinfo=timezone(timedelta(hours=2)))  # here
NOW = datetime(2026, 1, 15, 20, 0, tzinfo=UTC)  # 21:00 in Berlin


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("21:30", "30m"),
        ("20:30", "23h30m"),
        ("2:30", "5h30m"),
        ("+90m", "1h30m"),
        ("+1h30m", "1h30m"),
        ("2026-01-16T02:30", "5h30m"),
        ("2026-01-16 02:30:00", "5h30m"),
        ("2026-01-16T02:30Z", "6h30m"),
        ("2026-01-16T02:30+05:00", "1h30m"),
    ],
)
def test_start_time_is_parsed_from_clock_time_date_or_delay(text: str, after: str) -> None:
    hours, _, minutes = after.rpartition("h")
    expected = timedelta(hours=int(hours or 0), minutes=int(minutes.rstrip("m") or 0))
    assert parse_start(text, NOW) - NOW == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("soon", "Not a time"),
        ("25:00", "Not a time"),
        ("2026-01-16", "At what time on 2026-01-16"),
        ("2026-01-15T20:30", "is in the past, 30 m ago"),
        ("+0s", "is in the past"),
        ("2026-06-01T02:00", "out of date"),
    ],
)
def test_invalid_past_or_too_distant_start_time_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_start(text, NOW)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026-03-29T02:30", "occurs never"),
        ("2026-10-25T02:30", "occurs twice"),
    ],
)
def test_start_time_that_occurs_never_or_twice_is_refused_with_an_alternative(
    text: str, says: str
) -> None:
    now = datetime.fromisoformat(text[:10]).replace(tzinfo=UTC) - timedelta(hours=12)
    with pytest.raises(UsageError, match=says) as raised:
        parse_start(text, now)
    offset = raised.value.next.split("like ")[1].rstrip(".")
    assert parse_start(offset, now) > now


def test_time_is_formatted_in_local_zone_and_utc() -> None:
    assert format_local(NOW) == "2026-01-15 21:00 CET (20:00 UTC)"


CHANGED = datetime(2026, 10, 25, 11, 0, tzinfo=UTC)
"""Noon in Berlin, clocks went back at three in the night."""


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("01:30", "2026-10-24T23:30Z"),
        ("2026-10-25 01:30", "2026-10-24T23:30Z"),
        ("2026-10-25", "2026-10-24T22:00Z"),
        ("03:30:15", "2026-10-25T02:30:15Z"),
        ("13:00", "2026-10-24T11:00Z"),
        ("2026-10-25T02:30+02:00", "2026-10-25T00:30Z"),
        ("20261025", "2026-10-24T22:00Z"),
        ("11h", "2026-10-25T00:00Z"),
    ],
)
def test_past_moment_is_parsed_from_clock_time_date_or_age(text: str, meant: str) -> None:
    assert parse_moment(text, CHANGED) == datetime.fromisoformat(meant)


@pytest.mark.parametrize("text", ["yesterday", "25:00", "03:10:60", "0001-01-01", "9999999999d"])
def test_invalid_past_moment_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="Not a time"):
        parse_moment(text, CHANGED)


@pytest.mark.parametrize("text", ["02:30", "2026-10-25 02:30"])
def test_ambiguous_time_at_clock_change_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="occurs twice"):
        parse_moment(text, CHANGED)


def test_clock_time_is_unambiguous_if_its_night_is_not_that_of_the_clock_change() -> None:
    assert parse_start("02:30", CHANGED) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)
    before = CHANGED - timedelta(days=1)
    assert parse_moment("02:30", before) == datetime(2026, 10, 24, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "until", "begin", "end"),
    [
        ("13:00", "14:00", (14, 13, 0), (14, 14, 0)),  # an hour that has not ended
        ("13:00", "13:30", (14, 13, 0), (14, 13, 30)),
        ("14:00", "15:00", (13, 14, 0), (13, 15, 0)),  # of yesterday, both
        ("23:00", "01:00", (13, 23, 0), (14, 1, 0)),
        ("2026-10-10", "13:30", (10, 0, 0), (14, 13, 30)),
        ("30m", "14:00", (14, 13, 25), (14, 14, 0)),
        ("2h", "1h", (14, 11, 55), (14, 12, 55)),
    ],
)
def test_range_of_times_is_resolved_so_that_it_ends_after_it_begins(
    since: str, until: str, begin: tuple[int, int, int], end: tuple[int, int, int]
) -> None:
    moments = parse_range(since, until, AFTERNOON)
    assert moments == tuple(AFTERNOON.replace(day=d, hour=h, minute=m) for d, h, m in (begin, end))


@pytest.mark.parametrize(("since", "until"), [("1h", "2h"), ("13:00", "2026-10-13"), ("1h", "1h")])
def test_a_range_that_ends_before_it_begins_is_refused(since: str, until: str) -> None:
    with pytest.raises(UsageError, match=f"--since {since} is not before") as refused:
        parse_range(since, until, AFTERNOON)
    assert refused.value.next == "Swap the two."
