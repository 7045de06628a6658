"""The timeline on disk: what was seen, and the cluster as it was at any moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from full_disk import files_of_at_most
from test_timeline_changes import assert_same
from watch_help import at, cluster, damage, row

from core.cluster.metadata import Topic
from core.cluster.state import ClusterState
from core.errors import UsageError
from core.watch.timeline import store
from core.watch.timeline.changes import find_changes
from core.watch.timeline.codec import decode, encode
from core.watch.timeline.database_file import TimelineError
from core.watch.timeline.events import Event, Kind, Note
from core.watch.timeline.store import Timeline


@pytest.fixture
def timeline(tmp_path: Path) -> Iterator[Timeline]:
    timeline = Timeline.write(tmp_path / "a.timeline")
    yield timeline
    timeline.close()


def restless(polls: int, seed: int = 1) -> list[ClusterState]:
    """Return pictures, 10 s apart, of a cluster whose leaders, ISRs and topics come and go."""
    rng = Random(seed)
    layout = {("t", p): (1 + p % 4, 1 + (p + 1) % 4) for p in range(12)}
    pictures = []
    for look in range(polls):
        if rng.random() < 0.2:
            layout[f"t{rng.randrange(3)}", 0] = (1, 2)
        if rng.random() < 0.1:
            layout.pop(("t0", 0), None)
        rows = [
            row(topic, p, held, leader=rng.choice(held), isr=held[: rng.choice((1, 2))])
            for (topic, p), held in sorted(layout.items())
        ]
        pictures.append(cluster(rows, seconds=10 * look, down=rng.sample((1, 2, 3, 4), 1)))
    return pictures


def recorded(timeline: Timeline, pictures: list[ClusterState]) -> list[Event]:
    timeline.begin(pictures[0])
    events: list[Event] = []
    for before, after in pairwise(pictures):
        seen = find_changes(before, after)
        timeline.append(seen, after)
        events += seen
    return events


def assert_was(timeline: Timeline, picture: ClusterState, *, late: float = 0.0) -> None:
    """Check that at a picture's time, or so many seconds later, the cluster is as in it."""
    state = timeline.state_at(picture.fetched_at + timedelta(seconds=late))
    assert state is not None
    assert_same(state, picture)


@pytest.mark.parametrize("every", [1, 7, 50, 10**9])
def test_state_at_each_moment_equals_the_recorded_cluster_state(
    timeline: Timeline, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "STATE_CHANGES", every)
    pictures = restless(40)
    recorded(timeline, pictures)
    for picture in pictures:
        assert_was(timeline, picture)
        assert_was(timeline, picture, late=4.0)
    assert timeline.state_at(at(-1)) is None


def test_recorded_events_are_returned_and_filtered_by_time_and_kind(timeline: Timeline) -> None:
    seen = recorded(timeline, restless(40))
    assert list(timeline.events()) == seen
    first, last = at(100), at(200)
    between = [event for event in seen if first <= event.at <= last]
    assert list(timeline.events(first, last)) == between
    downs = [event for event in seen if event.kind & Kind.BROKER_DOWN]
    assert list(timeline.events(kinds=Kind.BROKER_DOWN)) == downs != []
    assert timeline.moments(first, last) == sorted({event.at for event in between})
    assert timeline.span == (at(0), seen[-1].at)


def test_since_newest_returns_the_time_since_which_at_most_count_changes_happened(
    timeline: Timeline,
) -> None:
    seen = recorded(timeline, restless(40))
    looks = sorted({event.at for event in seen})
    for count in (1, 40, 200):
        since = timeline.since_newest(count)
        assert since is not None
        newest = list(timeline.events(since))
        assert newest == seen[-len(newest) :]
        assert len(newest) <= count or since == looks[-1]
        before = looks[looks.index(since) - 1]
        assert sum(event.at >= before for event in seen) > count
    assert timeline.since_newest(len(seen)) is None


def test_next_recorder_continues_the_timeline_where_the_last_one_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.timeline"
    pictures = restless(30)
    first = Timeline.write(path)
    recorded(first, pictures[:15])
    first.close()
    second = Timeline.write(path)
    for before, after in pairwise(pictures[14:]):
        second.append(find_changes(before, after), after)
    for picture in pictures:
        assert_was(second, picture)
    second.close()


def test_reader_sees_changes_as_they_are_appended_by_a_writer(timeline: Timeline) -> None:
    pictures = restless(3)
    timeline.begin(pictures[0])
    reader = Timeline.read(timeline.path)
    assert list(reader.events()) == []
    timeline.append(seen := find_changes(*pictures[:2]), pictures[1])
    assert list(reader.events()) == seen != []
    reader.close()


@pytest.mark.parametrize("folder", ["100%41", "#1", "which?"])
def test_timeline_is_read_from_a_folder_with_special_characters_in_its_name(
    tmp_path: Path, folder: str
) -> None:
    path = tmp_path / folder / "it.timeline"
    pictures = restless(5)
    with closing(Timeline.write(path)) as written:
        events = recorded(written, pictures)
    assert events
    with closing(Timeline.read(path)) as timeline:
        assert list(timeline.events()) == events


def test_failed_append_to_a_locked_file_leaves_the_timeline_unchanged(timeline: Timeline) -> None:
    pictures = restless(3)
    timeline.begin(pictures[0])
    other = sqlite3.connect(timeline.path, isolation_level=None, timeout=0)
    other.execute("BEGIN IMMEDIATE")
    timeline._database.execute("PRAGMA busy_timeout = 0")
    with pytest.raises(TimelineError, match="locked"):
        timeline.append(find_changes(*pictures[:2]), pictures[1])
    other.execute("ROLLBACK")
    other.close()
    assert list(timeline.events()) == []
    timeline.append(seen := find_changes(*pictures[:2]), pictures[1])
    assert list(timeline.events()) == seen


