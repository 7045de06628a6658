"""What the Moves tell of a run: detail, batches, log, report, history; and of others' moves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from clusters import cluster, load_of, tp
from hands import rested
from pictures import (
    GB,
    MB,
    SIZES,
    a_move,
    a_run,
    a_session,
    at,
    body,
    dashboard,
    drawn,
    footer,
    pressed,
    publish_events,
)

from core.cluster.metadata import FutureReplica
from core.run.external.moves import ForeignWatch, foreign_moves
from core.run.journal.move_state import Role
from core.run.reporting.views import Level, MoveStatus, RunEvent, RunRequest, RunStatus, RunView
from tui.dialogs import export as export_module
from tui.drawing.spans import Tone, fit, text_of, width_of
from tui.feed.events import PictureChanged, RunChanged
from tui.map.drag_controller import MapCanvas
from tui.moves.drawing.batches import batches_lines, batches_of, current_batch
from tui.moves.drawing.external import foreign_lines, foreign_page
from tui.moves.drawing.log import event_lines, filter_events, log_lines, request_lines
from tui.moves.drawing.report import all_report_lines, report_lines
from tui.moves.drawing.rows import move_line
from tui.moves.drawing.run import detail_lines, followup_keys
from tui.moves.drawing.runs import runs_lines
from tui.moves.drawing.status import is_paused, notice_lines
from tui.moves.screen import MovesScreen

REPORT = """# Run 0101-021101 on prod-eu: done

## Asked
- by ann on here

## Done
- 2 of 2 done

| partition | before | state |
|---|---|---|
| orders-1 | 7,2,4 | done |
| audit-4 | 7,2,4 | failed: refused |

