"""An hour that comes twice as clocks are set back: in ranges of large logs, in rotated files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from core.watch.statelog.event import to_milliseconds
from core.watch.statelog.files import find_log_files, read_records, select_time_range
from core.watch.statelog.merge import EventFilter, Merge
from core.watch.statelog.timestamps import parse_zones

BERLIN = "Europe/Berlin"
BEGIN = datetime(2025, 10, 25, 21, tzinfo=UTC)
"""Three hours before 02:00 comes for the first time; 01:00Z is the second."""


def utc(text: str) -> datetime:
    return datetime.fromisoformat(f"2025-10-26T{text}:00Z")


def minutely(begin: datetime, end: datetime, every: float = 60) -> list[datetime]:
    count = round((end - begin).total_seconds() / every)
    return [begin + timedelta(seconds=every * i) for i in range(count)]


def write(path: Path, moments: Sequence[datetime], broker: int = 1, zone: str = BERLIN) -> Path:
    """Write a record at each moment, in the wall clock's time and without its zone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    wall = (moment.astimezone(ZoneInfo(zone)) for moment in moments)
    lines = (f"[{at:%Y-%m-%d %H:%M:%S},000] INFO [Broker id={broker}] {'x' * 80}\n" for at in wall)
    path.write_text("".join(lines))
    return path


def event_times(*named: Path, zone: str = BERLIN) -> list[datetime]:
    merge = Merge(find_log_files(named, parse_zones((zone,))).sources, EventFilter(unknown=True))
    return [event.at for event in merge]


@pytest.mark.parametrize(
    ("since", "until"),
    [
        *(("00:10", "00:50"), ("00:58", "01:20"), ("01:02", "01:05"), ("01:10", "01:50")),
        *(("01:50", "02:30"), ("02:20", "02:40"), ("03:30", "03:40")),
    ],
)
def test_time_range_around_a_repeated_hour_is_read_whole_from_a_large_log(
    tmp_path: Path, since: str, until: str
) -> None:
    moments = minutely(BEGIN, utc("05:00"), every=4)
    path = write(tmp_path / "state-change.log", moments)
    (source,) = find_log_files([path], parse_zones((BERLIN,))).sources
    begin, end = utc(since), utc(until)
    (part,) = select_time_range([source], to_milliseconds(begin), to_milliseconds(end))
    times_ms = [
        r.at_ms
        for r in read_records(part)
        if to_milliseconds(begin) <= r.at_ms <= to_milliseconds(end)
    ]
    assert times_ms == [to_milliseconds(at) for at in moments if begin <= at <= end]


def test_named_zone_reads_no_more_than_a_fixed_offset_on_days_without_clock_change(
    tmp_path: Path,
) -> None:
    begin = datetime(2025, 7, 1, tzinfo=UTC)
    moments = minutely(begin, begin + timedelta(hours=8), every=4)
    since, until = (to_milliseconds(begin + timedelta(hours=hour)) for hour in (6, 7))
    parts = []
    for zone in (BERLIN, "+02:00"):
        path = write(tmp_path / zone[-2:] / "state-change.log", moments)
        parts += select_time_range(
            find_log_files([path], parse_zones((zone,))).sources, since, until
        )
    assert parts[0].begin_byte == parts[1].begin_byte > 0


@pytest.mark.parametrize(
    "cuts",
    [
        *(["00:30"], ["01:30"], ["01:00"], ["01:02"], ["02:00"], ["01:10", "01:40"]),
        *(["00:05", "01:02"], ["00:30", "01:10", "01:40"]),
    ],
)
@pytest.mark.parametrize("newest_first", [False, True])
def test_rotated_files_are_merged_in_order_wherever_the_rotation_cuts_them(
    tmp_path: Path, cuts: list[str], newest_first: bool
) -> None:
    moments = minutely(BEGIN, utc("04:00"))
    ends = [*map(utc, cuts), utc("04:00")]
    for n, (begin, end) in enumerate(zip([BEGIN, *ends], ends, strict=False)):
        number = len(ends) - n if newest_first else n
        write(tmp_path / f"state-change.log.{number}", [at for at in moments if begin <= at < end])
    assert event_times(tmp_path) == moments


def test_log_starts_in_the_first_repeated_hour_next_to_the_log_of_another_broker(
    tmp_path: Path,
) -> None:
    write(tmp_path / "1" / "state-change.log", minutely(BEGIN, utc("04:00")))
    late = minutely(utc("00:10"), utc("03:00"))
    write(tmp_path / "2" / "state-change.log", late, broker=2)
    assert event_times(tmp_path / "2", tmp_path / "1") == sorted(
        [*late, *minutely(BEGIN, utc("04:00"))]
    )


def test_overlap_of_rotated_files_is_not_taken_for_a_clock_set_back(tmp_path: Path) -> None:
    older, newer = minutely(BEGIN, utc("00:32")), minutely(utc("00:30"), utc("03:00"))
    write(tmp_path / "state-change.log.1", older)
    write(tmp_path / "state-change.log", newer)
    assert sorted(event_times(tmp_path)) == sorted([*older, *newer])
