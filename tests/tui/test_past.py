"""Going back in time on Map and Load: published hours, with the same keys on both."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np
import pytest
from hands import rested
from maps import column_of, lines, map_of, row_of, text, the_map
from object_store import ObjectStore
from pictures import LOAD, MB, SIZES, STATE, a_session, at, body, dashboard, down, footer, pressed

from core import paths
from core.load import load_paths as layout
from core.load import windows as window_reading
from core.load.load import Load, Source
from core.load.snapshot import reader as snapshot_reading
from core.load.snapshot.format import HORIZONS, RATES, STATISTICS, LoadSnapshot
from core.load.snapshot.manifest import state_broker_loads
from core.load.snapshot.writer import write_snapshot
from core.load.windows import LoadHistory, Window, write_window
from core.watch.timeline.changes import find_changes
from core.watch.timeline.store import Timeline
from tui.map.drag_controller import MapCanvas
from tui.session import Session

DAY = timedelta(days=1)
NOW = at(12, 40)
HOURS = [at(hour, 0) - day for day in (DAY, 0 * DAY) for hour in (9, 10, 11, 12)]
"""When hours were published; at each of them a partition got as many MB/s as it was o'clock."""


def snapshot(number: int, moment: datetime) -> LoadSnapshot:
    count = STATE.partition_count
    rate = np.full(count, moment.hour * 1e6)
    return LoadSnapshot(
        cluster_id=STATE.cluster_id,
        snapshot_id=f"{number:012d}",
        source=Source.SPARK,
        published_at=moment + timedelta(seconds=3),
        window_end=moment,
        topics=tuple(topic.name for topic in STATE.topics),
        topic_of=STATE.topic_of,
        partition=STATE.partition,
        rates={(h, r, s): rate for h in HORIZONS for r in RATES for s in STATISTICS},
        size_bytes=np.full(count, 1000 * MB, np.int64),
        growth_bytes_per_s=np.zeros(count),
        quality=np.zeros(count, np.int8),
        method=np.zeros(count, np.int8),
        brokers=state_broker_loads(STATE, rate, rate),
        leader=STATE.leader,
    )


def write_hours(root: Path) -> None:
    for n, moment in enumerate(HOURS, 1):
        write_snapshot(root, snapshot(n, moment))
        start = moment - timedelta(minutes=5)
        rates = {(rate, "avg"): np.full(STATE.partition_count, moment.hour * 1e6) for rate in RATES}
        size = np.full(STATE.partition_count, 1000 * MB, np.int64)
        names = tuple(topic.name for topic in STATE.topics)
        place = (names, STATE.topic_of, STATE.partition, STATE.leader)
        brokers = snapshot(n, moment).brokers
        write_window(root, STATE.cluster_id, Window(start, *place, rates, size, brokers))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_hours(tmp_path)
    return tmp_path


@pytest.fixture
def session(root: Path) -> Session:
    """A session on a cluster of which some hours of two days are kept."""
    session = a_session()
    session.state = replace(STATE, fetched_at=NOW)
    session.snapshots = str(root)
    session.snapshot = snapshot(99, NOW)
    return session


def rates(pilot: Any) -> list[float]:
    load = pilot.app.screen.session.load
    assert isinstance(load, Load)
    return [float(rate) for rate in np.unique(load.in_bytes_per_s)]


# -- there and back ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_map_shows_published_hours_and_returns_to_now_unchanged(
    size: tuple[int, int], session: Session
) -> None:
    async with dashboard(session, "map", size) as pilot:
        before = text(pilot)
        await pressed(pilot, "[")
        assert " PAST 1 Jan 12:00Z " in lines(pilot)[0]
        assert " AS IT WAS 12:00:03Z  1 Jan, 40 m ago" in lines(pilot)[1]
        assert "0 back to now   [ ] hour" in lines(pilot)[-1]
        assert rates(pilot) == [12e6]
        await pressed(pilot, "[")
        assert " PAST 1 Jan 11:00Z " in lines(pilot)[0]
        assert rates(pilot) == [11e6]
        await pressed(pilot, "]")
        assert rates(pilot) == [12e6]
        await pressed(pilot, "]")
        assert text(pilot) == before