def test_disk_full_at_the_end_of_a_change_is_reported_and_nothing_is_appended(
    timeline: Timeline,
) -> None:
    pictures = restless(2)
    seen = find_changes(*pictures)
    timeline.begin(pictures[0])
    wal = timeline.path.with_name(timeline.path.name + "-wal")
    with (
        files_of_at_most(wal.stat().st_size),
        pytest.raises(TimelineError, match="cannot be read or written"),
    ):
        timeline.append(seen, pictures[1])
    assert list(timeline.events()) == []


def test_failed_append_leaves_no_traces_in_later_events_and_states(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "STATE_CHANGES", 2)
    topics = [
        cluster([row(name, 0, (1, 2)) for name in names], seconds=10 * n)
        for n, names in enumerate(("", "ab", "b", "bc"))
    ]
    timeline.begin(topics[0])
    wal = timeline.path.with_name(timeline.path.name + "-wal")
    with files_of_at_most(wal.stat().st_size), pytest.raises(TimelineError):
        timeline.append(find_changes(*topics[:2]), topics[1])
    seen = [find_changes(topics[0], topics[2]), find_changes(*topics[2:])]
    timeline.append(seen[0], topics[2])
    timeline.append(seen[1], topics[3])
    assert list(timeline.events()) == [*seen[0], *seen[1]]
    for picture in topics[2:]:
        assert_was(timeline, picture)


@pytest.mark.parametrize(
    "look",
    [
        lambda timeline: timeline.span,
        lambda timeline: list(timeline.events()),
        lambda timeline: list(timeline.changes()),
        lambda timeline: list(timeline.notes()),
        lambda timeline: timeline.last_note,
        lambda timeline: timeline.note_span,
        lambda timeline: timeline.since_newest_notes(0),
        lambda timeline: timeline.moments(None, None),
        lambda timeline: timeline.since_newest(1),
        lambda timeline: timeline.state_at(at(1)),
        lambda timeline: Timeline.write(timeline.path),
    ],
)
def test_damaged_timeline_is_reported_as_malformed_by_every_operation(
    tmp_path: Path, look: Callable[[Timeline], object]
) -> None:
    path = tmp_path / "a.timeline"
    timeline = Timeline.write(path)
    recorded(timeline, restless(20))
    timeline.report([Event(at(0), Kind.RUN, None, Note("run 1", "began"))])
    timeline.close()
    damage(path)
    timeline = Timeline.read(path)
    with pytest.raises(TimelineError, match="malformed"):
        look(timeline)
    timeline.close()


def test_closed_timeline_releases_its_file_even_after_a_partial_read(timeline: Timeline) -> None:
    recorded(timeline, restless(20))
    reader = Timeline.read(timeline.path)
    events = reader.events()
    next(events)
    reader.close()
    timeline.close()
    with closing(sqlite3.connect(timeline.path)) as database:
        assert database.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    del events


@pytest.mark.parametrize("partition", [2**31, -1, 1.5, "one"])
def test_invalid_partition_number_in_the_file_is_reported(
    timeline: Timeline, partition: object
) -> None:
    pictures = restless(5)
    recorded(timeline, pictures)
    with closing(sqlite3.connect(timeline.path)) as database, database:
        database.execute("UPDATE changes SET partition = ? WHERE partition = 0", (partition,))
    with pytest.raises(TimelineError, match="no partition"):
        list(timeline.events())


@pytest.mark.parametrize(
    ("content", "title"),
    [
        (b"not a database at all, but long enough to be taken for one", "not a database"),
        (None, "newer trimtab"),
    ],
)
def test_file_that_is_no_timeline_or_has_a_newer_format_is_refused(
    tmp_path: Path, content: bytes | None, title: str
) -> None:
    path = tmp_path / "a.timeline"
    if content is None:
        Timeline.write(path).close()
        database = sqlite3.connect(path)
        database.execute("PRAGMA user_version = 99")
        database.close()
    else:
        path.write_bytes(content)
    for opened in (Timeline.read, Timeline.write):
        with pytest.raises(TimelineError, match=title):
            opened(path)


def test_timeline_of_a_cluster_never_recorded_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Nothing has been recorded"):
        Timeline.read(tmp_path / "none.timeline")


def test_newest_state_is_the_last_recorded_after_a_clock_was_set_back(timeline: Timeline) -> None:
    """Later in the file is later: at the newest moment the cluster is as it was seen last."""
    pictures = [
        cluster([row("t", 0, (1, 2), leader=leader)], seconds=seconds)
        for seconds, leader in ((0, 1), (3000, 2), (300, 1), (301, 2), (302, 1))
    ]
    seen = recorded(timeline, pictures)
    events = list(timeline.events())
    assert [event.after for event in events] == [event.after for event in seen]
    assert events == sorted(events, key=lambda event: event.at)
    assert [
        event.after for event in timeline.changes(events[0].at + timedelta(milliseconds=1))
    ] == [event.after for event in seen[1:]]
    span = timeline.span
    newest = timeline.state_at(span[1])
    assert newest.row(0).leader == 1
    timeline.begin(pictures[-2])
    newest = timeline.state_at(span[1])
    assert newest.row(0).leader == 2


def test_topic_recorded_before_a_config_was_tracked_has_that_config_unknown() -> None:
    earlier = decode(b'["t","id",2,1000,"delete"]', Kind.CONFIG, None)
    assert earlier == Topic("t", "id", 2, 1000, "delete")
    whole = Topic("t", "id", 2, 1000, "delete", 10**9)
    assert decode(encode(whole), Kind.CONFIG, None) == whole
