"""What is told to a timeline by others than its recorder, drills too, among what was seen."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from test_timeline_store import recorded, restless
from watch_help import at

from core import paths
from core.cluster.drills.drill import Drill, DrillKind, Offer, broker_drill
from core.cluster.state import ClusterState
from core.errors import TrimtabError
from core.watch.timeline.database_file import TimelineError
from core.watch.timeline.events import KIND_FILTERS, Event, Kind, LogNote, Note
from core.watch.timeline.publisher import Publisher, run_drill
from core.watch.timeline.store import Timeline
from core.watch.timeline.text import format_event, group_events


def test_published_notes_are_ordered_by_time_among_recorded_events(tmp_path: Path) -> None:
    path = tmp_path / "a.timeline"
    timeline = Timeline.write(path)
    seen = recorded(timeline, restless(20))
    late = Event(at(95), Kind.GROUP, None, Note("group g", "rebalanced"))
    early = Event(at(15), Kind.CLIENT, None, Note("probe", "transport failure", (2,)), "t", 3)
    with Publisher("x", path) as publisher:
        publisher.report(Kind.GROUP, by="group g", text="rebalanced", at=at(95))
        publisher.publish_all([early])
    events = list(timeline.events())
    assert [event for event in events if isinstance(event.after, Note)] == [early, late]
    assert [event for event in events if not isinstance(event.after, Note)] == seen
    assert all(event.at <= other.at for event, other in pairwise(events))
    assert list(timeline.events(kinds=KIND_FILTERS["client"])) == [early]
    assert list(timeline.events(at(16), at(95)))[-1] == late
    assert (early.brokers, late.brokers) == (frozenset({2}), frozenset())
    assert (format_event(early), format_event(late)) == (
        "probe: transport failure",
        "group g: rebalanced",
    )
    timeline.close()


def test_repeated_identical_notes_are_grouped_into_one_event() -> None:
    events = [Event(at(n), Kind.CLIENT, None, Note("probe", "timed out", (1,))) for n in range(3)]
    assert [group.text for group in group_events(events)] == ["probe: timed out, 3 times, over 2 s"]


@pytest.mark.parametrize("kind", [Kind.LEADER, Kind.OFFLINE, Kind.ISR_SHRINK, Kind.ASSIGNMENT])
def test_identical_log_notes_are_counted_and_not_grouped_as_recorded_changes(kind: Kind) -> None:
    logged = LogNote("log of broker 1", "leads from epoch 2", (1,), "state-change.log")
    events = [Event(at(n), kind, None, logged, "t", 0) for n in range(2)]
    (group,) = group_events(events)
    assert group.text == f"{format_event(events[0])}, 2 times (t), over 1 s"


def test_timeline_may_be_a_symlink_to_a_file_not_yet_created(tmp_path: Path) -> None:
    path = tmp_path / "a.timeline"
    path.symlink_to(tmp_path / "another disk.timeline")
    with Publisher("x", path) as publisher:
        publisher.report(Kind.RUN, by="run", text="began")
        assert publisher.trouble is None
    assert path.is_symlink()
    with closing(Timeline.read(path)) as timeline:
        assert len(list(timeline.events())) == 1


ELSEWHERE = """
import sys; from pathlib import Path
from core.watch.timeline.store import Timeline
from core.watch.timeline.publisher import Publisher
from core.watch.timeline.events import Kind
path = Path(sys.argv[1])
if sys.argv[2] == "tell":
    with Publisher("x", path) as teller:
        teller.report(Kind.RUN, by="another process", text="told")
else:
    print(*(event.after.text for event in Timeline.read(path).events()))
"""


def test_publisher_next_to_a_recorder_does_not_lose_the_recorders_write_ahead_log(
    tmp_path: Path,
) -> None:
    """A process loses its locks on a file when it closes any handle of it: the next process to end
    would take the recorder's write-ahead log for one of nobody, and delete it."""

    def elsewhere(what: str) -> str:
        command = [sys.executable, "-P", "-c", ELSEWHERE, str(path), what]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    path = tmp_path / "a.timeline"
    with closing(Timeline.write(path)) as recorder, Publisher("x", path) as publisher:
        publisher.report(Kind.GROUP, by="group g", text="first")
        elsewhere("tell")
        recorder.report([Event(at(50), Kind.RUN, None, Note("run 1", "last"))])
        assert sorted(elsewhere("read").split()) == ["first", "last", "told"]


