"""When a run is to start, as people say it; by this machine's zone unless it is said otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from core.cli.start_time import parse_start, said
from core.errors import UsageError

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
def test_a_time_that_is_said(text: str, after: str) -> None:
    hours, _, minutes = after.rpartition("h")
    expected = timedelta(hours=int(hours or 0), minutes=int(minutes.rstrip("m") or 0))
    assert parse_start(text, NOW) - NOW == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("soon", "Not a time"),
        ("25:00", "Not a time"),
        ("2026-01-16", "At what time on 2026-01-16"),
        ("2026-01-15T20:30", "is past: it was 30 m ago"),
        ("+0s", "is past"),
        ("2026-06-01T02:00", "out of date"),
    ],
)
def test_a_time_that_is_none(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_start(text, NOW)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026-03-29T02:30", "comes never that night"),
        ("2026-10-25T02:30", "comes twice that night"),
    ],
)
def test_a_night_in_which_clocks_are_changed(text: str, says: str) -> None:
    now = datetime.fromisoformat(text[:10]).replace(tzinfo=UTC) - timedelta(hours=12)
    with pytest.raises(UsageError, match=says) as raised:
        parse_start(text, now)
    offset = raised.value.next.split("like ")[1].rstrip(".")
    assert parse_start(offset, now)


def test_it_is_said_back_with_its_zone() -> None:
    assert said(NOW) == "2026-01-15 21:00 CET (20:00 UTC)"
