"""Logs become one story: in order, whole, in little memory, and told what is doubtful."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from multiprocessing import active_children
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import UsageError
from core.watch.statelog import clock_offsets
from core.watch.statelog import parallel as side_by_side
from core.watch.statelog.clock_offsets import ClockOffset
from core.watch.statelog.event import LogEvent, LogEventKind
from core.watch.statelog.files import LogFiles, find_log_files
from core.watch.statelog.merge import (
    BUFFERED_RECORDS,
    Disorder,
    EventFilter,
    Merge,
    MergeTally,
    Suspicion,
    merge_records,
)
from core.watch.statelog.output import TextFormatter, is_in_other_zone, is_incomplete, summary_lines
from core.watch.statelog.timestamps import parse_zones

START = datetime(2026, 1, 31, 2, tzinfo=UTC)
UTC_ONLY = parse_zones(())


def stamp(ms: int) -> str:
    moment = START + timedelta(milliseconds=ms)
    return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03}"


def line(ms: int, broker: int, text: str) -> str:
    return f"[{stamp(ms)}] INFO [Broker id={broker}] {text} (state.change.logger)\n"


def follower(partition: int, epoch: int, *, before: int | None = None, topic: str = "t") -> str:
    return (
        f"Follower {topic}-{partition} starts at leader epoch {epoch} from offset 0 with partition "
        f"epoch {epoch} and high watermark 0. Current leader is 1. Previous leader Some(2) and "
        f"previous leader epoch was {epoch - 1 if before is None else before}."
    )


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))
    return path


def merged(
    *named: Path, event_filter: EventFilter | None = None, zones: Sequence[str] = ()
) -> tuple[list[LogEvent], MergeTally, LogFiles]:
    files = find_log_files(named, parse_zones(zones))
    merge = Merge(files.sources, event_filter or EventFilter(unknown=True))
    events = list(merge)
    return events, merge.tally, files


def lines_of(files: LogFiles) -> int:
    return sum(source.lines for source in files.sources)


def suspicions(*named: Path) -> tuple[Suspicion, ...]:
    _, tally, files = merged(*named)
    return tally.mixed_clusters.suspicions(files.sources)


def at(event: LogEvent) -> int:
    return round((event.at - START) / timedelta(milliseconds=1))


# -- order, and nothing lost or doubled ------------------------------------------------------------

WAITS = st.lists(st.integers(0, 5_000), max_size=30)
TAILS = st.lists(st.sampled_from(["\tat kafka.Kafka.main", "java.lang.Error: no", ""]), max_size=3)


@settings(max_examples=60)
@given(
    brokers=st.lists(st.lists(st.tuples(st.integers(0, 5_000), TAILS), max_size=30), max_size=4),
    packed=st.booleans(),
    parts=st.integers(1, 3),
)
def test_a_merge_is_ordered_and_holds_every_line_once(
    brokers: list[list[tuple[int, list[str]]]], packed: bool, parts: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        written: list[str] = []
        for broker, waits in enumerate(brokers):
            now, lines = 0, list[str]()
            for number, (wait, tail) in enumerate(waits):
                now += wait
                lines.append(line(now, broker, f"Deleting {number} partition(s)."))
                lines[-1] += "".join(f"{text}\n" for text in tail)
            written += lines
            cut = -(-len(lines) // parts) or 1
            for part in range(0, max(len(lines), 1), cut):
                name = folder / str(broker) / f"state-change.log.{part:03}"
                name.parent.mkdir(exist_ok=True)
                data = "".join(lines[part : part + cut]).encode()
                name.write_bytes(gzip.compress(data) if packed else data)
        if not brokers:
            return
        events, summary, files = merged(folder)
        times = [event.at_ms for event in events]
        assert times == sorted(times)
        records = [
            line(at(e), e.broker or 0, e.text) + "".join(f"{text}\n" for text in e.more)
            for e in events
        ]
        assert sorted(records) == sorted(written)
        assert lines_of(files) == sum(text.count("\n") for text in written)
        assert (summary.events, summary.disorder) == (len(written), Disorder())


@given(st.permutations(range(BUFFERED_RECORDS)))
def test_records_out_of_order_within_the_buffer_are_sorted(places: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = (line(ms, 1, "Deleting 1 partition(s).") for ms in places)
        log = write(Path(folder) / "state-change.log", *lines)
        events, summary, _ = merged(log)
        assert [at(event) for event in events] == list(range(BUFFERED_RECORDS))
        assert summary.disorder.records == 0


def test_clock_set_back_is_reported_as_disorder_and_no_event_is_lost(tmp_path: Path) -> None:
    times = [*range(60_000, 60_200), *range(200)]
    lines = (line(ms, 1, "Deleting 1 partition(s).") for ms in times)
    events, summary, _ = merged(write(tmp_path / "state-change.log", *lines))
    assert sorted(at(event) for event in events) == sorted(times)
    assert 0 < summary.disorder.records <= 200
    assert summary.disorder.longest_ms > 59_000


def test_records_with_equal_timestamps_stay_grouped_by_file(tmp_path: Path) -> None:
    for broker in (2, 1):
        lines = (line(0, broker, follower(p, 1)) for p in range(3))
        write(tmp_path / str(broker) / "state-change.log", *lines)
    events, _, _ = merged(tmp_path)
    assert [(e.broker, e.change.partition) for e in events] == [
        (broker, partition) for broker in (1, 2) for partition in range(3)
    ]


def test_only_files_covering_the_time_being_merged_are_open(tmp_path: Path) -> None:
    for hour in range(40):
        log = tmp_path / f"state-change.log.2026-01-31-{hour:02}"
        write(log, line(hour * 3_600_000, 1, "Deleting 1 partition(s)."))
    sources = find_log_files([tmp_path], UTC_ONLY).sources
    most = 0
    for record in merge_records(sources, Disorder()):
        begun = sum(source.lines > 0 for source in sources)
        ended = record.source  # one line each: the files before it are done with
        most = max(most, begun - ended)
    assert most <= 2


def test_memory_does_not_grow_with_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_offsets, "MAX_SAMPLE", 100)

    def peak(lines: int) -> int:
        texts = (line(number, 1, follower(number % 50, 1 + number)) for number in range(lines))
        files = find_log_files(
            [write(tmp_path / str(lines) / "state-change.log", *texts)], UTC_ONLY
        )
        merge = Merge(files.sources)
        tracemalloc.start()
        for _ in merge:
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert peak(20_000) < 1.2 * peak(4_000)


def test_overlong_line_and_stack_trace_are_split_into_bounded_events(tmp_path: Path) -> None:
    trace = [f"\tat frame {n}" for n in range(20_000)]
    parts = (line(0, 1, "x"), "\n".join(trace), "\n", "y" * 300_000)
    events, _, files = merged(write(tmp_path / "state-change.log", *parts))
    lines = [text for event in events[1:] for text in (event.text, *event.more)]
    assert [*events[0].more, *lines][:20_000] == trace
    assert "".join([*events[0].more, *lines][20_000:]) == "y" * 300_000
    assert max(sum(map(len, event.more)) for event in events) < 300_000
    assert lines_of(files) >= 20_002


# -- layouts, zones --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "[2026-01-31 02:00:01,234] INFO [Broker id=3] Deleting 1 partition(s). "
        "(state.change.logger)",
        "2026-01-31 02:00:01,234 INFO [Broker id=3] Deleting 1 partition(s). "
        "(state.change.logger) [kafka-3-metadata-loader-event-handler]",
        "2026-01-31T02:00:01.234Z INFO [Broker id=3] Deleting 1 partition(s).",
        "[2026-01-31T04:00:01.234+0200] INFO [Broker id=3] Deleting 1 partition(s).",
        "2026-01-31 02:00:01,234 [main] INFO [Broker id=3] Deleting 1 partition(s).\r",
    ],
)
def test_lines_of_each_log_layout_are_parsed(text: str, tmp_path: Path) -> None:
    log = tmp_path / "state-change.log"
    log.write_bytes((text + "\n").encode())
    (event,), _, _ = merged(log)
    assert (at(event), event.broker, event.text) == (1_234, 3, "Deleting 1 partition(s).")


TIMES = ("[{}]", "{}", "[{}Z]")
THREADS = ("", "[main] ", "[data-plane-kafka-request-handler-0]\t")


@pytest.mark.parametrize("level", ["INFO", "WARN", "ERROR", "TRACE"])
@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("time", TIMES)
def test_whitespace_between_fields_does_not_change_parsed_events(
    tmp_path: Path, time: str, thread: str, level: str
) -> None:
    text = "Changed partition t-0 state from A to OfflinePartition"
    message = f"[Controller id=3 epoch=7] {text} (state.change.logger)"
    before, after = ((" ", "  ", "\t"), (" ", "  ", "\t", " \t ", f"{'':{6 - len(level)}}"))
    records = [
        f"{time.format(stamp(seconds).replace(',', mark))}{gap}{thread}{level}{pad}{message}\n"
        for seconds, (gap, pad, mark) in enumerate(product(before, after, ",."))
    ]
    events, tally, files = merged(write(tmp_path / "state-change.log", *records))
    assert [at(event) for event in events] == list(range(len(records)))
    assert {(e.level, e.broker, e.by_controller, e.text) for e in events} == {
        (level, 3, True, text)
    }
    assert not any(
        line.endswith("is told") for line in summary_lines(tally, files, UTC_ONLY, {}, True)
    )


@pytest.mark.parametrize(
    ("odd", "lines", "incomplete"),
    [
        ("[{}] INFO [Broker id=1] What is new (state.change.logger)", 100, False),
        ("[{}] INFO [Broker id=1] What is new (state.change.logger)", 98, True),
        ("[{}] NOTICE [Broker id=1] Another layout (state.change.logger)", 98, True),
        ("[{}] INFO Registered a bean (kafka.utils.Log4jController)", 98, False),
        ("\tat kafka.Kafka.main", 98, False),
    ],
)
def test_merge_is_incomplete_if_over_one_percent_of_its_messages_are_unknown(
    tmp_path: Path, odd: str, lines: int, incomplete: bool
) -> None:
    records = [line(at, 1, follower(at, 1)) for at in range(lines - 1)]
    log = write(tmp_path / "state-change.log", *records, f"{odd.format(stamp(lines))}\n")
    _, tally, files = merged(log)
    assert is_incomplete(tally, files) is incomplete
    is_shown = any("of no form" in text for text in summary_lines(tally, files, UTC_ONLY, {}, True))
    assert is_shown is incomplete


def test_broker_or_controller_that_wrote_a_record_is_identified(tmp_path: Path) -> None:
    log = write(
        tmp_path / "server.log",
        f"[{stamp(0)}] TRACE [Controller id=1 epoch=7] Changed partition t-0 state from "
        "OnlinePartition to OfflinePartition (state.change.logger)\n"
        f"[{stamp(1)}] INFO [Partition t-4 broker=2] ISR updated to [1,2] and zkVersion updated to "
        "[5] (kafka.cluster.Partition)\n"
        f"[{stamp(2)}] INFO nobody in particular (kafka.server.KafkaServer)\n",
    )
    first, second, third = merged(log)[0]
    assert (first.broker, first.by_controller, first.controller_epoch) == (1, True, 7)
    assert (second.broker, second.by_controller) == (2, False)
    assert (second.change.topic, second.change.partition, second.change.isr) == ("t", 4, (1, 2))
    assert (third.broker, third.change.kind) == (1, LogEventKind.UNKNOWN)


def test_one_broker_may_have_another_time_zone_than_the_rest(tmp_path: Path) -> None:
    for broker in (1, 2):
        write(tmp_path / f"state-change-{broker}.log", line(0, broker, "x"))
    events, _, _ = merged(tmp_path, zones=("Europe/Berlin", "2=-05:30"))
    hours = {event.broker: at(event) / 3_600_000 for event in events}
    assert hours == {1: -1.0, 2: 5.5}


def test_repeated_hour_of_a_clock_change_is_read_as_two_separate_hours(tmp_path: Path) -> None:
    times = ("02:10", "02:50", "02:10", "02:50", "03:00")
    lines = (f"[2025-10-26 {t}:00,000] INFO [Broker id=1] x\n" for t in times)
    log = write(tmp_path / "state-change.log", *lines)
    events, summary, _ = merged(log, zones=("Europe/Berlin",))
    assert " ".join(f"{event.at:%H:%M}" for event in events) == "00:10 00:50 01:10 01:50 02:00"
    assert summary.disorder.records == 0


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "x=UTC", "=UTC", "+99:00", "../etc/passwd", ""])
def test_zones_that_are_not_known_are_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="--zone"):
        parse_zones((zone,))


# -- what is asked for -----------------------------------------------------------------------------


def test_filter_selects_events_by_topic_partition_time_and_known_kind(tmp_path: Path) -> None:
    log = write(
        tmp_path / "state-change.log",
        line(0, 1, follower(0, 1)),
        line(1, 1, follower(1, 1)),
        line(2, 1, follower(0, 1, topic="tt")),
        line(3, 1, "Transitioning 3 partition(s) to local followers."),
        line(4, 1, "Mark replicas u-7,t-1 on broker 2 as offline"),
        line(5, 1, "nobody knows"),
    )
    origin = round(START.timestamp() * 1000)

    def kept(**brokers: object) -> list[int]:
        return [at(event) for event in merged(log, event_filter=EventFilter(**brokers))[0]]  # type: ignore[arg-type]

    assert kept() == [0, 1, 2, 3, 4]
    assert kept(unknown=True) == [0, 1, 2, 3, 4, 5]
    assert kept(topic=re.compile("t")) == [0, 1, 4]
    assert kept(topic=re.compile("t+"), partitions=frozenset({0})) == [0, 2]
    assert kept(partitions=frozenset({1})) == [1, 4]
    assert kept(from_ms=origin + 1, to_ms=origin + 3) == [1, 2]
    assert merged(log, event_filter=EventFilter())[1].unknown == 1


# -- what may be wrong with files ------------------------------------------------------------------


def test_truncated_gzip_and_plain_logs_are_read_and_reported(tmp_path: Path) -> None:
    whole = "".join(line(n, 1, follower(n, 1)) for n in range(3_000))
    packed = write(tmp_path / "a" / "state-change.log.gz")
    packed.write_bytes(gzip.compress(whole.encode())[:-2_000])
    end = "ter 12 of a record\n\tat kafka\n"
    write(tmp_path / "b" / "state-change.log", end, line(0, 2, "x"), line(1, 2, "y")[:60])
    events, _, files = merged(tmp_path)
    first, second = files.sources
    assert not first.whole
    assert "gzip" in (first.trouble or "")
    assert 0 < first.lines < 3_000
    assert second.whole
    assert "last line" in (second.trouble or "")
    assert second.headless == 2
    assert lines_of(files) == first.lines + 4
    assert sum(e.broker == 1 for e in events) >= first.lines - 1


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x1f\x8bnot gzip at all", "gzip"),
        (b"\x00\xff" * 5_000, "no line in its beginning has a time"),
        (b"a shopping list\nmilk\n", "no line in its beginning has a time"),
        (b"[2026-02-31 02:00:00,000] INFO [Broker id=1] x\n", "no line in its beginning"),
    ],
)
def test_file_that_is_no_log_is_left_out_and_other_files_are_merged(
    data: bytes, why: str, tmp_path: Path
) -> None:
    (tmp_path / "state-change.log.1").write_bytes(data)
    (tmp_path / "state-change.log").write_text(line(0, 1, "x"))
    events, _, files = merged(tmp_path)
    ((path, reason),) = files.left_out
    assert path.name == "state-change.log.1"
    assert why in reason
    assert len(events) == 1


def test_pipe_that_cannot_be_reread_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_text(line(0, 1, "x"))
    os.mkfifo(tmp_path / "pipe")
    events, _, files = merged(tmp_path / "state-change.log", tmp_path / "pipe")
    assert len(events) == 1
    assert [path.name for path, _ in files.left_out] == ["pipe"]


def test_undecodable_bytes_are_replaced_and_an_empty_file_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_bytes(line(0, 1, "x").encode() + b"\xff\xfe\n")
    (tmp_path / "state-change.log.1").write_bytes(b"")
    events, _, files = merged(tmp_path)
    assert [e.more for e in events] == [("\ufffd\ufffd",)]
    assert (lines_of(files), files.left_out) == (2, ())


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "state-change.log"
    log.write_text(line(0, 1, "x"))
    (tmp_path / "state-change.log.link").symlink_to(log)
    events, _, files = merged(log, tmp_path)
    assert len(events) == 1
    assert len(files.twice) == 2


def test_a_folder_is_searched_for_state_change_logs_only(tmp_path: Path) -> None:
    names = ("state-change.log", "state-change.log.2026-01-31-02", "state-change-1.log.gz")
    for name in (*names, "server.log", "state-change.txt"):
        (tmp_path / "deep" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "deep" / name).write_text(line(0, 1, "x"))
    files = find_log_files([tmp_path], UTC_ONLY)
    assert sorted(source.path.name for source in files.sources) == sorted(names)


# -- clocks ----------------------------------------------------------------------------------------


def three_clocks(folder: Path, ahead: dict[int, int], moments: int = 8) -> Path:
    for broker, ms in ahead.items():
        lines = (
            line(n * 60_000 + ms + (broker * 7 + n * 13) % 20 + p, broker, follower(p, n))
            for n in range(1, moments + 1)
            for p in range(5)
        )
        write(folder / f"broker-{broker}" / "state-change.log", *lines)
    return folder


def offsets(*named: Path) -> dict[int, ClockOffset]:
    return {offset.broker: offset for offset in merged(*named)[1].clocks.offsets()}


def test_clock_offsets_of_brokers_are_measured_by_changes_in_common(tmp_path: Path) -> None:
    broker_clocks = offsets(three_clocks(tmp_path, {1: 0, 2: 900, 3: -400}))
    apart = {broker: offset.ahead_ms for broker, offset in broker_clocks.items()}
    assert {b: round((ms or 0) / 100) for b, ms in apart.items()} == {1: 0, 2: 9, 3: -4}
    assert all(offset.sure and offset.within_ms <= 20 for offset in broker_clocks.values())


def test_clock_offset_from_few_moments_is_not_sure_despite_many_partitions(tmp_path: Path) -> None:
    broker_clocks = offsets(three_clocks(tmp_path, {1: 0, 2: 900}, moments=2))
    assert [(offset.moments, offset.sure) for offset in broker_clocks.values()] == [(2, False)] * 2


def test_changes_replayed_at_broker_start_are_not_used_for_its_clock_offset(tmp_path: Path) -> None:
    for broker, ms in ((1, 0), (2, 3_600_000)):
        lines = (line(ms + n, broker, follower(n, 3, before=-1)) for n in range(50))
        write(tmp_path / f"{broker}" / "state-change.log", *lines)
    assert [offset.ahead_ms for offset in offsets(tmp_path).values()] == [None, None]


def test_broker_log_in_another_time_zone_is_detected_by_its_clock_offset(tmp_path: Path) -> None:
    broker_clocks = offsets(three_clocks(tmp_path, {1: 0, 2: 50, 3: 7_200_000}))
    assert {broker: is_in_other_zone(offset) for broker, offset in broker_clocks.items()} == {
        1: False,
        2: False,
        3: True,
    }


def test_bounded_sample_of_changes_suffices_for_clock_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_offsets, "MAX_SAMPLE", 50)
    folder = three_clocks(tmp_path, {1: 0, 2: 900, 3: -400}, moments=200)
    merge = Merge(find_log_files([folder], UTC_ONLY).sources)
    for _ in merge:
        pass
    assert len(merge.tally.clocks._sample) <= 50
    broker_clocks = {offset.broker: offset for offset in merge.tally.clocks.offsets()}
    assert abs((broker_clocks[2].ahead_ms or 0) - (broker_clocks[1].ahead_ms or 0) - 900) <= 20
    assert broker_clocks[2].sure


SAMPLED = """
from core.watch.statelog import clock_offsets
from core.watch.statelog.event import Change, LogEvent, LogEventKind
clock_offsets.MAX_SAMPLE = 50
clocks = clock_offsets.ClockOffsets()
for n in range(2_000):
    epochs = {"leader_epoch": n, "partition_epoch": n % 3 or None}
    change = Change(LogEventKind.FOLLOWER, f"t{n % 7}", n, **epochs)
    for broker in (1, 2):
        at_ms = n * 60_000 + broker * n
        clocks.note(LogEvent(at_ms, broker, False, None, "INFO", change, "", (), "a.log", n))