def test_several_publishers_write_at_once_before_anything_was_recorded(tmp_path: Path) -> None:
    for round in range(20):  # how they meet is chance
        path = tmp_path / str(round) / "a.timeline"
        together = threading.Barrier(4)
        troubles: list[str] = []

        def talk(
            who: str,
            path: Path = path,
            together: threading.Barrier = together,
            troubles: list[str] = troubles,
        ) -> None:
            together.wait()
            with Publisher("x", path) as publisher:
                for n in range(3):
                    publisher.report(Kind.CLIENT, by=who, text=f"error {n}")
                    if publisher.trouble is not None:
                        troubles.append(str(publisher.trouble))

        talkers = [threading.Thread(target=talk, args=(f"client {n}",)) for n in range(4)]
        for talker in talkers:
            talker.start()
        for talker in talkers:
            talker.join()
        timeline = Timeline.read(path)
        assert troubles == []
        assert len(list(timeline.notes())) == 12 == timeline.last_note
        assert timeline.span is None
        timeline.close()


def test_failed_publishing_is_recorded_as_trouble_and_raises_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.timeline"
    path.write_bytes(b"not a timeline, but long enough to be taken for a database file" * 20)
    with Publisher("x", path) as publisher:
        publisher.report(Kind.FAULT, by="sandbox", text="killed broker 2")
        assert isinstance(publisher.trouble, TimelineError)
        path.unlink()
        publisher.report(Kind.FAULT, by="sandbox", text="killed broker 2")
        assert publisher.trouble is None


def test_timeline_file_of_the_previous_format_is_read_and_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "a.timeline"
    timeline = Timeline.write(path)
    seen = recorded(timeline, restless(5))
    timeline.close()
    earlier = sqlite3.connect(path)
    earlier.executescript("DROP TABLE told; PRAGMA user_version = 1;")
    earlier.close()
    reader = Timeline.read(path)
    assert (list(reader.events()), reader.last_note) == (seen, 0)
    with Publisher("x", path) as publisher:
        publisher.report(Kind.RUN, by="run 1", text="began")
    assert reader.last_note == 1
    reader.close()


@pytest.fixture
def ten_notes(tmp_path: Path) -> Iterator[Timeline]:
    with closing(Timeline.write(tmp_path / "a.timeline")) as timeline:
        timeline.report([Event(at(n), Kind.RUN, None, Note("run", str(n))) for n in range(10)])
        yield timeline


def test_notes_older_than_the_given_time_are_deleted(ten_notes: Timeline) -> None:
    ten_notes.forget(at(6))
    left = [format_event(event) for event in ten_notes.notes()]
    assert left == ["run: 6", "run: 7", "run: 8", "run: 9"]


@pytest.mark.parametrize(("count", "found"), [(1, 1), (4, 4), (10, 10), (11, 10)])
def test_newest_notes_are_limited_to_the_requested_count(
    ten_notes: Timeline, count: int, found: int
) -> None:
    since = ten_notes.since_newest_notes(count)
    assert len(list(ten_notes.notes(since))) == found
    assert (since is None) is (count >= 10)


KEPT = timedelta(milliseconds=1)
"""How exactly a timeline keeps times."""


class Ground:
    """A cluster that lets everything be done to it that `answer` says."""

    name = "sandbox demo"

    def __init__(self, timeline: str | None, answer: bool | TrimtabError = True) -> None:
        self.timeline_id, self._answer = timeline, answer
        self.begun_at: datetime | None = None

    def offers(self, state: ClusterState) -> tuple[Offer, ...]:
        return ()

    def run(self, drill: Drill) -> bool:
        self.begun_at = datetime.now(UTC)
        while datetime.now(UTC) - self.begun_at < 5 * KEPT:  # so that before and after differ
            pass
        if isinstance(self._answer, TrimtabError):
            raise self._answer
        return self._answer

    def close(self) -> None:
        pass


def events_of(cluster_id: str) -> list[Event]:
    path = paths.timeline_file(cluster_id)
    if not path.exists():
        return []
    timeline = Timeline.read(path)
    try:
        return list(timeline.events())
    finally:
        timeline.close()


def test_fault_is_published_by_the_sandbox_with_its_broker() -> None:
    ground = Ground("c")
    assert run_drill(ground, broker_drill(DrillKind.KILL, 2)) == "killed broker 2"
    (event,) = events_of("c")
    assert (event.kind, event.brokers) == (Kind.FAULT, {2})
    assert format_event(event) == "sandbox: killed broker 2"
    assert ground.begun_at is not None
    assert event.at <= ground.begun_at + KEPT


@pytest.mark.parametrize("ground", [Ground("c", False), Ground(None)])
def test_drill_not_run_or_without_a_timeline_publishes_no_event(ground: Ground) -> None:
    run_drill(ground, broker_drill(DrillKind.START, 2))
    assert events_of("c") == []


def test_failed_drill_is_raised_and_publishes_no_event() -> None:
    with pytest.raises(TrimtabError, match="not come up"):
        run_drill(
            Ground("c", TrimtabError("It did not come up.")), broker_drill(DrillKind.START, 2)
        )
    assert events_of("c") == []
