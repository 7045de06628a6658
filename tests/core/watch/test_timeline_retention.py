"""What is old, or does not fit, is let go of: the oldest first, whether it was seen or told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_timeline_store import assert_was, recorded, restless
from watch_help import at

from core.watch.timeline import store
from core.watch.timeline.events import Event, Kind, Note
from core.watch.timeline.store import Timeline


@pytest.fixture
def timeline(tmp_path: Path) -> Iterator[Timeline]:
    timeline = Timeline.write(tmp_path / "a.timeline")
    yield timeline
    timeline.close()


def note(seconds: int, text: str = "said") -> Event:
    return Event(at(seconds), Kind.CLIENT, None, Note("probe", text))


def test_only_entries_older_than_the_given_time_are_deleted(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "STATE_CHANGES", 20)
    pictures = restless(60)
    recorded(timeline, pictures)
    timeline.forget(at(300))
    assert at(0) < timeline.span[0] <= at(300)
    for picture in pictures[30:]:
        assert_was(timeline, picture)
    assert timeline.state_at(at(0)) is None


def test_old_entries_of_a_quiet_cluster_are_deleted_too(timeline: Timeline) -> None:
    day = 86_400
    daily = [replace(p, fetched_at=at(day * n)) for n, p in enumerate(restless(60))]
    recorded(timeline, daily)
    timeline.forget(at(day * 30))
    assert at(day * 28) <= timeline.span[0] <= at(day * 30)
    assert_was(timeline, daily[40])


def test_oldest_entries_are_deleted_until_the_file_fits_its_maximum_size(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "STATE_CHANGES", 50)
    recorded(timeline, restless(400))
    whole = timeline.bytes
    timeline.forget(at(-1), max_bytes=whole // 2)
    assert timeline.bytes <= whole // 2
    assert timeline.span[1] == at(3990)


def test_oldest_notes_and_changes_are_deleted_to_fit_the_maximum_size(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "STATE_CHANGES", 50)
    pictures = restless(200)
    recorded(timeline, pictures)
    seen_alone = timeline.bytes
    timeline.report([note(n, "x" * 100) for n in range(20_000)])  # ten times as long as it was seen
    timeline.forget(at(-1), max_bytes=2 * seen_alone)
    assert timeline.bytes <= 2 * seen_alone
    assert timeline.note_span[1] == at(19_999)
    assert timeline.note_span[0] > at(1_990)
    timeline.forget(at(-1), max_bytes=seen_alone // 2)
    assert timeline.bytes <= seen_alone // 2
    assert timeline.span[1] == at(1_990)
    assert_was(timeline, pictures[-1])


def test_notes_are_deleted_together_with_changes_of_the_same_time(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "STATE_CHANGES", 50)
    recorded(timeline, restless(200))
    timeline.report([note(n // 10, "x" * 100) for n in range(19_900)])
    timeline.forget(at(-1), max_bytes=timeline.bytes // 2)
    assert at(500) < timeline.span[0] < at(1_500)
    assert abs((timeline.span[0] - timeline.note_span[0]).total_seconds()) < 200
    assert (timeline.span[1], timeline.note_span[1]) == (at(1_990), at(1_989))


@pytest.mark.parametrize("notes_alone", [False, True])
def test_space_of_deleted_changes_or_notes_is_freed_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes_alone: bool
) -> None:
    monkeypatch.setattr(store, "STATE_CHANGES", 50)
    timeline = Timeline.write(tmp_path / "a.timeline")
    if notes_alone:
        timeline.report([note(n, "x" * 100) for n in range(2_000)])
        timeline.forget(at(1_990))
    else:
        recorded(timeline, restless(100))
        timeline.forget(at(990))
    left = timeline.bytes
    timeline.close()
    assert timeline.path.stat().st_size == left