@pytest.mark.parametrize("size", SIZES)
async def test_load_shows_a_published_hour_and_returns_to_now_unchanged(
    size: tuple[int, int], session: Session
) -> None:
    async with dashboard(session, "load", size) as pilot:
        before = text(pilot)
        await pressed(pilot, "[", "[")
        assert " PAST 1 Jan 11:00Z " in lines(pilot)[0]
        assert " AS IT WAS 11:00:03Z  1 Jan, 1 h 40 m ago · load until 11:00Z" in lines(pilot)[1]
        assert "6 h up to 1 Jan 11:00Z" in body(pilot)
        assert "33 MB/s in" in body(pilot)  # broker 1 led three partitions
        assert "published 11:00:03Z" in body(pilot)
        await pressed(pilot, "0")
        assert text(pilot) == before


async def test_load_shows_no_chart_of_another_time_while_the_past_one_is_read(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, real = Flag(), window_reading.read_history

    def read_history(*of: Any) -> LoadHistory:
        assert go.wait(60)
        return real(*of)

    async with dashboard(session, "load") as pilot:
        assert "reading" not in body(pilot)
        monkeypatch.setattr(window_reading, "read_history", read_history)
        await pilot.press("[")
        while session.past_moment is None:
            await pilot.pause()
        assert "6 h up to 1 Jan 12:00Z" in body(pilot)
        assert "━ in" not in body(pilot)
        assert "reading" in body(pilot)
        go.set()
        await rested(pilot)
        assert "━ in" in body(pilot)


async def test_past_load_lists_the_partitions_whose_leader_the_broker_was_then(
    session: Session,
) -> None:
    assert session.state is not None
    session.state = replace(session.state, leader=np.full_like(STATE.leader, 2))
    async with dashboard(session, "load") as pilot:
        await pressed(pilot, "[", "enter")
        assert "hottest partitions led by broker 1" in body(pilot)
        assert "clicks-0   6 h up to 1 Jan 12:00Z" in body(pilot)
        assert "12 MB/s in" in body(pilot)
        await pressed(pilot, "escape")
        assert "─ brokers ─" in body(pilot)
        await pressed(pilot, "escape")
        assert session.past_moment is None
        assert "PAST" not in text(pilot)


async def test_map_and_load_share_one_past_moment_and_other_screens_do_not(
    session: Session,
) -> None:
    async with dashboard(session, "map") as pilot:
        await pressed(pilot, "[", "[", "4")
        assert " PAST 1 Jan 11:00Z " in lines(pilot)[0]
        assert "6 h up to 1 Jan 11:00Z" in body(pilot)
        await pressed(pilot, "[", "2")
        assert "PAST" not in lines(pilot)[0]
        assert pilot.app.screen.session is session  # type: ignore[attr-defined]
        await pressed(pilot, "1")
        assert " PAST 1 Jan 10:00Z " in lines(pilot)[0]
        await pressed(pilot, "escape")
        assert "PAST" not in text(pilot)
        await pressed(pilot, "4")
        assert "PAST" not in text(pilot)


@pytest.mark.parametrize("screen", ["map", "load"])
async def test_day_keys_jump_a_day_and_stop_at_the_oldest_hour_or_now(
    screen: str, session: Session
) -> None:
    async with dashboard(session, screen) as pilot:
        await pressed(pilot, "{")
        assert " PAST 31 Dec 12:00Z " in lines(pilot)[0]
        await pressed(pilot, "[")
        assert " PAST 31 Dec 11:00Z " in lines(pilot)[0]
        await pressed(pilot, "}")
        assert " PAST 1 Jan 11:00Z " in lines(pilot)[0]
        await pressed(pilot, "{", "{")
        assert " PAST 31 Dec 09:00Z " in lines(pilot)[0]
        await pressed(pilot, "[")
        assert "This is the oldest hour that is kept." in lines(pilot)[-1]
        assert " PAST 31 Dec 09:00Z " in lines(pilot)[0]
        await pressed(pilot, "}", "}")
        assert session.past_moment is None


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Flag]:
    """A flag without which no snapshot is read."""
    go, real = Flag(), snapshot_reading.read_snapshot

    def read_snapshot(*place: Any) -> LoadSnapshot | None:
        assert go.wait(60)
        return real(*place)

    monkeypatch.setattr(snapshot_reading, "read_snapshot", read_snapshot)
    go.set()
    yield go
    go.set()


async def test_each_time_key_counts_as_a_step_and_other_keys_act_during_slow_reads(
    session: Session, reading: Flag
) -> None:
    async with dashboard(session, "map") as pilot:
        reading.clear()
        await pilot.press("[", "[", "{", "]", "m")
        assert "metric: out" in lines(pilot)[-1]
        assert session.past_moment is None
        reading.set()
        await rested(pilot)
        assert " PAST 31 Dec 12:00Z " in lines(pilot)[0]


