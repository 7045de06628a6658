"""Hours and limits as they are typed: what they mean, and what contradicts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from core.autopilot.settings import AutopilotSettings, Hours, Mode
from core.errors import DocumentError, UsageError

MONDAY = datetime(2026, 1, 5)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("09:00-18:00", [(0, "09:00"), (6, "17:59")], [(0, "08:59"), (0, "18:00")]),
        ("mon-fri 9:00-18:00", [(4, "12:00")], [(5, "12:00")]),
        ("22:00-06:00", [(0, "23:00"), (0, "05:59")], [(0, "06:00"), (0, "21:59")]),
        ("sun 22:00-02:00", [(6, "22:00"), (0, "01:59")], [(6, "01:00"), (0, "02:00")]),
        ("sat-mon 00:00-24:00", [(5, "00:00"), (6, "12:00"), (0, "23:59")], [(1, "00:00")]),
        ("tue 1:00-2:00, thu 3:00-4:00", [(1, "01:30"), (3, "03:30")], [(1, "03:30")]),
    ],
)
def test_hours_of_the_week_are_parsed(
    text: str, inside: list[tuple[int, str]], outside: list
) -> None:  # type: ignore[type-arg]
    hours = Hours.parse(text, "--avoid")
    for expected, moments in ((True, inside), (False, outside)):
        for day, clock in moments:
            hour, minute = map(int, clock.split(":"))
            moment = MONDAY.replace(day=MONDAY.day + day, hour=hour, minute=minute)
            assert hours.holds(moment) is expected, moment


@pytest.mark.parametrize(
    "text",
    ["", "nine to five", "9-17", "mo 09:00-10:00", "25:00-26:00", "09:61-10:00", "09:00-10:00,"],
)
def test_invalid_hours_are_reported(text: str) -> None:
    with pytest.raises(UsageError, match="--avoid: not hours of the week"):
        Hours.parse(text, "--avoid")


def test_hours_follow_the_time_zone_of_the_given_moment() -> None:
    hours = Hours.parse("mon-fri 09:00-18:00", "--avoid")
    tokyo = ZoneInfo("Asia/Tokyo")
    assert hours.holds(datetime(2026, 1, 5, 17, 59, tzinfo=tokyo))
    assert not hours.holds(datetime(2026, 1, 5, 18, 0, tzinfo=tokyo))


BUSY = Hours.parse("mon-fri 08:00-20:00", "--avoid")


@pytest.mark.parametrize(
    ("contradiction", "says"),
    [
        (lambda: Hours.parse("09:00-09:00", "--only"), "no time at all"),
        (lambda: AutopilotSettings(start_band=0.1, aim_band=0.1), "never come to rest"),
        (
            lambda: AutopilotSettings(avoid=BUSY, only=Hours.parse("tue 09:00-10:00", "--only")),
            "no time is left",
        ),
        (lambda: AutopilotSettings(keep="("), "--keep"),
    ],
)
def test_contradictory_settings_are_refused(contradiction: Callable[[], object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        contradiction()
    AutopilotSettings(avoid=BUSY, only=Hours.parse("tue 19:00-21:00", "--only"))


def test_settings_are_read_back_as_they_were_written() -> None:
    settings = AutopilotSettings(
        mode=Mode.SUGGEST,
        max_bytes_per_hour=float("inf"),
        avoid=Hours.parse("mon-fri 08:00-20:00", "--avoid"),
        keep="audit-.*",
    )
    assert AutopilotSettings.from_json(settings.to_json()) == settings
    with pytest.raises(DocumentError, match="Not an autopilot's settings"):
        AutopilotSettings.from_json({"mode": "on"})
