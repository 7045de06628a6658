"""Brokers' logs as events of the timeline: their part of the time, corrected, and no more read."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from watch_help import at

from core.watch.statelog.event import to_milliseconds
from core.watch.statelog.files import SLACK_MS, find_log_files, read_records, select_time_range
from core.watch.statelog.timestamps import TimeZones
from core.watch.timeline.events import Kind, LogNote
from core.watch.timeline.log_events import LogEvents


def line(seconds: float, broker: int, message: str) -> str:
    moment = at(seconds)
    stamp = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03}"
    return f"[{stamp}] INFO [Broker id={broker}] {message} (state.change.logger)\n"


def leads(partition: int, epoch: int) -> str:
    return (
        f"Leader orders-{partition} with topic id Some(zZBg-1TQR2aAmKgVpr87eg) starts at leader "
        f"epoch {epoch} from offset 0 with partition epoch {epoch}, high watermark 0, ISR [1,2], "
        "adding replicas [] and removing replicas [] . Previous leader Some(2) and previous "
        f"leader epoch was {epoch - 1}."
    )


def follows(partition: int, epoch: int) -> str:
    return (
        f"Follower orders-{partition} starts at leader epoch {epoch} from offset 0 with partition "
        f"epoch {epoch} and high watermark 0. Current leader is 1. Previous leader Some(2) and "
        f"previous leader epoch was {epoch - 1}."
    )


def write(path: Path, lines: Iterable[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(lines)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode(), 1))
    else:
        path.write_text(text)
    return path


def test_clock_set_back_outside_the_time_range_is_not_counted_as_disorder(tmp_path: Path) -> None:
    early = [line(n % 2 * -40, 1, leads(n, 1)) for n in range(200)]
    late = [line(90_000 + n, 1, leads(n, 2)) for n in range(9)]
    packed = write(tmp_path / "state-change.log.gz", early + late)
    for since, until, doubtful in ((-100, 100, True), (90_000, 90_100, False)):
        logs = LogEvents(find_log_files([packed], TimeZones()).sources, at(since), at(until))
        logs.align()
        assert bool(logs.tally.disorder.records) is doubtful


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Broker 1 leads a partition more each minute; broker 2, 700 ms fast, follows at once."""
    moments = [(minute * 60.0, minute) for minute in range(60)]
    write(
        tmp_path / "1" / "state-change.log", (line(s, 1, leads(m % 8, m + 1)) for s, m in moments)
    )
    write(
        tmp_path / "2" / "state-change.log.gz",
        (line(s + 0.71, 2, follows(m % 8, m + 1)) for s, m in moments),
    )
    return tmp_path


def test_log_events_within_a_time_range_have_their_corrected_time(folder: Path) -> None:
    logs = LogEvents(find_log_files([folder], TimeZones()).sources, at(600), at(1200))
    logs.align()
    events = list(logs.events())
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert len(events) == 22
    assert events[0].at - at(600) < timedelta(seconds=0.5)
    assert events[0].kind is Kind.LEADER
    assert (events[0].topic, events[0].partition) == ("orders", 2)
    note = events[0].after
    assert isinstance(note, LogNote)
    assert note.by == "log of broker 1"
    assert note.text == "leads from epoch 11.11, offset 0, ISR 1,2; before 2, epoch 10"
    assert note.brokers == (1, 2)
    assert note.file.endswith("1/state-change.log")
    assert {abs(ms) for ms in logs.shifts_ms.values()} <= {355, 710}
    assert logs.shifts_ms


def test_log_events_are_filtered_by_the_kinds_of_recorded_events(folder: Path) -> None:
    logs = LogEvents(find_log_files([folder], TimeZones()).sources, at(0), at(3600))
    assert list(logs.events(Kind.CONFIG)) == []
    assert len(list(logs.events(Kind.LEADER | Kind.CONFIG))) == 120


def test_only_the_requested_time_range_of_a_large_log_is_read(tmp_path: Path) -> None:
    trace = "java.io.IOException: gone\n" + "\tat kafka.Somewhere.call(It.scala:7)\n" * 30
    path = write(
        tmp_path / "state-change.log",
        (line(s, 1, leads(s % 8, s)) + trace * (s % 50 == 0) for s in range(20_000)),
    )
    (source,) = find_log_files([path], TimeZones()).sources
    (part,) = select_time_range([source], to_milliseconds(at(9_000)), to_milliseconds(at(9_010)))
    times = [record.at_ms for record in read_records(part)]
    assert times[0] <= to_milliseconds(at(9_000)) - SLACK_MS
    assert times[-1] >= to_milliseconds(at(9_010))
    assert len(times) < 600
    wanted = [ms for ms in times if to_milliseconds(at(9_000)) <= ms <= to_milliseconds(at(9_010))]
    assert len(wanted) == 11


@pytest.mark.parametrize(("seconds", "files"), [(-7_200, 0), (0, 1), (20_000, 1)])
def test_log_that_begins_after_the_time_range_is_not_read(
    tmp_path: Path, seconds: int, files: int
) -> None:
    path = write(tmp_path / "state-change.log", [line(0, 1, leads(0, 1))])
    (source,) = find_log_files([path], TimeZones()).sources
    begin = to_milliseconds(at(seconds))
    assert len(select_time_range([source], begin, begin + 1000)) == files
