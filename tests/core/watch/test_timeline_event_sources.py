"""What runs do and how load shifts is told to the timeline, once, and by whoever records next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from full_disk import files_of_at_most
from run_help import MB, TARGETS, TWO, Run, cluster, plan_of, set_config, submitted
from snapshots import AT, make_snapshot
from test_timeline_recorder import Recorded
from watch_help import cluster as a_cluster
from watch_help import row

from core.cluster.configs import LEADER_RATE, Resource
from core.cluster.connect import Address, Connection
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.daemons import supervisor as serving
from core.daemons.process import Process
from core.errors import TrimtabError
from core.load.snapshot.format import LoadSnapshot
from core.run.journal.journal import JournalError
from core.run.reporting.runs import RunReading
from core.watch.timeline import event_sources as run_news_module
from core.watch.timeline.daemon import start_recording
from core.watch.timeline.database_file import TimelineError
from core.watch.timeline.event_sources import MIN_DURATION, SNAPSHOT_SECONDS, LoadEvents, RunEvents
from core.watch.timeline.events import Event, Kind, Note
from core.watch.timeline.recorder import record_cluster
from core.watch.timeline.store import Timeline
from core.watch.timeline.text import format_event


@pytest.fixture
def client() -> SimulatedCluster:
    return cluster(TWO)


@pytest.fixture
def run(client: SimulatedCluster) -> Iterator[Run]:
    made = Run(client, plan_of(client, TARGETS), rate=5 * MB)
    yield made
    made.journal.close()


def run_news(run: Run, since: datetime) -> RunEvents:
    return RunEvents(run.client.describe_cluster().cluster_id, run.client.clock, since)


def test_run_in_progress_is_reported_without_events_of_its_partitions(run: Run) -> None:
    state, began = run.client.describe_cluster(), run.client.now - timedelta(seconds=1)
    news = run_news(run, began)
    told_first = [format_event(event) for event in news.news(state)]
    assert told_first == [
        f"run {run.path.stem}: journal opened; original order of 3 partitions kept"
    ]
    run.until(submitted)
    run.client.advance(5)
    under_way = [format_event(event) for event in news.news(state)]
    assert any("submitted" in text for text in under_way)
    assert news.news(state) == []
    run.to_the_end()
    run.client.advance(5)
    ended = news.news(state)
    assert format_event(ended[-1]).startswith(f"run {run.path.stem}: done: 3 of 3 partitions")
    assert not any("in ISR" in format_event(event) for event in ended)
    assert {event.kind for event in ended} == {Kind.RUN}


def test_next_recorder_reports_only_run_events_not_yet_reported(run: Run) -> None:
    state, began = run.client.describe_cluster(), run.client.now - timedelta(seconds=1)
    whole_first = run_news(run, began)
    run.until(submitted)
    before = whole_first.news(state)
    run.client.advance(1)
    run.to_the_end()
    after = run_news(run, before[-1].at).news(state)
    again = run_news(run, began).news(state)
    assert [*before, *after] == again
    assert run_news(run, after[-1].at).news(state) == []


def test_damaged_journal_raises_after_events_of_other_runs_are_reported(run: Run) -> None:
    state, began = run.client.describe_cluster(), run.client.now - timedelta(seconds=1)
    damaged = run.path.with_name("0000-000000.run")
    damaged.write_bytes(b"not a journal, but long enough to be taken for one" * 40)
    news = run_news(run, began)
    assert news.news(state) != []
    run.client.advance(5)
    damaged.write_bytes(b"still no journal, and as long as the one before it was" * 40)
    with pytest.raises(TrimtabError):
        news.news(state)


def test_unreadable_journal_raises_once_and_its_events_are_reported_later(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, began = run.client.describe_cluster(), run.client.now - timedelta(seconds=1)
    news, real = run_news(run, began), run_news_module.read_journal

    def refused(cluster_id: str, run: str) -> RunReading:
        raise JournalError("The disk does not answer.")

    monkeypatch.setattr(run_news_module, "read_journal", refused)
    with pytest.raises(JournalError):
        news.news(state)
    run.client.advance(5)
    assert news.news(state) == []  # said once
    run.client.advance(5)
    monkeypatch.setattr(run_news_module, "read_journal", real)
    assert len(news.news(state)) == 1
    run.client.advance(5)
    assert news.news(state) == []


def test_failing_event_source_does_not_stop_other_sources(tmp_path: Path) -> None:
    simulated = cluster({"t": [(1, 2)]})
    event = Event(simulated.now, Kind.FAULT, None, Note("sandbox", "killed broker 2"))

    def broken(state: ClusterState) -> list[Event]:
        raise TrimtabError("The journal is damaged.")

    sources = (broken, lambda state: [event])
    with closing(Recorded(tmp_path / "a.timeline", simulated, sources)) as recorded:
        recorded.spend(2)
        assert next(recorded.timeline.notes()) == event
        assert {str(trouble) for trouble in recorded.troubles} == {"The journal is damaged."}


def test_event_not_stored_on_a_full_disk_is_stored_once_there_is_room(tmp_path: Path) -> None:
    simulated = cluster({"t": [(1, 2)]})
    ended = Event(simulated.now, Kind.RUN, None, Note("run 1", "done"))

    left: list[Event] = []
    path = tmp_path / "a.timeline"

    def source(state: ClusterState) -> list[Event]:
        return [left.pop() for _ in left[:]]

    with closing(Recorded(path, simulated, (source,))) as recorded:
        assert recorded.spend(2) == []
        left.append(ended)
        with files_of_at_most(path.with_name(path.name + "-wal").stat().st_size):
            assert recorded.spend(3) == []
        assert {type(trouble) for trouble in recorded.troubles} == {TimelineError}
        assert recorded.spend(3) == [ended]
        assert list(recorded.timeline.notes()) == [ended]


# -- load ------------------------------------------------------------------------------------------


class Loads:
    """Four partitions, each led by a broker of its own; how much broker 1's takes is set."""

    def __init__(self, reported: tuple[Event, ...] = ()) -> None:
        self.state = a_cluster([row("t", p, (p + 1,)) for p in range(4)])
        self.seconds, self.first = 0.0, 10.0 * MB
        self.client = cluster({"t": [(1,)]})
        self.news = LoadEvents(self.snapshot, self.client.clock, reported)

    def snapshot(self) -> LoadSnapshot:
        values = np.array([self.first, 10.0 * MB, 10.0 * MB, 10.0 * MB])
        base = make_snapshot()
        rates = {key: np.full(4, np.nan) for key in base.rates}
        rates["5m", "in_bytes_per_s", "avg"] = values
        return replace(
            base,
            topics=("t",),
            topic_of=np.zeros(4, np.int32),
            partition=np.arange(4, dtype=np.int32),
            leader=np.arange(1, 5, dtype=np.int32),
            rates=rates,
            window_end=AT + timedelta(seconds=self.seconds),
        )

    def spend(self, seconds: float, first: float) -> list[tuple[float, str]]:
        self.first = first
        events = []
        for _ in range(int(seconds / SNAPSHOT_SECONDS)):
            events += self.news.news(self.state)
            self.client.advance(SNAPSHOT_SECONDS)
            self.seconds += SNAPSHOT_SECONDS
        return [((event.at - AT).total_seconds(), format_event(event)) for event in events]


