"""Moves that share a limit take turns: one that gets nothing meanwhile waits, and is not stuck."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from journal_records import LIMIT, Course, records, samples
from run_help import MB, Start, cluster, spend, submitted

from core.run.journal.replay import fold
from core.run.reporting.alerts import NoticeTracker
from core.run.reporting.progress import run_view
from core.run.reporting.stuck_moves import waiting_their_turn
from core.run.reporting.views import MoveStatus, RunView

WAITS = "waits its turn: b5 is at its limit"


def full(second: int) -> int:
    return second * LIMIT


def bursts(second: int) -> int:
    """A window's worth each twelve seconds, as quotas let it through."""
    return (1 + second // 12) * 12 * LIMIT


def slow(second: int) -> int:
    return second * LIMIT // 4


def nothing(_: int) -> int:
    return MB


def until(last: int, course: Course) -> Course:
    return lambda second: course(min(second, last))


CASES: dict[str, tuple[Sequence[int], Sequence[int], Sequence[Course], tuple[int, ...], str]] = {
    "others have the destination's limit": ((1, 2), (5, 5), (full, nothing), (), WAITS),
    "they have it in bursts": ((1, 2), (5, 5), (bursts, nothing), (), WAITS),
    "others have the leader's limit": (
        *((1, 1), (4, 5), (full, nothing), ()),
        "waits its turn: b1 is at its limit",
    ),
    "the limit is far from used": ((1, 2), (5, 5), (slow, nothing), (), "no byte has come"),
    "somewhere else they have it": ((1, 2), (4, 5), (full, nothing), (), "no byte has come"),
    "it is alone": ((1,), (5,), (nothing,), (), "no byte has come"),
    "all stopped alike": ((1, 2), (5, 5), (until(20, full), nothing), (), "no byte has come"),
    "its fetcher passes it over": ((1, 1), (5, 5), (full, nothing), (), "no byte has come"),
    "its leader died": ((1, 2), (5, 5), (full, nothing), (2,), "b2, its leader, is down"),
    "its destination died": ((1, 2), (5, 5), (full, nothing), (5,), "b5 is down"),
}


@pytest.mark.parametrize(("leaders", "to", "courses", "down", "why"), CASES.values(), ids=CASES)
def test_move_waiting_its_turn_is_distinguished_from_a_stuck_move(
    leaders: Sequence[int],
    to: Sequence[int],
    courses: Sequence[Course],
    down: tuple[int, ...],
    why: str,
) -> None:
    journal, seen = records(leaders, to), samples(leaders, *courses, down=down)
    view = run_view(journal, seen, living=True)
    last = view.moves[-1]
    waits = "its turn" in why
    assert ((len(to) - 1) in waiting_their_turn(fold(journal), seen)) == waits
    assert (last.state, last.why) == (MoveStatus.MOVING if waits else MoveStatus.STUCK, why)
    assert (last.left_seconds is not None) == waits, "it is told when its turn will have come"


def test_move_without_bytes_for_less_than_a_quota_window_is_not_stuck() -> None:
    leaders = (1, 2)
    seen = run_view(records(leaders, (5, 5)), samples(leaders, full, until(50, slow)), living=True)
    assert (seen.moves[1].state, seen.moves[1].why) == (MoveStatus.MOVING, "")


def test_move_waiting_minutes_for_its_turn_proceeds_without_a_notice(start: Start) -> None:
    """Broker 3 follows a partition of 1 already: its fetcher there is back sooner each time."""
    run = start(
        cluster({"t": [(1, 2), (2, 1)], "u": [(1, 3)]}, size_bytes=40 * MB),
        {("t", 0): (3, 2), ("t", 1): (3, 1)},
        rate=MB // 2,
    )
    seen: list[RunView] = []
    notices = NoticeTracker()
    run.until(submitted)
    while run.state.ended is None:
        spend(run, 5)
        seen.append(run.view())
        notice = notices.update(seen[-1])
        assert notice is None or seen[-1].state.ended
    waiting = [m for view in seen for m in view.moves if m.why.startswith("waits its turn: b3")]
    assert waiting, "the case is one in which somebody waits"
    assert {m.state for m in waiting} == {MoveStatus.MOVING}
    assert all(view.stuck == 0 for view in seen)
    assert seen[-1].done == 2
