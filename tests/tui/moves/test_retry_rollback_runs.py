"""A run that has ended is tried again, or rolled back, from the Moves: asked for like any plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from clusters import NOON, tp
from pictures import MB, STATE, a_move, a_run, a_session, at, dashboard, footer, label, pressed

from core.cluster.connect import Address
from core.plan.plan import Move, Plan
from core.run.journal.journal import Journal, journal_path
from core.run.journal.move_state import move_to_json
from core.run.journal.rates import RateBounds
from core.run.journal.records import Kind
from core.run.options import RunOptions, create_journal
from core.run.reporting.runs import read_journal
from core.run.reporting.views import MoveStatus, RunStatus
from tui.plan.apply import ApplyDialog
from tui.plan.apply_options import AdaptRate
from tui.session import Session

NAME = "prod-eu"
AUTO = RateBounds(5 * MB, 60 * MB)


@pytest.fixture
def ended() -> Session:
    """A run that gave orders-0 to broker 4, failed at orders-2, and never came to clicks-0."""
    return a_session_after(None)


def a_session_after(auto: RateBounds | None) -> Session:
    moves = (
        Move(tp("orders-0"), (4, 2, 3), (1, 2, 3)),
        Move(tp("orders-2"), (4, 2, 3), (1, 2, 3)),
        Move(tp("clicks-0"), (1, 2, 3), (1, 2, 6)),
    )
    options = RunOptions(50 * MB, cluster_name=NAME, auto=auto)
    cluster_id = STATE.cluster_id
    plan = Plan(cluster_id, moves)
    made = create_journal(Address("sim:x"), cluster_id, plan, options, None, at=NOON)
    with made as journal:
        phases = enumerate(("done", "failed", "cancelled"))
        ends = [{"index": i, "phase": p, "why": "", "leader": None} for i, p in phases]
        journal.write(NOON, Kind.MOVED, {"moves": ends, "stop": ""})
        journal.write(NOON, Kind.ENDED, {"outcome": "incomplete", "why": "as it is"})
        run = journal.path.stem
    session = a_session()
    session.run = read_journal(cluster_id, run).view
    return session


async def test_done_moves_are_rolled_back_at_the_rate_of_their_run(
    ended: Session, started: list[tuple[Any, ...]]
) -> None:
    plan = ended.plan
    async with dashboard(ended, "moves") as pilot:
        assert "R roll back…" in footer(pilot)
        await pressed(pilot, "R")
        dialog = pilot.app.screen
        assert isinstance(dialog, ApplyDialog)
        await pressed(pilot, *NAME)
        await pressed(pilot, "enter", "enter")
        assert type(pilot.app.screen).__name__ == "MovesScreen"
        assert "Run 0101-021101 has been started" in footer(pilot)
    [(_, _, back, options, estimate)] = started
    assert [(str(m.tp), m.before, m.after) for m in back] == [("orders-0", (1, 2, 3), (4, 2, 3))]
    assert options.rate_bytes_per_s == estimate["rate_bytes_per_s"] == 50 * MB
    assert options.auto is None
    assert ended.plan is plan


async def test_moves_that_no_longer_hold_are_reported_before_a_retry_is_confirmed(
    ended: Session, started: list[tuple[Any, ...]]
) -> None:
    async with dashboard(ended, "moves") as pilot:
        assert "a try again…" in footer(pilot)
        await pressed(pilot, "a")
        summary = label(pilot, "summary")
        assert "left out" in summary
        assert "clicks-0 has 1,2,6 already" in summary
        await pressed(pilot, *NAME)
        await pressed(pilot, "enter", "enter")
    [(_, _, again, *_)] = started
    assert [str(m.tp) for m in again] == ["orders-2"]


async def test_retry_is_refused_in_one_line_if_no_move_holds_any_more(
    ended: Session, started: list[tuple[Any, ...]]
) -> None:
    async with dashboard(ended, "moves") as pilot:
        await pressed(pilot, "j", "space", "a")  # clicks-0 alone, which is there by now
        assert "Nothing of it holds any more: clicks-0 has 1,2,6 already." in footer(pilot)
        assert not isinstance(pilot.app.screen, ApplyDialog)
    assert started == []


async def test_rollback_of_an_adaptive_run_is_adaptive_within_the_same_bounds(
    started: list[tuple[Any, ...]],
) -> None:
    async with dashboard(a_session_after(AUTO), "moves") as pilot:
        await pressed(pilot, "R")
        assert pilot.app.screen.query_one(AdaptRate).ticked
        await pressed(pilot, *NAME)
        await pressed(pilot, "enter", "enter")
    [(_, _, _, options, _)] = started
    assert options.auto.min_bytes_per_s == AUTO.min_bytes_per_s
    assert options.auto.max_bytes_per_s == AUTO.max_bytes_per_s


async def test_rollback_is_offered_from_the_history(
    ended: Session, started: list[tuple[Any, ...]]
) -> None:
    async with dashboard(ended, "moves") as pilot:
        await pressed(pilot, "o")
        assert "R roll back…" in footer(pilot)
        await pressed(pilot, "R")
        assert isinstance(pilot.app.screen, ApplyDialog)
        await pressed(pilot, "escape")
        assert started == []


async def test_history_offers_no_rollback_of_moves_already_rolled_back(ended: Session) -> None:
    cluster_id, run = STATE.cluster_id, ended.run.run if ended.run else ""
    with Journal.open(journal_path(cluster_id, run)) as journal:
        back = {
            "batch": 1,
            "role": "rollback",
            "instead_of": 0,
            **move_to_json(Move(tp("orders-0"), (1, 2, 3), (4, 2, 3))),
        }
        added = {"moves": [back], "refused": [], "rollback": True}
        journal.write(NOON, Kind.MOVES_ADDED, added)
        done = {"index": 3, "phase": "done", "why": "", "leader": None}
        journal.write(NOON, Kind.MOVED, {"moves": [done], "stop": ""})
        journal.write(NOON, Kind.ENDED, {"outcome": "cancelled", "why": ""})
    ended.run = read_journal(cluster_id, run).view
    async with dashboard(ended, "moves") as pilot:
        assert "roll back" not in footer(pilot)
        await pressed(pilot, "o")
        assert "a try again…" in footer(pilot)
        assert "roll back" not in footer(pilot)


async def test_read_only_session_opens_no_retry_or_rollback_dialog(ended: Session) -> None:
    ended.writable = False
    async with dashboard(ended, "moves") as pilot:
        for key in ("R", "a"):
            await pressed(pilot, key)
            assert not isinstance(pilot.app.screen, ApplyDialog)
            assert "Read-only" in footer(pilot)


async def test_rollback_is_refused_while_a_run_is_in_progress(ended: Session) -> None:
    async with dashboard(ended, "moves") as pilot:
        await pressed(pilot, "o")
        ended.run = a_run()
        await pressed(pilot, "R")
        assert not isinstance(pilot.app.screen, ApplyDialog)
        assert "is in progress" in footer(pilot)


async def test_run_with_all_moves_done_offers_no_retry() -> None:
    session = a_session()
    done = a_move("orders-0", MoveStatus.DONE, 100)
    session.run = replace(a_run(RunStatus.DONE, moves=(done,)), ended_at=at(3, 0))
    async with dashboard(session, "moves") as pilot:
        assert "try again" not in footer(pilot)
        assert "R roll back…" in footer(pilot)