## Changed and restored
| what | found | since |
|---|---|---|
| leader rate of broker 7 | unset | unset again |
"""


def run_request(what: str, **other: Any) -> RunRequest:
    return replace(RunRequest(at(2, 20), "cancel", what, "ann on here", taken=True), **other)


def test_run_being_rolled_back_is_no_longer_paused() -> None:
    pause, back = run_request("pause", kind="pause"), run_request("roll back", kind="rollback")
    run = a_run(RunStatus.ROLLING_BACK, requests=(pause, back))
    assert not is_paused(run)
    assert is_paused(replace(run, requests=(pause, replace(back, refused="nothing has moved"))))
    assert is_paused(replace(run, requests=(back, pause)))


def test_moves_already_rolled_back_are_not_offered_for_rollback() -> None:
    run = a_run(RunStatus.CANCELLED)
    there = replace(run.moves[0], state=MoveStatus.DONE)
    back = replace(there, role=Role.ROLLBACK, before=there.after, after=there.before)
    assert "R  moves 1 back" in text_of(followup_keys(replace(run, moves=(there,))))
    assert followup_keys(replace(run, moves=(there, back))) == ()


# -- one glance ----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize(
    ("state", "other", "words"),
    [
        (RunStatus.PAUSED, {}, "No batch begins until it is resumed (P); 2 in flight go on"),
        (
            RunStatus.PAUSED,
            {"why": "somebody takes its throttles"},
            "Somebody takes its throttles. P",
        ),
        (RunStatus.WAITING, {"why": "broker 9 is down"}, "Broker 9 is down"),
        (RunStatus.WAITING, {"why": "ads.in-62 has moved, but"}, "   ads.in-62 has moved, but"),
        (RunStatus.SCHEDULED, {"starts_at": at(4, 0)}, "It begins at 2026-01-01 04:00Z."),
        (RunStatus.RECOVERING, {}, "Its process is back"),
        (RunStatus.DIED, {"why": "it stopped"}, "It stopped. B brings it back"),
        (RunStatus.ROLLING_BACK, {}, "what was done moves back"),
        (RunStatus.CANCELLING, {}, "goes back to the replicas and order it had"),
    ],
)
def test_unusual_state_of_a_run_is_explained_in_a_sentence(
    state: RunStatus, other: dict[str, Any], words: str, width: int
) -> None:
    lines = notice_lines(a_run(state, **other), width)
    assert words in drawn(lines)


def test_run_in_normal_progress_has_no_notice() -> None:
    assert notice_lines(a_run(), 120) == ()


def test_refused_request_is_shown_until_the_next_request() -> None:
    refused = run_request("sing", refused="this trimtab does not know what it is to sing")
    assert "✗ sing: this trimtab" in drawn(notice_lines(a_run(requests=(refused,)), 120))
    assert notice_lines(a_run(requests=(refused, run_request("pause"))), 120) == ()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_move_under_the_cursor_is_shown_in_full(width: int) -> None:
    move = a_move(
        "orders-2",
        MoveStatus.MOVING,
        25,
        bytes_per_s=48e6,
        average_bytes_per_s=44e6,
        left_seconds=1140.0,
        left_range=(1000.0, 1500.0),
        batch=3,
    )
    text = drawn(detail_lines(a_run(moves=(move,)), 0, width, roomy=width > 80))
    for words in ("now 48 MB/s, average 44 MB/s", "19 m left", "(17 m – 25 m)"):
        assert words in text
    assert "batch 3 of 4" in text or width == 80


def test_why_a_move_is_stuck_is_shown_in_full() -> None:
    why = "no byte has come: broker 9 has a follower quota of 1 MB/s that is not ours"
    move = a_move("audit-4", MoveStatus.STUCK, 1, bytes_per_s=0.0, why=why)
    for roomy in (True, False):
        assert why in drawn(detail_lines(a_run(moves=(move,)), 0, 120, roomy=roomy))


def test_bytes_that_are_only_last_known_are_marked() -> None:
    move = a_move("orders-2", MoveStatus.STUCK, 25, held=True, why="b12 is down")
    assert "~25 / 100 GB" in text_of(move_line(move, 120))
    assert "bytes as last known" in drawn(detail_lines(a_run(moves=(move,)), 0, 120, roomy=True))


def test_average_rate_has_a_column_on_wide_screens() -> None:
    move = a_move("t-0", MoveStatus.MOVING, 25, bytes_per_s=48e6, average_bytes_per_s=44e6)
    assert "48 MB/s    44 MB/s" in text_of(move_line(move, 200))


# -- batches -------------------------------------------------------------------------------------


def in_batches() -> RunView:
    moves = (
        a_move("a-0", MoveStatus.DONE, 100, batch=1),
        a_move("b-0", MoveStatus.MOVING, 40, batch=2),
        a_move("c-0", MoveStatus.STUCK, 10, batch=2, why="b9 is down"),
        *(a_move(f"d-{n}", MoveStatus.QUEUED, batch=3) for n in range(80)),
    )
    return a_run(moves=moves, batches=3)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_move_waiting_its_turn_is_shown_as_waiting(width: int) -> None:
    """What it has left may be long, and is no answer to why nothing comes."""
    waiting = a_move(
        "b-0",
        MoveStatus.MOVING,
        40,
        bytes_per_s=0.0,
        left_seconds=1140.0,
        why="waits its turn: b5 is at its limit",
    )
    run = a_run(moves=(waiting,), batches=1)
    assert "waits its turn" in text_of(move_line(waiting, width))
    assert "stuck" not in drawn(detail_lines(run, 0, width, roomy=True))
    assert "waits its turn" in drawn(batches_lines(run, None, width, 20))
    coming = replace(waiting, bytes_per_s=5e6)
    assert "19 m" in text_of(move_line(coming, width))


@pytest.mark.parametrize("size", SIZES)
def test_batch_plan_shows_the_moves_and_states_of_each_batch(size: tuple[int, int]) -> None:
    width, height = size[0], size[1] - 2
    run = in_batches()
    assert current_batch(batches_of(run.moves)) == 1
    lines = batches_lines(run, None, width, height)
    assert len(lines) <= height
    text = drawn(lines)
    for words in ("√ 1 done", "▲ 1 stuck, 1 moving", "queued", "▸ 2", "b-0", "50 / 200 GB"):
        assert words in text
    assert "more" in drawn(batches_lines(run, 2, width, height))


# -- log -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "found"),
    [("", 3), ("orders", 2), ("orders !done", 1), ("moved", 1), ("02:31", 1), ("!", 0)],
)
def test_the_log_is_filtered_by_words(words: str, found: int) -> None:
    events = (
        RunEvent(at(2, 11), "started", "journal opened"),
        RunEvent(at(2, 20), "submitted", "orders-1 submitted"),
        RunEvent(at(2, 31), "moved", "orders-1 done", Level.GOOD),
    )
    assert len(filter_events(events, words)) == found


def test_requests_are_shown_as_taken_waiting_or_refused() -> None:
    requests = (
        run_request("pause"),
        run_request("cancel orders-3", taken=False),
        run_request("sing", refused="nobody can"),
    )
    text = drawn(request_lines(requests, 5))
    assert "√ taken    pause" in text
    assert "▲ waits    cancel orders-3" in text
    assert "✗ refused  sing   nobody can" in text
    assert "and 2 before" in drawn(request_lines(requests, 2))


@pytest.mark.parametrize("size", SIZES)
async def test_the_log_is_a_page_of_its_own_with_a_filter(size: tuple[int, int]) -> None:
    session = a_session()
    events = tuple(RunEvent(at(2, n), "moved", f"orders-{n} done " + "x" * 150) for n in range(59))
    session.run = a_run(events=events, requests=(run_request("pause"),))
    async with dashboard(session, "moves", size) as pilot:
        await pressed(pilot, "l")
        assert "asked for" in body(pilot)
        assert "orders-58" in body(pilot)
        await pressed(pilot, "G")
        assert "orders-0 done" in body(pilot)
        await pressed(pilot, "slash", *"s-3 !s-33")
        assert "orders-38" in body(pilot)
        assert "orders-33" not in body(pilot)
        await pressed(pilot, "enter", "escape")
        assert "brokers in this run" in body(pilot)


class ReadTime(datetime):
    """A time that counts how often one is read."""

    reads = 0

    def astimezone(self, tz: tzinfo | None = None) -> ReadTime:
        ReadTime.reads += 1
        return super().astimezone(tz)

    def timestamp(self) -> float:
        ReadTime.reads += 1
        return super().timestamp()


async def test_key_press_on_a_long_run_reads_only_about_as_much_as_is_in_view() -> None:
    def at_minute(n: int) -> ReadTime:
        return ReadTime(2026, 1, 1, 2, n % 60, tzinfo=UTC)

    session, height = a_session(), 40
    session.run = a_run(
        moves=tuple(
            a_move(f"orders-{n}", MoveStatus.DONE, 100, done_at=at_minute(n)) for n in range(500)
        ),
        events=tuple(RunEvent(at_minute(n), "moved", f"orders-{n} done") for n in range(500)),
    )
    async with dashboard(session, "moves", (120, height)) as pilot:
        for keys in (["j", "space", "k"], ["l", "slash", "o"], ["r", "d", "enter", "j", "G"]):
            for key in keys:
                ReadTime.reads = 0
                await pressed(pilot, key)
                # The first word that is typed has every event read, once.
                assert ReadTime.reads <= 2 * height + 500 * (key == "o"), key


async def test_marking_a_move_draws_the_page_once(monkeypatch: pytest.MonkeyPatch) -> None:
    session, drawn = a_session(), []
    session.run = a_run()
    show_body = MovesScreen.show_body
    monkeypatch.setattr(
        MovesScreen, "show_body", lambda *args: (drawn.append(args), show_body(*args))[1]
    )
    async with dashboard(session, "moves") as pilot:
        drawn.clear()
        await pressed(pilot, "space")
        assert len(drawn) == 1


def test_log_page_has_exactly_the_height_of_its_space() -> None:
    run = a_run(events=a_run().events * 90, requests=(run_request("pause"),) * 40)
    for width, height in SIZES:
        lines = log_lines(run, "", 3, width, height, typing=True)
        assert len(lines) == height


STORY = (
    RunEvent(at(2, 31), "moved", "orders-1 done", Level.GOOD),
    RunEvent(
        at(2, 11),
        "throttle_set",
        "throttles set and read back on brokers 2 7 9 10 12; before: b9 follower 1 MB/s (kept), "
        "others unset",
    ),
)


@pytest.mark.parametrize("width", [72, 80, 120])
def test_long_event_takes_a_second_line_where_there_is_room(width: int) -> None:
    lines = event_lines(STORY, width, 6)
    text = " ".join(text_of(line)[13:].strip() for line in lines)
    assert text == f"{STORY[1].text} {STORY[0].text}"
    assert max(width_of(line) for line in lines) <= width


def test_cut_event_lines_end_with_an_ellipsis() -> None:
    (line,) = event_lines(STORY, 80, 1)
    assert text_of(fit(line, 80)).endswith("…")
    _, second = event_lines(STORY[1:], 40, 6)[:2]
    assert text_of(fit(second, 40)).endswith("…")


# -- report and history --------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 120, 200])
def test_report_is_drawn_as_headings_and_columns(width: int) -> None:
    text = drawn(all_report_lines(REPORT, width))
    assert "|" not in text
    assert "#" not in text
    assert "orders-1   7,2,4   done" in text
    assert "─ Changed and restored" in text
    tones = {span.text: span.tone for line in all_report_lines(REPORT, width) for span in line}
    assert tones["failed: refused"] is Tone.ACT
    assert drawn(report_lines(REPORT, 10**9, width, 5)).count("\n") == 4


async def test_past_run_opens_as_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = a_session()
    session.run = a_run()
    older = a_run(RunStatus.DONE, run="0101-010000", ended_at=at(2, 0))
    monkeypatch.setattr(export_module, "read_journal", lambda *_: None)
    monkeypatch.setattr(export_module, "markdown", lambda _: REPORT)
    async with dashboard(session, "moves") as pilot:
        screen = pilot.app.screen
        screen.show_run(older, REPORT)
        await rested(pilot)
        assert "Changed and restored" in body(pilot)
        await pressed(pilot, "y")
        assert "Copied" in footer(pilot)
        target = tmp_path / "report.md"
        await pressed(pilot, "e")
        pilot.app.screen.query_one("#answer").value = str(target)  # type: ignore[attr-defined]
        await pressed(pilot, "enter")
        assert target.read_text() == REPORT
        await pressed(pilot, "escape")
        assert "runs of this cluster" in body(pilot)
        await pressed(pilot, "escape")
        assert "● run 02:11Z" in body(pilot)


async def test_click_on_moving_in_the_map_shows_the_current_run_over_an_open_report() -> None:
    session = a_session()
    session.state, session.run = other_moves(GB // 4), a_run()
    session.load = load_of(session.state, 1e6)
    older = a_run(RunStatus.DONE, run="0101-010000", ended_at=at(2, 0))
    async with dashboard(session, "moves") as pilot:
        pilot.app.screen.show_run(older, REPORT)
        await rested(pilot)
        assert "Changed and restored" in body(pilot)
        await pressed(pilot, "1")
        (moving,) = [
            placed.start
            for placed in pilot.app.screen.places.verdicts  # type: ignore[attr-defined]
            if placed.verdict.id == "moving"
        ]
        await pilot.click(MapCanvas, offset=(moving, 0))
        await rested(pilot)
        assert "● run 02:11Z" in body(pilot)


@pytest.mark.parametrize("size", SIZES)
def test_history_shows_how_long_a_run_took_and_was_estimated(size: tuple[int, int]) -> None:
    from core.run.reporting.views import summary

    run = summary(a_run(RunStatus.DONE, ended_at=at(3, 11, 1)))
    lines = runs_lines((run,), 0, 0, at(4, 0), size[0], size[1])
    text = drawn(lines)
    for words in ("√ done", "126 / 400 GB", "1 h 00 m", "took", "estimated"):
        assert words in text, text


# -- somebody else's -----------------------------------------------------------------------------


def other_moves(arrived: int, seconds: float = 0.0) -> Any:
    state = cluster(
        {"a-0": [1, 2, 3], "b-0": [1, 2, 3]},
        adding={"a-0": [3], "b-0": [3]},
        removing={"a-0": [1], "b-0": [1]},
        size_bytes=GB,
    )
    sizes = state.size_bytes.copy()
    sizes[state.adding] = arrived
    return replace(
        state, size_bytes=sizes, fetched_at=state.fetched_at + timedelta(seconds=seconds)
    )


def test_moves_not_started_here_are_listed_separately() -> None:
    moves = foreign_moves(other_moves(GB), {tp("a-0")})
    assert [(str(move.tp), move.before, move.after) for move in moves] == [("b-0", (1, 2), (2, 3))]
    assert "1→3" in drawn(foreign_lines(moves, 100, 5))
    lines = foreign_lines(moves * 9, 100, 4)
    assert len(lines) == 4
    assert "and 6 more" in text_of(lines[3])


def test_foreign_moves_report_when_no_byte_has_come_for_long() -> None:
    watch = ForeignWatch()
    for second, arrived in ((0, 0), (20, 200 * MB), (100, 200 * MB)):
        watch.look(other_moves(arrived, second), {tp("a-0")})
    moves = watch.look(other_moves(200 * MB, 100), {tp("a-0")})
    assert "no byte for 80 s" in drawn(foreign_lines(moves, 120, 3))


@pytest.mark.parametrize("size", SIZES)
async def test_foreign_moves_are_shown_and_cannot_be_changed(
    size: tuple[int, int],
) -> None:
    session = a_session()
    session.external_moves = foreign_moves(other_moves(GB // 4), ())
    async with dashboard(session, "moves", size) as pilot:
        assert "◆ NOT OURS" in body(pilot)
        assert "never changed" in body(pilot)
        assert "a-0" in body(pilot)
        await pressed(pilot, "C")
        assert "nothing to ask" in footer(pilot)
        await pressed(pilot, "o")
        assert "2 in flight, not started here" in body(pilot)
        await pressed(pilot, "f")
        assert "◆ NOT OURS" in body(pilot)
    lines = foreign_page(session.external_moves * 50, size[0], size[1] - 2)
    assert len(lines) == size[1] - 2


@pytest.mark.parametrize(("width", "message"), [(80, "b2 dir"), (120, "to /d2"), (160, "to /d2")])
def test_copy_between_log_dirs_of_a_broker_shows_its_destination(width: int, message: str) -> None:
    copy = FutureReplica(tp("c-0"), 2, "/d2", GB // 4)
    state = replace(cluster({"c-0": [1, 2]}, size_bytes=GB), future_replicas=(copy,))
    text = drawn(foreign_lines(foreign_moves(state, ()), width, 3))
    assert message in text
    assert "0.2 / 1.0 GB" in text


async def test_run_in_progress_is_shown_before_foreign_moves() -> None:
    session = a_session()
    session.external_moves = foreign_moves(other_moves(GB // 4), ())
    session.run = a_run()
    async with dashboard(session, "moves") as pilot:
        assert "● run 02:11Z" in body(pilot)
        assert "f others" in footer(pilot)


async def test_moves_are_no_longer_foreign_once_their_run_is_known() -> None:
    """A picture of the cluster may come before the run's journal was read."""
    async with dashboard(a_session(), "moves") as pilot:
        state = other_moves(GB // 4)
        await publish_events(pilot, PictureChanged(state, load_of(state, 1e6), None, None, None))
        assert "2 in flight" in body(pilot)
        moves = (a_move("a-0", MoveStatus.MOVING, 1), a_move("b-0", MoveStatus.MOVING, 1))
        await publish_events(pilot, RunChanged(a_run(moves=moves)))
        assert "f others" not in footer(pilot)
