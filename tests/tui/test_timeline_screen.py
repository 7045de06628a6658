"""The Timeline: what was recorded, folded and filtered, with a lane for each broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np
import pytest
from hands import rested
from maps import column_of, lines, row_of, text, the_map
from pictures import SIZES, a_session, body, dashboard, footer, pressed, spot
from watch_help import RECORDED, at, cluster, record_night, row

from core import paths
from core.autopilot.decision import Reason
from core.autopilot.log import Entry, EntryKind, format_clause, parse_clause, timeline_clause
from core.cluster.connect import Address
from core.cluster.state import ClusterState
from core.load import load_paths as layout
from core.load.load import Load
from core.load.windows import Window, write_window
from core.watch.timeline import past as past_reading
from core.watch.timeline.changes import find_changes
from core.watch.timeline.events import Kind
from core.watch.timeline.publisher import Publisher
from core.watch.timeline.store import Timeline
from core.watch.timeline.text import format_event
from tui.drawing.page import Page
from tui.drawing.spans import text_of
from tui.map.drag_controller import MapCanvas
from tui.session import Session
from tui.timeline import comparison as comparing
from tui.timeline.history import Comparison, RecordedTimeline, TimelineFilter, rows_of
from tui.timeline.lane_data import AUTOPILOT, Lane
from tui.timeline.page import TimelineView, timeline_lines
from tui.timeline.reader import read_timeline

ORDERS = [row("orders", p, (2, 1)) for p in range(4)]


@pytest.fixture
def session() -> Session:
    """A session on a cluster whose broker 2 died and came back, two minutes after it began."""
    record_night()
    session = a_session()
    state = cluster([*ORDERS, row("new", 0, (1, 2))], seconds=121)
    session.state = replace(state, cluster_id=RECORDED)
    session.load = Load.unknown(session.state)
    return session


def past(
    words: str = "", kind: str = "", known: RecordedTimeline | None = None
) -> RecordedTimeline:
    timeline = read_timeline(RECORDED, TimelineFilter(words, kind), known)
    assert timeline is not None
    return timeline


# -- what was read -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kind", "count"),
    [
        ("", "", 7),
        ("leader", "", 1),
        ("", "isr", 2),
        ("b2", "broker", 2),
        ("b2 !broker", "", 4),
        ("b4", "", 0),
        ("ORDERS", "", 3),
        ("new-0", "", 1),
        ("!orders !broker", "", 2),
        ("leader isr", "", 3),
    ],
)
def test_filter_words_match_brokers_or_kinds_or_the_text_of_events(
    session: Session, words: str, kind: str, count: int
) -> None:
    assert len(past(words, kind).groups) == count, [h.text for h in past(words, kind).groups]


def test_lanes_show_when_a_broker_was_down_and_behind(session: Session) -> None:
    lanes = past().lanes
    since, until = at(0).timestamp(), at(120).timestamp()
    assert lanes.cells(2, since, until, 12) == [
        *[Lane.UP] * 1,
        *[Lane.DOWN] * 6,
        *[Lane.BACK] * 1,
        *[Lane.UP] * 4,
    ]
    assert lanes.cells(1, since, until, 4) == [Lane.LEADS, Lane.UP, Lane.UP, Lane.UP]
    assert lanes.worst(since, until)[0] == 2
    assert lanes.cells(1, since - 60, since - 1, 2) == [Lane.ABSENT, Lane.ABSENT]


def record(*pictures: ClusterState) -> None:
    timeline = Timeline.write(paths.timeline_file(RECORDED))
    timeline.begin(pictures[0])
    for before, after in pairwise(pictures):
        timeline.append(find_changes(before, after), after)
    timeline.close()


def report(kind: Kind, by: str, *notes: tuple[float, str]) -> None:
    with Publisher(RECORDED) as publisher:
        for seconds, text in notes:
            publisher.report(kind, by=by, text=text, at=at(seconds))


def test_slow_follower_is_shown_as_behind_while_it_is_out_of_the_isr() -> None:
    slow = [row("orders", 0, (2, 1), isr=(2,)), *ORDERS[1:]]
    record(cluster(ORDERS), cluster(slow, seconds=30), cluster(ORDERS, seconds=90))
    cells = past().lanes.cells(1, at(0).timestamp(), at(120).timestamp(), 4)
    assert cells == [Lane.UP, Lane.BEHIND, Lane.BEHIND, Lane.UP]


def set_to(mode: str, seconds: float) -> tuple[float, str]:
    return seconds, format_clause(EntryKind.SWITCH, f"{mode} by ada")


def test_autopilot_lane_shows_its_mode_and_its_decisions(session: Session) -> None:
    assert not past().lanes.autopilot
    report(
        Kind.AUTOPILOT,
        "autopilot",
        set_to("act", 10),
        (30, format_clause(EntryKind.WAIT, "not while a broker is down: 2")),
        (50, format_clause(EntryKind.ACT, "broker 1 is hot")),
        set_to("suggest", 70),
        (90, format_clause(EntryKind.SUGGEST, "broker 1 is hot")),
        set_to("off", 110),
    )
    lanes = past().lanes
    cells = lanes.cells(AUTOPILOT, at(0).timestamp(), at(120).timestamp(), 12)
    assert cells == [
        *(Lane.ABSENT, Lane.ACTS, Lane.ACTS, Lane.WAITED, Lane.ACTS, Lane.DECIDED, Lane.ACTS),
        *(Lane.SUGGESTS, Lane.SUGGESTS, Lane.DECIDED, Lane.SUGGESTS, Lane.ABSENT),
    ]
    assert lanes.brokers == (1, 2, 3, 4)
    assert AUTOPILOT not in lanes.worst(at(0).timestamp(), at(120).timestamp())


@pytest.mark.parametrize(
    "what", [what for what in EntryKind if what not in (EntryKind.SWITCH, EntryKind.CAPACITY)]
)
def test_timeline_clause_of_each_autopilot_entry_kind_is_recognized(what: EntryKind) -> None:
    entry = Entry(at(0), what, (Reason("broker-down", "Not while a broker is down: 3."),), "r-1")
    assert parse_clause(timeline_clause(entry)) is not None


def test_events_are_not_reread_when_nothing_changed(session: Session) -> None:
    first = past()
    assert past(known=first) is first
    timeline = Timeline.write(paths.timeline_file(RECORDED))
    timeline.note_poll(at(130))
    timeline.close()
    again = past(known=first)
    assert again.span[1] == at(130)
    assert again.events == first.events


def test_only_the_newest_events_are_held_and_the_cut_is_flagged(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.timeline.reader.MAX_EVENTS", 3)
    timeline = past()
    assert timeline.cut
    assert [format_event(event) for event in timeline.events] == [
        "topic new was created",
        "new-0 came, on 1,2",
    ]
    assert timeline.lanes.brokers == (1, 2, 3, 4)


def test_dropped_older_reports_are_flagged_and_hide_no_observed_events(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = past()
    monkeypatch.setattr("tui.timeline.reader.MAX_EVENTS", 20)
    report(Kind.RUN, "run 1", *((30 + n, f"step {n}") for n in range(30)))
    timeline = past()
    assert timeline.reported_cut
    assert not timeline.cut
    notes = [event for event in timeline.events if event.kind is Kind.RUN]
    assert [format_event(event) for event in notes] == [f"run 1: step {n}" for n in range(10, 30)]
    assert [event for event in timeline.events if event not in notes] == list(whole.events)
    assert timeline.lanes.times[1][0] == at(0).timestamp()
    assert past(known=timeline) is timeline
    rows = rows_of(timeline.groups, frozenset())
    view = TimelineView(timeline, (), rows, 0, None, None, True, None, at(121), False)
    assert "the newest shown" in text_of(timeline_lines(view, 120, 40)[0])


def test_empty_timeline_file_is_read_as_no_timeline() -> None:
    path = paths.timeline_file(RECORDED)
    path.parent.mkdir(parents=True)
    path.touch()
    assert read_timeline(RECORDED, TimelineFilter(), None) is None


def test_events_pruned_while_the_timeline_is_read_are_still_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("core.watch.timeline.store.STATE_CHANGES", 1)
    record_night()
    whole, state_at = past(), Timeline.state_at

    def late(self: Timeline, moment: datetime) -> ClusterState | None:
        writer = Timeline.write(self.path)
        writer.forget(at(1_000))
        writer.close()
        return state_at(self, moment)

    with monkeypatch.context() as forgetting:
        forgetting.setattr(Timeline, "state_at", late)
        assert past().events == whole.events
    assert past().span[0] > whole.span[0]


def test_rows_are_grouped_events_and_unfolding_a_group_adds_its_events(session: Session) -> None:
    happenings = past().groups
    rows = rows_of(happenings, frozenset())
    assert len(rows) == len(happenings)
    many = next(row for row in rows if len(row.happening.events) > 1)
    unfolded = rows_of(happenings, frozenset({many.key}))
    assert len(unfolded) == len(rows) + 4
    assert [row.event for row in unfolded].count(None) == len(rows)


# -- the screen ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_broker_outage_at_night_is_shown_in_lanes_and_in_the_list_of_events(
    size: tuple[int, int], session: Session
) -> None:
    async with dashboard(session, "timeline", size) as pilot:
        text = body(pilot)
        assert "✗ broker 2 went down" in text
        assert "4 partitions have another leader than 2: 4 on 1" in text
        assert "✗✗✗" in text
        assert text.index("broker 2 went down") < text.index("broker 2 is back")
        assert "what happened" in text
        assert "7 of 12 changes" in text


async def test_ascii_mode_draws_the_timeline_and_the_past_map_in_ascii_only(
    session: Session,
) -> None:
    async with dashboard(session, "timeline", ascii_only=True) as pilot:
        assert "xxx" in text(pilot)
        assert text(pilot).isascii()
        await pressed(pilot, "{", "m")
        assert "AS IT WAS" in text(pilot)
        assert text(pilot).isascii()


@pytest.mark.parametrize(
    ("size", "ascii_only", "head", "legend"),
    [
        ((120, 40), False, r" autopilot +━+◆━+", "━ may act   ─ suggests"),
        ((80, 24), False, r" auto +━+◆━+", ""),
        ((120, 40), True, r" autopilot +=+#=+", "= may act   - suggests"),
    ],
)
async def test_the_autopilots_lane_is_drawn_below_the_brokers(
    session: Session, size: tuple[int, int], ascii_only: bool, head: str, legend: str
) -> None:
    acts = format_clause(EntryKind.ACT, "broker 1 is hot")
    report(Kind.AUTOPILOT, "autopilot", set_to("act", 10), (60, acts))
    async with dashboard(session, "timeline", size, ascii_only=ascii_only) as pilot:
        assert re.search(f"{head} *$", text(pilot), re.M)
        assert legend in text(pilot)


async def test_keys_step_through_events_unfold_a_group_and_return_to_now(session: Session) -> None:
    async with dashboard(session, "timeline") as pilot:
        assert " now " in body(pilot)
        assert "▸ 03:01:40.0" in body(pilot)
        await pressed(pilot, "{")
        assert "▸ 03:00:10.0   ✗ broker 2 went down" in body(pilot)
        assert "111 s ago" in body(pilot)
        await pressed(pilot, "]")
        assert "▸ 03:00:10.0 + ● 4 partitions" in body(pilot)
        assert "enter unfold" in footer(pilot)
        await pressed(pilot, "enter")
        assert "orders-3 leader 2 → 1, ISR without 2 (1 of 2)" in body(pilot)
        await pressed(pilot, "j", "j")
        assert "▸ 03:00:10.0         orders-1" in body(pilot)
        await pressed(pilot, "[")
        assert "▸ 03:00:10.0 + ● 4 partitions" in body(pilot)
        await pressed(pilot, "enter", "}")
        assert "orders-3 leader" not in body(pilot)
        assert " now " in body(pilot)


async def test_mouse_click_selects_a_row_or_mark_and_filters_by_a_broker(session: Session) -> None:
    async with dashboard(session, "timeline") as pilot:
        x, y = spot(pilot, "✗ broker 2 went")
        await pilot.click(Page, offset=(x, y))
        await rested(pilot)
        assert "▸ 03:00:10.0   ✗" in body(pilot)
        await pilot.click(Page, offset=spot(pilot, "broker 2 "))
        await rested(pilot)
        assert " / b2" in body(pilot)
        assert "topic new was created" not in body(pilot)
        await pressed(pilot, "escape")
        lane = next(line for line in body(pilot).split("\n") if line.startswith(" broker 2"))
        await pilot.click(Page, offset=(lane.index("√"), spot(pilot, "broker 2 ")[1]))
        await rested(pilot)
        assert "▸ 03:01:10.0" in body(pilot)


async def test_timeline_is_filtered_by_words_and_by_kind(session: Session) -> None:
    async with dashboard(session, "timeline", (80, 24)) as pilot:
        await pressed(pilot, "/", "n", "e", "w", "enter")
        assert "topic new was created" in body(pilot)
        assert "broker 2 went down" not in body(pilot)
        await pressed(pilot, "escape", "f")
        assert "only broker" in body(pilot)
        assert "topic new" not in body(pilot)
        await pressed(pilot, "/", "n", "o", "enter")
        assert "esc drops the filter" in body(pilot)


async def test_new_events_appear_without_a_key_and_an_unchanged_timeline_is_not_redrawn(
    session: Session,
) -> None:
    async with dashboard(session, "timeline") as pilot:
        screen = pilot.app.screen
        shown = screen.query_one(Page).lines
        screen._follow()  # type: ignore[attr-defined]
        await rested(pilot)
        assert screen.query_one(Page).lines is shown
        timeline = Timeline.write(paths.timeline_file(RECORDED))
        before = timeline.state_at(at(120))
        assert before is not None
        after = cluster(
            [*before.rows()], seconds=130, down=(3,), topics={t.name: t for t in before.topics}
        )
        timeline.append(find_changes(before, after), after)
        timeline.close()
        screen._follow()  # type: ignore[attr-defined]
        await rested(pilot)
        assert "broker 3 went down" in body(pilot)


async def test_the_list_is_copied_and_exported_as_markdown(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with dashboard(session, "timeline") as pilot:
        await pressed(pilot, "f", "y")
        assert "Copied 7 lines." in footer(pilot), footer(pilot)
        await pressed(pilot, "e", "enter")
    text = (tmp_path / "timeline.md").read_text()
    assert "| 2026-03-01 03:00:10.0 | broker 2 went down |" in text
    assert text.startswith("## Timeline of prod-eu, 2026-03-01 03:00:00.0 to ")


@pytest.mark.parametrize(
    ("address", "load", "message"),
    [
        (Address("sim:/x"), True, "Simulated clusters are not recorded."),
        (None, True, "A saved document has no past."),
        (Address("kafka:9092"), False, "With --no-load no recorder runs"),
        (Address("kafka:9092"), True, "The recorder has just been started"),
    ],
)
async def test_reason_for_an_empty_timeline_is_reported(
    address: Address | None, load: bool, message: str
) -> None:
    session = a_session()
    session.address, session.load_enabled = address, load
    async with dashboard(session, "timeline", (80, 24)) as pilot:
        assert message in body(pilot)
        await pressed(pilot, "[", "enter", "f", "s", "y", "e", "/")


async def test_file_that_is_no_timeline_is_reported(session: Session) -> None:
    paths.timeline_file(RECORDED).write_bytes(b"x" * 5000)
    async with dashboard(session, "timeline") as pilot:
        assert "cannot be read" in body(pilot) + footer(pilot)


# -- the map of the past -------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_map_shows_the_cluster_at_the_moment_selected_in_the_timeline(
    size: tuple[int, int], session: Session
) -> None:
    async with dashboard(session, "timeline", size) as pilot:
        await pressed(pilot, "{", "m")
        assert the_map(pilot)
        assert " AS IT WAS 03:00:10Z " in lines(pilot)[1]
        assert "edits off" in lines(pilot)[1]
        assert "4 out of sync" in lines(pilot)[2]
        assert "0 back to now" in lines(pilot)[-1]
        await pressed(pilot, "]")
        assert " AS IT WAS 03:01:10Z " in lines(pilot)[1]
        assert "out of sync" not in lines(pilot)[2]
        await pressed(pilot, "5")
        assert "▸ 03:01:10.0" in body(pilot)
        await pressed(pilot, "1", "0")
        assert "AS IT WAS" not in text(pilot)
        assert the_map(pilot).session is session


def spark_was_there(*, damaged: bool = False) -> None:
    """Keep the window of 03:00 to 03:05, in which partition 0 got 7 MB/s."""
    root, start = paths.load_root(), datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
    window = Window(
        start,
        ("orders",),
        np.zeros(1, np.int32),
        np.zeros(1, np.int32),
        np.ones(1, np.int32),
        {("in_bytes_per_s", "avg"): np.array([7e6])},
        np.array([-1]),
        (),
    )
    write_window(root, RECORDED, window)
    if damaged:
        layout.window_file(root, RECORDED, start).write_bytes(b"no window")


async def test_past_map_shows_the_load_of_that_time_where_it_is_kept(
    session: Session,
) -> None:
    spark_was_there()
    async with dashboard(session, "timeline") as pilot:
        await pressed(pilot, "{", "m")
        assert "load until 03:05Z" in lines(pilot)[1]
        assert " PAST 1 Mar 03:00Z " in lines(pilot)[0]
        load = the_map(pilot).session.load
        assert load is not None
        assert load.in_bytes_per_s[0] == 7e6
        assert np.isnan(load.in_bytes_per_s[1])
        await pressed(pilot, "0")
        assert "PAST" not in lines(pilot)[0]


async def test_damaged_window_is_reported_and_the_moment_is_still_shown(
    session: Session,
) -> None:
    spark_was_there(damaged=True)
    async with dashboard(session, "timeline") as pilot:
        await pressed(pilot, "{", "m")
        assert "load and sizes unknown" in lines(pilot)[1]
        assert "is not a whole window file" in session.troubles[-1].title


async def test_plan_cannot_be_edited_on_the_map_of_a_past_moment(session: Session) -> None:
    session.writable = True
    async with dashboard(session, "timeline") as pilot:
        await pressed(pilot, "{", "m", "enter")
        for key in ("space", "a", "L", "A", "v", "e", "u", "U"):
            await pressed(pilot, key)
            assert "The past cannot be edited" in lines(pilot)[-1], key
        screen = the_map(pilot)
        x, y = column_of(pilot, 2), row_of(pilot, "p0")
        await pilot.mouse_down(MapCanvas, offset=(x, y - 1))
        await pilot.pause()
        assert screen.drag is None
        assert len(session.plan) == len(a_session().plan)
        await pilot.mouse_up(MapCanvas, offset=(x, y - 1))
        await pressed(pilot, "escape", "escape")
        assert session.past_moment is None
        assert "AS IT WAS" not in text(pilot)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Flag]:
    """A flag without which no moment is read."""
    open_now, real = Flag(), past_reading.read_state

    def read_state(cluster_id: str, moment: datetime) -> past_reading.RecordedState | None:
        assert open_now.wait(60)
        return real(cluster_id, moment)

    monkeypatch.setattr(past_reading, "read_state", read_state)
    open_now.set()
    yield open_now
    open_now.set()


async def test_each_key_press_is_one_step_even_when_moments_are_read_slowly(
    session: Session, reading: Flag
) -> None:
    async with dashboard(session, "timeline") as pilot:
        await pressed(pilot, "m")
        assert session.past_moment is not None
        assert session.recorded is not None
        wanted = session.recorded.moment_after(session.past_moment.at, -3)
        reading.clear()
        await pilot.press("[", "[", "[")
        reading.set()
        await rested(pilot)
        assert session.past_moment.at == wanted
        await pressed(pilot, "]")
        assert session.past_moment.at == session.recorded.moment_after(wanted, 1)


@pytest.mark.parametrize("key", ["0", "2", "question_mark"])
async def test_moment_abandoned_while_it_is_read_is_not_shown(
    key: str, session: Session, reading: Flag
) -> None:
    async with dashboard(session, "timeline") as pilot:
        await pressed(pilot, "{", "m")
        before = session.past_moment
        reading.clear()
        await pilot.press("]", key)
        screen = pilot.app.screen
        reading.set()
        await rested(pilot)
        assert session.past_moment is (None if key == "0" else before)
        assert pilot.app.screen is screen


async def test_leaving_the_timeline_cancels_the_switch_to_the_map(
    session: Session, reading: Flag
) -> None:
    async with dashboard(session, "timeline") as pilot:
        reading.clear()
        await pilot.press("m", "2")
        screen = pilot.app.screen
        reading.set()
        await rested(pilot)
        assert pilot.app.screen is screen
        assert session.past_moment is None


# -- what changed since this was fine -------------------------------------------------------------


async def test_past_moment_is_compared_with_now_until_the_key_is_pressed_once_more(
    session: Session,
) -> None:
    async with dashboard(session, "timeline") as pilot:
        await pressed(pilot, "b")
        assert "Put the cursor where it was still fine" in footer(pilot)
        await pressed(pilot, "{", "b")
        text = body(pilot)
        assert "what is different since 03:00:10.0" in text
        assert "03:00:10.0 against now" in text
        assert "broker 2 is back" in text
        assert "topic new was created" in text
        assert "another leader" not in text
        await pressed(pilot, "b")
        assert "what happened" in body(pilot)
        assert "▸ 03:00:10.0   ✗" in body(pilot)


class Comparisons:
    """What is compared, once `go` is set."""

    def __init__(self) -> None:
        self.go, self.asked = Flag(), list[Any]()
        self.real = comparing.compare

    def __call__(self, *words: Any) -> Comparison | None:
        self.asked.append(words)
        assert self.go.wait(60)
        return self.real(*words)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Comparisons]:
    comparisons = Comparisons()
    monkeypatch.setattr(comparing, "compare", comparisons)
    yield comparisons
    comparisons.go.set()


def comparison(pilot: Any) -> comparing.TimelineComparison:
    return pilot.app.screen.comparison


async def test_cancelled_comparison_does_not_reappear_when_its_refresh_arrives(
    session: Session, slow: Comparisons
) -> None:
    async with dashboard(session, "timeline") as pilot:
        slow.go.set()
        await pressed(pilot, "{", "b")
        assert "what is different" in body(pilot)
        slow.go.clear()
        comparison(pilot).refresh()  # as when more has happened
        await pilot.press("b")
        slow.go.set()
        await rested(pilot)
        assert "what happened" in body(pilot)


async def test_slow_comparison_with_now_is_shown_and_later_refreshes_are_merged(
    session: Session, slow: Comparisons
) -> None:
    async with dashboard(session, "timeline") as pilot:
        slow.go.set()
        await pressed(pilot, "{", "b")
        slow.go.clear()
        compared = comparison(pilot)
        before = compared.shown
        for _ in range(3):
            compared.refresh_now()
        slow.go.set()
        await rested(pilot)
        assert compared.shown is not before
        assert len(slow.asked) == 3, "the first, one waited for, and one for all later news"


async def test_first_comparison_in_progress_follows_filters_and_can_be_cancelled(
    session: Session, slow: Comparisons
) -> None:
    async with dashboard(session, "timeline") as pilot:
        await pilot.press("{", "b")
        compared = comparison(pilot)
        await pilot.press("f")
        slow.go.set()
        await rested(pilot)
        assert compared.shown is not None
        expected = slow.real(*slow.asked[-1])
        assert expected is not None
        assert [h.text for h in compared.shown.groups] == [h.text for h in expected.groups]
        assert slow.asked[-1][-1] == pilot.app.screen.timeline_filter != slow.asked[0][-1]
        await pressed(pilot, "escape", "escape")
        slow.go.clear()
        await pilot.press("b", "escape")
        slow.go.set()
        await rested(pilot)
        assert compared.shown is None


async def test_a_marked_moment_is_compared_with_the_cursor(session: Session) -> None:
    async with dashboard(session, "timeline") as pilot:
        await pressed(pilot, "{", "v")
        assert "√ fine at 03:00:10.0" in body(pilot)
        await pressed(pilot, "]", "]", "]", "b")
        assert "03:00:10.0 against 03:01:10.0" in body(pilot)
        assert "4 partitions have 2 in their ISR again" in body(pilot)
        assert "new" not in body(pilot).split("what is different")[1]
        await pressed(pilot, "enter", "y")
        assert "Copied" in footer(pilot)
        await pressed(pilot, "m")
        assert " AS IT WAS 03:00:10Z " in lines(pilot)[1]
        await pressed(pilot, "5", "escape", "escape")
        assert "what happened" in body(pilot)


async def test_reverted_changes_are_not_shown_as_differences() -> None:
    pictures = [
        cluster(ORDERS),
        cluster(ORDERS, seconds=10, controller=3),
        cluster(ORDERS, seconds=20, controller=3, down=(4,)),
        cluster(ORDERS, seconds=30, controller=3),
    ]
    record(*pictures)
    session = a_session()
    session.state = replace(pictures[-1], cluster_id=RECORDED)
    session.load = Load.unknown(session.state)
    async with dashboard(session, "timeline", ascii_only=True) as pilot:
        await pressed(pilot, "{", "b")
        assert "Nothing is different: all that changed meanwhile has gone back." in body(pilot)
        assert text(pilot).isascii()


@pytest.mark.parametrize(
    ("later", "message"),
    [(5, "recorded since 03:00 UTC"), (600, "▲ recorded 03:00 to 03:02:00 UTC")],
)
async def test_recording_that_has_stopped_is_reported(
    session: Session, later: int, message: str
) -> None:
    assert session.state is not None
    session.state = replace(session.state, fetched_at=at(120 + later))
    async with dashboard(session, "timeline", (80, 24)) as pilot:
        assert message in body(pilot)
        assert ("now " in body(pilot).split("what happened")[0].split("\n")[-2]) is (later == 5)