@pytest.mark.parametrize("key", ["0", "2", "question_mark"])
async def test_hour_abandoned_while_it_is_read_is_not_shown(
    key: str, session: Session, reading: Flag
) -> None:
    async with dashboard(session, "load") as pilot:
        await pressed(pilot, "[")
        before = session.past_moment
        reading.clear()
        await pilot.press("[", key)
        reading.set()
        await rested(pilot)
        assert session.past_moment is (None if key == "0" else before)


async def test_object_store_hours_are_reached_by_the_same_keys_and_refusal_is_reported(
    session: Session, s3: ObjectStore
) -> None:
    root = s3.bucket("hours")
    for n, moment in enumerate(HOURS, 1):
        write_snapshot(root, snapshot(n, moment))
    session.snapshots = root.address
    async with dashboard(session, "map") as pilot:
        await pressed(pilot, "[", "[")
        assert " PAST 1 Jan 11:00Z " in lines(pilot)[0]
        assert rates(pilot) == [11e6]
        await pressed(pilot, "4")
        assert "33 MB/s in" in body(pilot)
        assert "no chart: an object store has snapshots" in body(pilot)
        await pressed(pilot, "H", "j", "enter")
        assert " PAST 1 Jan 10:00Z " in lines(pilot)[0]
        with s3.refusing():
            await pressed(pilot, "[")
            assert "The object store refuses access to" in footer(pilot)
            assert " PAST 1 Jan 10:00Z " in lines(pilot)[0]
            await pressed(pilot, "H")
            assert "The object store refuses access to" in text(pilot)


# -- the list ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", ["map", "load"])
async def test_the_kept_hours_are_listed_with_their_totals(
    screen: str, size: tuple[int, int], session: Session
) -> None:
    async with dashboard(session, screen, size) as pilot:
        await pressed(pilot, "H")
        assert "▸ Thu 1 Jan 12:00Z" in text(pilot)
        assert "Wed 31 Dec 09:00Z       45 MB/s" in text(pilot)
        await pressed(pilot, "escape")
        assert session.past_moment is None
        await pressed(pilot, "H", "G", "k", "enter")
        assert " PAST 31 Dec 10:00Z " in lines(pilot)[0]
        await pressed(pilot, "H")
        assert "▸ Wed 31 Dec 10:00Z" in text(pilot), "the one that is shown"
        await pressed(pilot, "g", "enter")
        assert " PAST 1 Jan 12:00Z " in lines(pilot)[0]


async def test_damaged_snapshot_is_omitted_from_the_list_and_counted(
    session: Session, root: Path
) -> None:
    (layout.snapshots(root, STATE.cluster_id) / "000000000008" / "manifest.json").write_text("{")
    async with dashboard(session, "map", (80, 24)) as pilot:
        await pressed(pilot, "H")
        assert "▸ Thu 1 Jan 11:00Z" in text(pilot)
        assert "1 snapshot cannot be read: `trimtab snapshot ls` says why." in text(pilot)


@pytest.mark.parametrize("key", ["[", "{", "H"])
@pytest.mark.parametrize("screen", ["map", "load"])
async def test_absence_of_published_load_is_reported(screen: str, key: str, tmp_path: Path) -> None:
    session = a_session()
    session.snapshots = str(tmp_path)
    async with dashboard(session, screen) as pilot:
        await pressed(pilot, key, "enter")
        message = text(pilot) if key == "H" else footer(pilot)
        await pressed(pilot, key)
        message = text(pilot) if key == "H" else footer(pilot)
        assert "No load has been published for this cluster yet." in message
        await pressed(pilot, "escape")
        assert session.past_moment is None


@pytest.mark.parametrize("key", ["[", "H"])
async def test_a_saved_document_has_no_past(key: str, session: Session) -> None:
    session.address = None
    async with dashboard(session, "map") as pilot:
        await pressed(pilot, key)
        assert "A saved document has no past." in lines(pilot)[-1]
        assert session.past_moment is None


# -- what cannot be read -------------------------------------------------------------------------


def vanish(folder: Path) -> None:
    shutil.rmtree(folder)


def damage(folder: Path) -> None:
    (folder / "partitions.arrow").write_bytes(b"no snapshot")


def rob(folder: Path) -> None:
    (folder / "partitions.arrow").unlink()


