"""The Moves screen: a run as it goes, as it ended, and what there is when nothing runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import tp
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
    pressed,
    spot,
)

from core.cluster.configs import ConfigSource
from core.plan.copies import Side
from core.run.journal.throttle_values import RateIntent
from core.run.reporting.views import Leftovers, LoweredRetention, MoveStatus, RunStatus, RunSummary
from core.units import UNLIMITED, format_rate
from tui.drawing.page import Page
from tui.drawing.spans import Ground, Tone, partition_name, text_of, width_of
from tui.moves.drawing.log import event_lines
from tui.moves.drawing.rows import amount_words, move_line, sort_moves, state_of
from tui.moves.drawing.run import broker_lines, ending_lines, run_lines
from tui.moves.drawing.runs import runs_lines
from tui.moves.drawing.status import HALTED, headline, overall


def a_summary(run: str = "0101-021101", **other: object) -> RunSummary:
    summary = RunSummary(
        run=run,
        cluster_id="test-cluster",
        state=RunStatus.DONE,
        started_at=at(2, 11),
        ended_at=at(3, 18),
        moves=4,
        done=4,
        total_bytes=400 * GB,
        moved_bytes=400 * GB,
        rate_bytes_per_s=50 * MB,
        who="ana",
    )
    return replace(summary, **other)  # type: ignore[arg-type]


# -- renderers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "other", "words", "tone", "bar"),
    [
        (MoveStatus.QUEUED, {"batch": 4}, "queued, batch 4", Tone.DIM, Tone.YOURS),
        (MoveStatus.MOVING, {}, "", Tone.DIM, Tone.YOURS),
        (MoveStatus.STUCK, {"why": "stuck 4 m: b9"}, "stuck 4 m: b9", Tone.LOOK, Tone.LOOK),
        (MoveStatus.STUCK, {"why": "b9 is down"}, "stuck: b9 is down", Tone.LOOK, Tone.LOOK),
        (MoveStatus.DONE, {"done_at": at(2, 31)}, "√ 02:31Z in ISR", Tone.FINE, Tone.FINE),
        (MoveStatus.FAILED, {"why": "topic deleted"}, "✗ topic deleted", Tone.ACT, Tone.ACT),
        (MoveStatus.CANCELLED, {}, "cancelled", Tone.LOOK, Tone.DIM),
    ],
)
def test_state_of_a_move_determines_its_words_and_the_tone_of_its_bar(
    state: MoveStatus, other: dict[str, object], words: str, tone: Tone, bar: Tone
) -> None:
    move = a_move("t-0", state, 50, **other)
    span = state_of(move, 40)
    assert (span.text.strip(), span.tone) == (words, tone)
    assert {s.tone for s in move_line(move, 120) if s.ground is Ground.TROUGH} == {bar}


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_moving_partition_has_bar_bytes_rate_and_time_left(width: int) -> None:
    move = a_move("orders-2", MoveStatus.MOVING, 25, bytes_per_s=48e6, left_seconds=1140.0)
    line = move_line(move, width)
    text = text_of(line)
    assert width_of(line) <= width
    assert "25 / 100 GB" in text or "25/100 GB" in text
    assert all(words in text for words in ("orders-2", "7→12", "48 MB/s", "19 m"))
    track = "".join(span.text for span in line if span.ground is Ground.TROUGH)
    assert track.count("█") == len(track) // 4


def test_moves_needing_attention_come_first_and_newest_done_before_older() -> None:
    moves = [
        a_move("a-0", MoveStatus.DONE, done_at=at(2, 0)),
        a_move("b-0", MoveStatus.DONE, done_at=at(2, 5)),
        *(
            a_move(f"{state.value}-0", state)
            for state in MoveStatus
            if state is not MoveStatus.DONE
        ),
    ]
    order = [str(moves[i].tp) for i in sort_moves(moves)]
    ahead = ["failed-0", "stuck-0", "moving-0", "queued-0", "cancelled-0", "skipped-0"]
    assert order == [*ahead, "b-0", "a-0"]


@pytest.mark.parametrize(
    ("moved", "total", "words"),
    [
        (157 * GB, 212 * GB, "157 / 212 GB"),
        (GB, 11 * GB, "1 / 11 GB"),
        (300 * MB, 11 * GB, "0.3 / 11 GB"),
        (0, 7_400 * GB, "0 / 7.4 TB"),
        (1_900 * GB, 7_400 * GB, "1.9 / 7.4 TB"),
        (0, 0, "0 / 0 B"),
    ],
)
def test_moved_bytes_are_shown_in_the_unit_of_the_total(moved: int, total: int, words: str) -> None:
    assert amount_words(moved, total) == words


@pytest.mark.parametrize(
    ("name", "width", "words"),
    [("orders-7", 12, "orders-7"), ("a-very-long-topic-17", 12, "a-ver…pic-17")],
)
def test_shortened_partition_name_keeps_its_partition_number(
    name: str, width: int, words: str
) -> None:
    assert partition_name(tp(name), width) == words


@pytest.mark.parametrize(
    ("state", "other", "words"),
    [
        (RunStatus.RUNNING, {}, ["● run 02:11Z", "1 of 4 done", "1 h 07 m left", "▲ 1 stuck"]),
        (RunStatus.WAITING, {}, ["▲ run 02:11Z WAITING"]),
        (RunStatus.PAUSED, {}, ["‖ run 02:11Z PAUSED"]),
        (RunStatus.SCHEDULED, {}, ["○ run 02:11Z NOT BEGUN"]),
        (RunStatus.RECOVERING, {}, ["● run 02:11Z RECOVERING"]),
        (RunStatus.CANCELLING, {}, ["◂ run 02:11Z CANCELLING"]),
        (RunStatus.ROLLING_BACK, {}, ["◂ run 02:11Z ROLLING BACK"]),
        (RunStatus.DONE, {"ended_at": at(3, 11, 1)}, ["√ run 02:11Z done", "took 1 h 00 m"]),
        (RunStatus.CANCELLED, {"ended_at": at(3, 11, 1)}, ["cancelled"]),
        (RunStatus.FAILED, {"ended_at": at(3, 0)}, ["✗ run 02:11Z failed"]),
        (RunStatus.DIED, {}, ["✗ run 02:11Z its process died"]),
        (RunStatus.RUNNING, {"rate_bytes_per_s": UNLIMITED}, ["no throttle"]),
    ],
)
def test_headline_shows_the_state_of_the_run_and_the_time_left(
    state: RunStatus, other: dict[str, object], words: list[str]
) -> None:
    text = text_of(headline(a_run(state, **other), 160))
    assert all(word in text for word in words), text
    # Nobody knows how long what halts will last.
    assert ("left" in text) == (not state.ended and state not in HALTED)


def test_overall_bar_shows_moved_begun_and_queued_and_leaves_out_cancelled_moves() -> None:
    taken_out = (
        a_move("orders-1", MoveStatus.DONE, 100),
        a_move("orders-2", MoveStatus.CANCELLED, 60),
        a_move("clicks-9", MoveStatus.MOVING, 50),
    )
    without = a_run(moves=taken_out, moved_bytes=150 * GB, total_bytes=200 * GB)
    for run, parts, chars in ((a_run(), [32, 43, 25], "━─╌"), (without, [75, 25, 0], "━─")):
        spans = overall(run, 102)[1:]
        assert [len(span.text) for span in spans] == parts
        assert "".join(span.text[:1] for span in spans) == chars, "it reads without colour"


def test_broker_lines_show_rate_and_limit_and_why_nothing_moves() -> None:
    lines = broker_lines(a_run().brokers, 120, 5)
    assert "48 / 50 MB/s" in text_of(lines[0])
    assert "foreign quota 1 MB/s" in text_of(lines[1])
    assert next(s for s in lines[1] if "foreign" in s.text).tone is Tone.LOOK
    many = broker_lines(a_run().brokers * 4, 80, 3)
    assert "and 6 more" in text_of(many[2])


def test_unknown_rate_of_a_broker_is_not_shown_as_zero() -> None:
    row = replace(a_run().brokers[0], bytes_per_s=None, why="")
    assert "? / 50 MB/s" in text_of(broker_lines([row], 80, 5)[0])
    assert " ? " in text_of(broker_lines([replace(row, limit_bytes_per_s=None)], 80, 5)[0])


@pytest.mark.parametrize("width", [80, 120])
def test_broker_held_by_a_pause_is_shown_as_held_next_to_its_average(width: int) -> None:
    row = replace(a_run().brokers[0], bytes_per_s=744805.0, limit_bytes_per_s=1, why="")
    (line,) = broker_lines([replace(row, average_bytes_per_s=46.5e6)], width, 5)
    assert text_of(line).split()[-4:] == ["held", "avg", *format_rate(46.5e6).split()]
    assert "1 B/s" not in text_of(line)


def test_events_of_a_run_are_listed_newest_first() -> None:
    text = drawn(event_lines(a_run().events, 80, 5))
    assert text.index("orders-1 done") < text.index("journal opened")


def test_run_that_continues_without_the_screen_shows_how_to_attach() -> None:
    text = drawn(ending_lines(a_run(), 120, roomy=True))
    assert "The run goes on without this screen (pid 4711)" in text
    assert "trimtab runs attach 0101-021101" in text
    assert "trimtab runs attach 0101-021101" in drawn(ending_lines(a_run(), 80, roomy=False))


def test_dead_or_incomplete_run_shows_its_leftovers() -> None:
    rate = RateIntent(7, Side.LEADER, None, ConfigSource.DEFAULT, 50 * MB)
    lowered = LoweredRetention("orders", 3_600_000, "604800000")
    left = Leftovers(
        (tp("orders-2"),), (("orders", "leader", ("2:7",)),), (rate,), retention=(lowered,)
    )
    text = drawn(ending_lines(a_run(RunStatus.DIED, leftovers=left), 120, roomy=True))
    for words in (
        "(pid 4711) is gone",
        "In flight as it died: orders-2",
        "b7 leader 50 MB/s",
        "runs show",
        "orders 1 h 00 m",
    ):
        assert words in text
    gave_up = drawn(ending_lines(a_run(RunStatus.INCOMPLETE, leftovers=left), 120, roomy=True))
    assert "gave up" in gave_up
    assert text.splitlines()[2:] == gave_up.splitlines()[2:]
    nothing = a_run(RunStatus.DIED, leftovers=Leftovers())
    assert "It left nothing" in drawn(ending_lines(nothing, 120, roomy=True))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", list(RunStatus))
def test_run_page_never_exceeds_the_height_of_the_screen(
    size: tuple[int, int], state: RunStatus
) -> None:
    moves = tuple(a_move(f"t-{p}", MoveStatus.MOVING, p) for p in range(100))
    ended = at(3, 0) if state.ended else None
    run = a_run(state, moves=moves, ended_at=ended, events=a_run().events * 30)
    lines = run_lines(run, 70, size[0], size[1] - 2)
    assert len(lines) <= size[1] - 2
    assert "▸ t-70" in drawn(lines)
    assert "what happened" in drawn(lines)


def test_screen_without_a_run_in_progress_lists_runs_and_shows_how_to_start_one() -> None:
    now = at(4, 0)
    assert "reading" in drawn(runs_lines(None, 0, 0, now, 100, 30))
    assert "none yet" in drawn(runs_lines((), 0, 0, now, 100, 30))
    runs = (a_summary(), a_summary("0101-010000", state=RunStatus.DIED, done=1))
    text = drawn(runs_lines(runs, 0, 1, now, 120, 30))
    for words in (
        "Nothing is moving.",
        "√ done",
        "1 h 07 m",
        "its process died",
        "apply it with A",
    ):
        assert words in text


# -- the screen ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_screen_shows_the_run_and_follows_its_changes(size: tuple[int, int]) -> None:
    session = a_session()
    session.run = a_run()
    async with dashboard(session, "moves", size) as pilot:
        assert "● run 02:11Z" in body(pilot)
        assert "stuck 4 m" in body(pilot)
        await pressed(pilot, "j")
        assert "▸ orders-2" in body(pilot)
        assert "average" in body(pilot)
        await pilot.click(Page, offset=spot(pilot, "clicks-9"))
        await rested(pilot)
        assert "▸ clicks-9" in body(pilot)
        session.run = a_run(RunStatus.DONE, ended_at=at(3, 11, 1))
        pilot.app.draw()  # type: ignore[attr-defined]
        await rested(pilot)
        assert "√ run 02:11Z done" in body(pilot)


async def test_only_changed_cells_are_repainted() -> None:
    session = a_session()
    session.run = a_run()
    async with dashboard(session, "moves") as pilot:
        page = pilot.app.screen.query_one(Page)
        before = list(page._rows)
        moves = list(session.run.moves)
        moves[1] = replace(moves[1], left_seconds=1080.0)
        session.run = replace(session.run, moves=tuple(moves))
        pilot.app.draw()  # type: ignore[attr-defined]
        changed = [y for y, row in enumerate(page._rows) if row is not before[y]]
        assert len(changed) == 1
        assert sum(b - a for a, b in page._rows[changed[0]].changed_spans(before[changed[0]])) <= 2