print(clocks.offsets())
"""


def test_each_process_samples_the_same_changes() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SAMPLED],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert "ahead_ms=None" not in outputs.pop()


# -- strangers -------------------------------------------------------------------------------------


def test_overlapping_logs_of_one_broker_id_are_suspected_as_mixed_clusters(tmp_path: Path) -> None:
    for place in ("prod", "test"):
        lines = (line(n * 60_000, 1, follower(0, n)) for n in range(1, 5))
        write(tmp_path / place / "state-change.log", *lines)
    (sign,) = suspicions(tmp_path)
    assert sign.broker == 1
    assert [path.parent.name for path in sign.files] == ["prod", "test"]


def test_server_and_state_change_log_of_one_broker_are_no_mixed_clusters(tmp_path: Path) -> None:
    for name in ("state-change.log", "server.log"):
        lines = (line(n * 60_000, 1, follower(0, n)) for n in range(1, 5))
        write(tmp_path / name, *lines)
    assert suspicions(tmp_path / "state-change.log", tmp_path / "server.log") == ()


def test_rotated_logs_are_not_suspected_as_mixed_clusters(tmp_path: Path) -> None:
    for hour in range(3):
        lines = (line(hour * 3_600_000, 1, "x"), line(hour * 3_600_000 + 3_599_000, 1, "y"))
        write(tmp_path / f"state-change.log.{hour}", *lines)
    assert suspicions(tmp_path) == ()


def test_topic_with_alternating_ids_is_suspected_and_a_recreated_topic_is_not(
    tmp_path: Path,
) -> None:
    def ids(name: str, *ids: str) -> Path:
        text = "Creating new partition t-0 with topic id {}."
        lines = (line(n * 90_000, 1, text.format(id)) for n, id in enumerate(ids))
        return write(tmp_path / name, *lines)

    assert suspicions(ids("again.log", "A", "A", "B", "B")) == ()
    (sign,) = suspicions(ids("turns.log", "A", "B", "A", "B"))
    assert sign.topic == "t"


# -- for a terminal --------------------------------------------------------------------------------

HOSTILE = st.text(st.sampled_from("t-0 \x00\x1b\x9b\u202e]'"), max_size=8)


@settings(max_examples=200)
@given(
    HOSTILE,
    st.sampled_from(
        [
            "[Broker id=1] Handling LeaderAndIsr(topicName='{}', partitionIndex=1, leader=2)",
            "[Broker id=1] Completed LeaderAndIsr(topicName='{}', partitionIndex=1, isr=[2])",
            "[Partition {}-3 broker=1] Expanding ISR from 1 to 1,2",
            "[Broker id=1] Leader {}-3 starts at leader epoch 1 from offset 0 and previous leader "
            "epoch was 0",
            "[{}] {}",
        ]
    ),
)
def test_control_characters_of_a_log_are_never_printed_to_a_terminal(name: str, form: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = f"[{stamp(0)}] INFO {form.replace('{}', name)}\n\tat {name}\n"
        events, _, _ = merged(write(Path(folder) / "a.log", text))
    for event in events:
        text = TextFormatter().text(event)
        assert all(part.isprintable() for part in text.split("\n")), text


# -- side by side ----------------------------------------------------------------------------------


def test_several_processes_merge_the_same_lines_and_summary_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "MIN_BYTES", 0)
    three_clocks(tmp_path, {1: 0, 2: 900, 3: -400}, moments=150)
    with (tmp_path / "broker-3" / "state-change.log").open("a") as file:
        file.write("\tat a last line without its end")

    def merged_lines(processes: int) -> tuple[list[str], list[str]]:
        files, tally = find_log_files([tmp_path], UTC_ONLY), MergeTally()
        lines = side_by_side.merge_lines(
            files.sources, EventFilter(), {1: 70}, tally, as_json=False, processes=processes
        )
        return list(lines), list(summary_lines(tally, files, UTC_ONLY, {}, False))

    alone = merged_lines(1)
    assert len(alone[0]) == 3 * 150 * 5
    assert any("its last line is cut short" in line for line in alone[1])
    assert merged_lines(2) == alone


def test_closing_an_unfinished_merge_ends_its_worker_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "MIN_BYTES", 0)
    sources = find_log_files(
        [three_clocks(tmp_path, {1: 0, 2: 900}, moments=2_000)], UTC_ONLY
    ).sources
    lines = side_by_side.merge_lines(
        sources, EventFilter(), {}, MergeTally(), as_json=True, processes=2
    )
    next(lines)
    assert len(active_children()) == 2
    lines.close()
    assert active_children() == []


@pytest.mark.parametrize(
    ("zone", "hour"), [("Europe/Berlin", "0001-01-01 00"), ("-05:00", "9999-12-31 23")]
)
def test_timestamp_with_a_damaged_year_is_not_read_as_a_time(
    tmp_path: Path, zone: str, hour: str
) -> None:
    whole = line(0, 1, follower(0, 1))
    damaged = whole.replace("2026-01-31 02", hour)
    log = write(tmp_path / "a.log", damaged, whole, damaged, line(9, 1, follower(0, 2)))
    events, tally, _ = merged(log, event_filter=EventFilter(), zones=[zone])
    assert [event.change.leader_epoch for event in events] == [1, 2]
    assert tally.unknown == 1  # the first; the second goes with the record before it


def test_file_begins_at_its_first_line_even_if_that_line_names_no_broker(tmp_path: Path) -> None:
    nobody = line(0, 1, follower(0, 1)).replace("[Broker id=1] ", "")
    first = write(tmp_path / "a.log", nobody, line(3_600_000, 1, follower(0, 3)))
    second = write(tmp_path / "b.log", line(1_800_000, 2, follower(0, 2)))
    events, _, files = merged(first, second)
    assert [event.change.leader_epoch for event in events] == [1, 2, 3]
    assert min(source.first_ms for source in files.sources) == round(START.timestamp() * 1000)