def blur(folder: Path) -> None:
    """Have the file be one that cannot be opened."""
    rob(folder)
    (folder / "partitions.arrow").mkdir()


@pytest.mark.parametrize("screen", ["map", "load"])
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (damage, "partitions.arrow is not a whole Arrow file."),
        (rob, "partitions.arrow is named by its manifest but missing."),
        (blur, "partitions.arrow"),
    ],
)
async def test_damaged_snapshot_is_reported_in_the_footer_and_the_screen_stays(
    screen: str, harm: Any, message: str, session: Session, root: Path
) -> None:
    async with dashboard(session, screen) as pilot:
        await pressed(pilot, "[")
        before = lines(pilot)[:-3]
        harm(layout.snapshots(root, STATE.cluster_id) / "000000000007")
        await pressed(pilot, "[")
        assert message in footer(pilot)
        assert "E shows it" in footer(pilot)
        assert lines(pilot)[:-3] == before
        await pressed(pilot, "{")
        assert " PAST 31 Dec 12:00Z " in lines(pilot)[0], "others can be gone to"


async def test_hour_deleted_while_its_list_is_open_is_reported(
    session: Session, root: Path
) -> None:
    async with dashboard(session, "map") as pilot:
        await pressed(pilot, "H", "j")
        vanish(layout.snapshots(root, STATE.cluster_id) / "000000000007")
        await pressed(pilot, "enter")
        assert "That hour is no longer kept." in lines(pilot)[-1]
        assert session.past_moment is None


async def test_hour_deleted_while_it_is_read_is_reported(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_reading, "read_snapshot", lambda *_: None)
    async with dashboard(session, "map", (80, 24)) as pilot:
        await pressed(pilot, "[")
        assert "What was published at 1 Jan 12:00Z is no longer kept." in footer(pilot)
        assert session.past_moment is None


# -- the cluster of then -------------------------------------------------------------------------


def record(until: datetime) -> None:
    """Record the cluster: broker 2 goes down at 10:30, and nobody looks after `until`."""
    timeline = Timeline.write(paths.timeline_file(STATE.cluster_id))
    whole = replace(STATE, fetched_at=at(9, 30))
    broken = replace(down((2,), whole), fetched_at=at(10, 30))
    timeline.begin(whole)
    timeline.append(find_changes(whole, broken), broken)
    timeline.note_poll(until)
    timeline.close()


async def test_map_shows_the_replicas_of_the_past_hour_where_they_were_recorded(
    session: Session,
) -> None:
    record(until=at(11, 30))
    async with dashboard(session, "map") as pilot:
        await pressed(pilot, "[", "[")
        assert "✗ b2 down" in lines(pilot)[2]
        assert "on the replicas" not in lines(pilot)[1]
        await pressed(pilot, "[")
        assert "down" not in lines(pilot)[2]
        await pressed(pilot, "[")  # before it was recorded
        assert "on the replicas of now" in lines(pilot)[1]
        assert rates(pilot) == [9e6]


async def test_map_and_load_opened_from_the_timeline_step_from_event_to_event(
    session: Session,
) -> None:
    record(until=at(12, 30))
    async with dashboard(session, "timeline") as pilot:
        await pressed(pilot, "m")
        assert "0 back to now   [ ] event" in lines(pilot)[-1]
        assert " AS IT WAS 10:30:00Z " in lines(pilot)[1]
        assert "load until 10:00Z" in lines(pilot)[1], "nothing nearer is kept"
        await pressed(pilot, "4")
        assert "0 back to now   [ ] event" in lines(pilot)[-1]
        assert "6 h up to 1 Jan 10:30Z" in body(pilot)
        assert "published 10:00:03Z" in body(pilot)
        await pressed(pilot, "[", "H", "enter")
        assert "0 back to now   [ ] hour" in lines(pilot)[-1]
        await pressed(pilot, "]", "5")
        assert "▸ 10:30:00.0" in body(pilot), "what had happened by then"


async def test_missing_load_at_the_moment_of_an_event_is_reported(
    session: Session, tmp_path_factory: pytest.TempPathFactory
) -> None:
    session.snapshots = str(tmp_path_factory.mktemp("empty"))
    record(until=at(12, 30))
    async with dashboard(session, "timeline") as pilot:
        await pressed(pilot, "m", "4")
        assert "No load is kept of 1 Jan 10:30Z." in body(pilot)
        assert "load unknown" in lines(pilot)[1]