def test_recorder_records_throttles_and_reads_load_from_the_given_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def spawn(command: list[str], output: Path, stdin: int | None) -> Process:
        started.append(command)
        return Process(os.getpid(), "ends at once")

    monkeypatch.setattr(serving, "spawn", spawn)
    recording = start_recording(Address("h:9092"), "c", "/mnt/load")
    recording.close()
    assert started[0][-1] == "--snapshots=/mnt/load"

    asked: list[str | None] = []
    monkeypatch.setattr(
        "core.watch.timeline.recorder.newest_snapshot", lambda _, where: asked.append(where)
    )
    client = cluster({"t": [(1,)]})
    set_config(client, Resource.broker(2), LEADER_RATE, "1000")
    timeline = Timeline.write(tmp_path / "a.timeline")
    record_cluster(
        Connection(client, client.clock, Address("sim:x")),
        *("c", timeline, "/mnt/load"),
        keep_on=lambda: not asked,
        report=lambda _: None,
    )
    (throttle,) = timeline.notes(kinds=Kind.CONFIG)
    assert throttle.brokers == {2}
    timeline.close()
    assert asked == ["/mnt/load"]


def test_load_that_leaves_the_band_and_its_return_are_reported() -> None:
    loads = Loads()
    assert loads.spend(120, 10.0 * MB) == []
    assert loads.spend(120, 30.0 * MB) == [
        (120.0, "broker 1 in: left the band: 2.0 × its fair share, 30 MB/s")
    ]
    assert loads.spend(120, 15.0 * MB) == []  # 1.3 ×: not back yet
    assert loads.spend(120, 10.0 * MB) == [
        (360.0, "broker 1 in: came back into the band: 1.0 × its fair share, 10 MB/s")
    ]


def test_short_departure_from_the_load_band_is_not_reported() -> None:
    loads = Loads()
    for _ in range(5):
        assert loads.spend(MIN_DURATION.total_seconds() - SNAPSHOT_SECONDS, 30.0 * MB) == []
        assert loads.spend(SNAPSHOT_SECONDS, 10.0 * MB) == []


def test_next_recorder_does_not_repeat_a_departure_from_the_load_band() -> None:
    left = Note("broker 1 in", "left the band: 2.0 × its fair share, 30 MB/s", (1,))
    loads = Loads((Event(AT - timedelta(hours=1), Kind.LOAD, None, left),))
    assert loads.spend(120, 30.0 * MB) == []
    assert [text for _, text in loads.spend(120, 10.0 * MB)] == [
        "broker 1 in: came back into the band: 1.0 × its fair share, 10 MB/s"
    ]