async def test_time_of_the_last_recorded_replicas_is_shown(session: Session) -> None:
    record(until=at(11, 30))
    async with dashboard(session, "map", (200, 60)) as pilot:
        await pressed(pilot, "[")
        assert "on the replicas of 1 Jan 11:30Z" in lines(pilot)[1]


async def test_current_isr_broker_state_and_sizes_are_not_shown_for_the_past(
    session: Session,
) -> None:
    assert session.state is not None
    in_sync = STATE.in_sync.copy()
    in_sync[1] = False
    session.state = replace(down((4,), session.state), in_sync=in_sync)
    async with dashboard(session, "map") as pilot:
        assert "out of sync" in lines(pilot)[1]
        await pressed(pilot, "[")
        assert "out of sync" not in lines(pilot)[2]
        assert "down" not in lines(pilot)[2]
        assert "sizes unknown" in lines(pilot)[1]


async def test_damaged_timeline_is_reported_and_the_past_load_is_still_shown(
    session: Session,
) -> None:
    path = paths.timeline_file(STATE.cluster_id)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 5000)
    async with dashboard(session, "map") as pilot:
        await pressed(pilot, "[")
        assert "cannot be read" in footer(pilot)
        assert " PAST 1 Jan 12:00Z " in lines(pilot)[0]
        assert rates(pilot) == [12e6]


# -- nothing acts upon the present ---------------------------------------------------------------


async def test_plan_cannot_be_edited_on_the_map_of_a_past_hour(session: Session) -> None:
    moves = len(session.plan)
    async with dashboard(session, "map") as pilot:
        await pressed(pilot, "[", "enter")
        for key in ("space", "a", "L", "A", "v", "e", "u", "U"):
            await pressed(pilot, key)
            assert "The past cannot be edited: 0 goes back to now." in lines(pilot)[-1], key
        offset = (column_of(pilot, 1), row_of(pilot, "p0") - 1)
        await pilot.mouse_down(MapCanvas, offset=offset)
        await pilot.pause()
        assert the_map(pilot).drag is None
        await pilot.mouse_up(MapCanvas, offset=offset)
    assert len(session.plan) == moves


@pytest.mark.parametrize("key", ["W", "O"])
@pytest.mark.parametrize("screen", ["map", "load"])
async def test_actions_on_the_current_cluster_are_refused_in_the_past(
    screen: str, key: str, session: Session
) -> None:
    async with dashboard(session, screen) as pilot:
        await pressed(pilot, "[")
        before = pilot.app.screen
        await pressed(pilot, key)
        assert "That is for the cluster of now: 0 goes back to it." in lines(pilot)[-1]
        assert pilot.app.screen is before


async def test_keys_entered_into_a_filter_do_not_travel_in_time(session: Session) -> None:
    async with dashboard(session, "map") as pilot:
        await pressed(pilot, "/", "[", "H", "{", "0", "enter")
        assert the_map(pilot).view.filter == "[H{0"
        assert session.past_moment is None


async def test_time_keys_have_no_effect_while_a_replica_is_dragged() -> None:
    async with map_of(writable=True) as pilot:
        await pressed(pilot, "enter", "space")
        before = text(pilot)
        assert the_map(pilot).drag is not None
        await pressed(pilot, "[", "{", "H")
        assert text(pilot) == before


async def test_cluster_changes_leave_the_past_view_unchanged_until_the_return_to_now(
    session: Session,
) -> None:
    async with dashboard(session, "load") as pilot:
        await pressed(pilot, "[")
        shown = text(pilot)
        session.snapshot = replace(snapshot(99, NOW), brokers=snapshot(1, at(9, 0)).brokers)
        session.load = LOAD
        pilot.app.draw()  # type: ignore[attr-defined]
        await rested(pilot)
        assert text(pilot) == shown
        await pressed(pilot, "0")
        assert "PAST" not in text(pilot)


# -- without colour ------------------------------------------------------------------------------


@pytest.mark.parametrize("screen", ["map", "load"])
async def test_past_is_marked_by_words_without_colour_and_in_ascii(
    screen: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with dashboard(session, screen, (80, 24), ascii_only=True) as pilot:
        await pressed(pilot, "[")
        assert " PAST 1 Jan 12:00Z " in lines(pilot)[0]
        assert " AS IT WAS 12:00:03Z " in lines(pilot)[1]
        assert text(pilot).isascii()
        await pressed(pilot, "H")
        assert text(pilot).isascii()
