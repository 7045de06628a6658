"""Asking a run for something from the dashboard: what is asked, what is not, and by whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pictures import (
    GB,
    MB,
    STATE,
    a_move,
    a_run,
    a_session,
    at,
    body,
    button,
    dashboard,
    footer,
    label,
    pressed,
)
from textual.widgets import Label, Static

from core.errors import UsageError
from core.run.control import SentRequest
from core.run.journal.rates import RateBounds
from core.run.reporting.views import MoveProgress, MoveStatus, RunRequest, RunStatus, RunView
from core.units import UNLIMITED
from tui.app import FeedMessage
from tui.feed.events import RunChanged
from tui.moves import requests as module
from tui.moves.questions import cancel_question, cancel_some_question, roll_back_question
from tui.moves.rate_dialog import RateDialog, remaining_plan
from tui.moves.retarget_dialog import RetargetDialog, choices_of, replaceable_broker, targets_of
from tui.plan.apply_options import AdaptRate
from tui.session import Session

DIED = RunStatus.DIED
NAME = "prod-eu"


def on_state(state: MoveStatus, **other: Any) -> MoveProgress:
    """Return a move of a partition that the small cluster has."""
    return replace(a_move("orders-0", state, 1, before=(1, 2, 3), after=(4, 2, 3)), **other)


def showing(run: RunView | None = None, *, writable: bool = True) -> Session:
    session = a_session(writable=writable)
    session.run = run or a_run()
    return session


def only(*moves: MoveProgress, state: RunStatus = RunStatus.RUNNING) -> RunView:
    return a_run(state, moves=moves)


@pytest.mark.parametrize(
    ("key", "request_", "message"),
    [
        ("C", ("cancel", {"moves": None}), "Asked to cancel"),
        ("R", ("rollback", {}), "Asked to roll back"),
    ],
)
async def test_cancelling_or_rolling_back_a_run_requires_the_cluster_name(
    key: str,
    request_: tuple[str, Any],
    message: str,
    requested: list[tuple[str, Any]],
) -> None:
    async with dashboard(showing(), "moves") as pilot:
        await pressed(pilot, key, "enter")
        await pressed(pilot, key, "escape")
        await pressed(pilot, key, *"prod-e")
        assert button(pilot, "yes").disabled
        await pressed(pilot, "u")
        assert not button(pilot, "yes").disabled
        assert requested == []
        await pressed(pilot, "enter", "enter")
        assert requested == [request_]
        assert message in footer(pilot)


@pytest.mark.parametrize(
    ("keys", "floor"), [(("tab", "enter"), False), (("tab", "tab", "enter"), True)]
)
async def test_pause_dialog_offers_to_hold_moves_in_flight(
    keys: tuple[str, ...], floor: bool, requested: list[tuple[str, Any]]
) -> None:
    async with dashboard(showing(), "moves") as pilot:
        await pressed(pilot, "P", "enter")
        await pressed(pilot, "P", "escape")
        assert requested == []
        await pressed(pilot, "P", *keys)
        assert requested == [("pause", {"floor": floor})]


async def test_run_without_a_throttle_can_be_paused_but_not_held() -> None:
    run = a_run(rate_bytes_per_s=UNLIMITED)
    async with dashboard(showing(run), "moves") as pilot:
        await pressed(pilot, "P")
        assert button(pilot, "floor").disabled
        assert not button(pilot, "yes").disabled
        why = str(pilot.app.screen.query_one(".refused", Label).render())
        assert "has no throttle" in why


async def test_pause_key_resumes_a_paused_run(requested: list[tuple[str, Any]]) -> None:
    itself = a_run(RunStatus.PAUSED, why="its throttles go")
    async with dashboard(showing(itself), "moves") as pilot:
        assert "P resume" in footer(pilot)
        assert "PAUSED" in body(pilot)
        await pressed(pilot, "P")
        assert requested == [("resume", {})]


@pytest.mark.parametrize(
    ("key", "state", "request_"),
    [
        ("s", MoveStatus.QUEUED, ("skip", {"moves": [1]})),
        ("a", MoveStatus.FAILED, ("retry", {"moves": [1]})),
        ("a", MoveStatus.SKIPPED, ("retry", {"moves": [1]})),
    ],
)
async def test_single_move_is_skipped_or_retried(
    key: str, state: MoveStatus, request_: tuple[str, Any], requested: list[tuple[str, Any]]
) -> None:
    run = only(a_move("b-0", MoveStatus.DONE, 100), on_state(state))
    async with dashboard(showing(run), "moves") as pilot:
        await pressed(pilot, key)
        assert requested == [request_]


@pytest.mark.parametrize("state", [MoveStatus.MOVING, MoveStatus.QUEUED])
async def test_single_move_is_cancelled_after_confirmation(
    state: MoveStatus, requested: list[tuple[str, Any]]
) -> None:
    async with dashboard(showing(only(on_state(state))), "moves") as pilot:
        await pressed(pilot, "c", "enter")
        assert requested == []
        await pressed(pilot, "c", "right", "enter")
        assert requested == [("cancel", {"moves": [0]})]


@pytest.mark.parametrize(
    ("key", "state", "message"),
    [
        ("c", MoveStatus.DONE, "cannot be cancelled"),
        ("s", MoveStatus.MOVING, "cannot be skipped"),
        ("a", MoveStatus.MOVING, "has neither failed"),
        ("m", MoveStatus.DONE, "has moved already"),
    ],
)
async def test_request_invalid_in_the_state_of_a_move_is_reported_and_not_sent(
    key: str, state: MoveStatus, message: str, requested: list[tuple[str, Any]]
) -> None:
    async with dashboard(showing(only(on_state(state))), "moves") as pilot:
        await pressed(pilot, key)
        assert message in footer(pilot)
        assert requested == []


@pytest.mark.parametrize("key", ["P", "plus", "minus", "c", "C", "R", "s", "a", "m"])
async def test_read_only_session_sends_no_request_and_shows_why(
    key: str, requested: list[tuple[str, Any]]
) -> None:
    async with dashboard(showing(writable=False), "moves") as pilot:
        await pressed(pilot, key)
        assert "Read-only: start with --write" in footer(pilot)
        await pressed(pilot, *NAME, "enter", "enter")
        assert requested == []


async def test_ended_run_is_sent_no_request(requested: list[tuple[str, Any]]) -> None:
    run = a_run(RunStatus.DONE, ended_at=at(3, 0))
    async with dashboard(showing(run), "moves") as pilot:
        await pressed(pilot, "C")
        assert "has ended" in footer(pilot)
        assert "P pause" not in footer(pilot)


async def test_runs_not_yet_known_are_not_reported_as_no_run_in_progress(
    requested: list[tuple[str, Any]],
) -> None:
    session = a_session()
    session.runs_known = False
    async with dashboard(session, "moves") as pilot:
        for key in ("C", "B"):
            await pressed(pilot, key)
            assert "are being looked for" in footer(pilot)
        pilot.app.post_message(FeedMessage(RunChanged(None)))
        for key in ("C", "B"):
            await pressed(pilot, key)
            assert "No run is in progress" in footer(pilot)
    assert requested == []


async def test_refused_or_failed_request_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [UsageError("Run 0101-021101 has ended: done."), OSError(28, "The disk is full")]

    def refuse(*_: Any) -> SentRequest:
        raise errors[0]

    monkeypatch.setattr(module, "request", refuse)
    async with dashboard(showing(a_run(RunStatus.PAUSED)), "moves") as pilot:
        await pressed(pilot, "P")
        assert "has ended" in footer(pilot)
        errors.pop(0)
        await pressed(pilot, "P")
        assert "The disk is full" in footer(pilot)


# -- slower and faster ---------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "factor"), [("plus", 2), ("minus", 0.4)])
async def test_rate_is_chosen_from_a_table_of_the_time_left_at_each_rate(
    key: str, factor: float, requested: list[tuple[str, Any]]
) -> None:
    run = only(on_state(MoveStatus.MOVING))
    async with dashboard(showing(run), "moves") as pilot:
        await pressed(pilot, key)
        assert isinstance(pilot.app.screen, RateDialog)
        table = str(pilot.app.screen.query_one("#table", Static).render())
        assert "50 MB/s a side" in table
        assert "about" in table
        assert "left" in table
        await pressed(pilot, "enter")
        assert requested == [("throttle", {"rate_bytes_per_s": int(50 * MB * factor)})]


async def test_rate_already_in_effect_cannot_be_requested(requested: list[tuple[str, Any]]) -> None:
    async with dashboard(showing(only(on_state(MoveStatus.MOVING))), "moves") as pilot:
        await pressed(pilot, "plus", "up")
        assert button(pilot, "yes").disabled
        await pressed(pilot, "escape")
        assert requested == []


def test_remaining_plan_has_only_moves_that_have_not_ended() -> None:
    moves = (on_state(MoveStatus.DONE), on_state(MoveStatus.QUEUED), on_state(MoveStatus.FAILED))
    assert len(remaining_plan(only(*moves))) == 1


# -- another destination -------------------------------------------------------------------------


def test_brokers_that_may_not_take_a_move_cannot_be_chosen() -> None:
    session = a_session()
    assert session.load is not None
    choices = choices_of(STATE, session.load, on_state(MoveStatus.STUCK), 4)
    assert {c.broker: c.refused for c in choices if c.refused} == {
        1: "comes from there: cancel it instead",
        2: "holds a replica already",
        3: "holds a replica already",
        4: "it goes there already",
    }
    assert [c.after for c in choices if not c.refused] == [(5, 2, 3), (6, 2, 3)]
    assert all(c.doubt for c in choices[:2])  # both lose a rack


def test_dead_destination_broker_is_replaced_before_live_ones() -> None:
    brokers = [replace(b, alive=b.id != 5) for b in STATE.brokers]
    move = on_state(MoveStatus.STUCK, after=(4, 5, 3))
    assert replaceable_broker(STATE.with_brokers(brokers), move) == 5
    assert replaceable_broker(STATE, move) == 4


async def test_move_is_retargeted_to_another_broker(requested: list[tuple[str, Any]]) -> None:
    async with dashboard(showing(only(on_state(MoveStatus.STUCK))), "moves") as pilot:
        await pressed(pilot, "m")
        assert isinstance(pilot.app.screen, RetargetDialog)
        await pressed(pilot, "enter")
        assert requested == []
        await pressed(pilot, "m", "j", "j", "j", "right", "enter")
        allowed = {"move": 0, "after": [6, 2, 3], "allow": ["rack-spread"]}
        assert requested == [("retarget", allowed)]


# -- while the process is down -------------------------------------------------------------------


async def test_request_to_a_dead_run_is_shown_as_waiting_for_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = SentRequest("0101-021101", 1, "cancel", is_waiting=True)
    monkeypatch.setattr(module, "request", lambda *_: waits)
    waiting = RunRequest(at(2, 30), "cancel", "cancel orders-3", "ann on here", taken=False)
    run = a_run(DIED, requests=(waiting,), why="its process (pid 4711) has died")
    async with dashboard(showing(run), "moves") as pilot:
        assert "its process died" in body(pilot)
        assert "B brings it back" in body(pilot)
        assert "1 asked, waiting until its process is back: cancel orders-3" in body(pilot)
        await pressed(pilot, "C", *NAME, "enter", "enter")
        assert "waits until the process is back" in footer(pilot)


async def test_dead_run_is_recovered_after_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    back: list[tuple[str, str]] = []
    monkeypatch.setattr(module, "recover", lambda c, r, address: back.append((c, r)))
    async with dashboard(showing(a_run(DIED)), "moves") as pilot:
        assert "B bring back" in footer(pilot)
        await pressed(pilot, "B", "enter")
        assert back == []
        await pressed(pilot, "B", "tab", "enter")
        assert back == [("test-cluster", "0101-021101")]
        assert "is back" in footer(pilot)


async def test_live_run_is_not_recovered() -> None:
    async with dashboard(showing(), "moves") as pilot:
        await pressed(pilot, "B")
        assert "nothing to bring back" in footer(pilot)


def test_cancel_and_rollback_questions_report_lost_and_kept_moves() -> None:
    question = " ".join(cancel_question(a_run()).words)
    for words in ("2 in flight go back", "26 GB that were copied are dropped", "1 done stay"):
        assert words in question
    question = " ".join(roll_back_question(a_run()).words)
    for words in ("1 done move back", "100 GB to copy again", "2 in flight go back"):
        assert words in question


# -- several moves -------------------------------------------------------------------------------

MOVES = tuple(
    a_move(name, state, 1, before=before, after=(4, *before[1:]))
    for name, state, before in (
        ("orders-0", MoveStatus.MOVING, (1, 2, 3)),
        ("orders-1", MoveStatus.QUEUED, (1, 5, 6)),
        ("clicks-0", MoveStatus.QUEUED, (1, 2, 6)),
        ("orders-2", MoveStatus.DONE, (1, 2, 3)),
    )
)


async def test_marked_moves_are_cancelled_together(requested: list[tuple[str, Any]]) -> None:
    async with dashboard(showing(only(*MOVES)), "moves") as pilot:
        await pressed(pilot, "space", "space")  # the cursor goes on by itself
        assert "▸*" not in body(pilot)
        assert body(pilot).count("\n *") == 2
        assert "c cancel 2…" in footer(pilot)
        await pressed(pilot, "c", "tab", "enter")
        assert requested == [("cancel", {"moves": [0, 2]})]
        assert "Asked to cancel 2 moves" in footer(pilot)
        assert "\n *" not in body(pilot)


async def test_only_marked_moves_that_have_not_begun_are_skipped(
    requested: list[tuple[str, Any]],
) -> None:
    async with dashboard(showing(only(*MOVES)), "moves") as pilot:
        await pressed(pilot, "v", "v", "v", "s")
        assert requested == [("skip", {"moves": [1, 2]})]


async def test_retry_of_marked_moves_is_refused_if_none_can_be_retried(
    requested: list[tuple[str, Any]],
) -> None:
    async with dashboard(showing(only(*MOVES)), "moves") as pilot:
        await pressed(pilot, "space", "space", "a")
        assert "Of the 2 marked, each has neither failed" in footer(pilot)
        assert requested == []


async def test_escape_unmarks_and_another_run_has_no_marks(
    requested: list[tuple[str, Any]],
) -> None:
    session = showing(only(*MOVES))
    async with dashboard(session, "moves") as pilot:
        await pressed(pilot, "space", "escape")
        assert "\n *" not in body(pilot)
        await pressed(pilot, "space")
        session.run = replace(a_run(moves=MOVES), run="0102-000000")
        pilot.app.draw()  # type: ignore[attr-defined]
        await pressed(pilot, "g", "c", "tab", "enter")
        assert requested == [("cancel", {"moves": [0]})]


async def test_marked_moves_are_retargeted_together(requested: list[tuple[str, Any]]) -> None:
    moves = (MOVES[0], a_move("orders-2", MoveStatus.QUEUED, 1, before=(4, 2, 3), after=(1, 2, 3)))
    async with dashboard(showing(only(*moves)), "moves") as pilot:
        await pressed(pilot, "space", "space", "m")
        title = str(pilot.app.screen.query_one(".title", Static).render())
        assert "for 2 moves" in title
        assert "instead of b1, b4" in title
        await pressed(pilot, "tab", "enter")
    assert requested == [
        ("retarget", {"move": 0, "after": [5, 2, 3], "allow": ["rack-spread"]}),
        ("retarget", {"move": 1, "after": [5, 2, 3], "allow": ["rack-spread"]}),
    ]


def test_broker_refused_for_one_marked_move_is_refused_for_all_and_the_move_named() -> None:
    load = a_session().load
    assert load is not None
    targets = targets_of(STATE, load, dict(enumerate(MOVES[:2])))
    refused = {c.broker: c.refused for c in targets.choices if c.refused}
    assert refused[5] == "orders-1: holds a replica already"
    assert refused[2] == "orders-0: holds a replica already"
    assert targets.request(1, 3)["after"] == [3, 5, 6]


def test_cancel_question_counts_lost_bytes_and_moves_not_begun() -> None:
    question = " ".join(cancel_some_question(MOVES[:3]).words)
    assert "1 in flight go back" in question
    assert "1.0 GB" in question.replace("1 GB", "1.0 GB")
    assert "2 queued are not begun" in question


# -- adaptive ------------------------------------------------------------------------------------


async def test_adaptive_rate_is_requested(requested: list[tuple[str, Any]]) -> None:
    async with dashboard(showing(only(*MOVES)), "moves") as pilot:
        await pressed(pilot, "plus", "a")
        dialog = pilot.app.screen
        assert isinstance(dialog, RateDialog)
        table = str(dialog.query_one("#table", Static).render())
        assert "▸   adaptive" in table
        await pressed(pilot, "enter")
    [(kind, payload)] = requested
    assert kind == "throttle"
    assert payload["auto"]["least_bytes_per_s"] < payload["auto"]["most_bytes_per_s"]


async def test_adaptive_run_shows_its_bounds_and_may_be_given_a_fixed_rate(
    requested: list[tuple[str, Any]],
) -> None:
    run = replace(only(*MOVES), bounds=RateBounds(5 * MB, 60 * MB), rate_bytes_per_s=60 * MB)
    async with dashboard(showing(run), "moves", (200, 60)) as pilot:
        assert "adaptive, 5.0 MB/s to 60 MB/s" in body(pilot)
        await pressed(pilot, "plus", "a", "enter")
        assert requested == []
        await pressed(pilot, "escape", "minus", "enter")
    [(kind, payload)] = requested
    assert (kind, "rate_bytes_per_s" in payload) == ("throttle", True)


async def test_a_plan_is_applied_with_an_adaptive_rate(started: list[tuple[Any, ...]]) -> None:
    async with dashboard(a_session(), "plan") as pilot:
        await pressed(pilot, "A", "tab", "space")
        assert pilot.app.screen.query_one(AdaptRate).ticked
        summary = label(pilot, "summary")
        assert "adaptive, reckoned with" in summary
        await pressed(pilot, *"prod-eu")
        await pressed(pilot, "enter", "enter")
    [(_, _, _, options, estimate)] = started
    assert options.auto is not None
    least, most = options.auto.min_bytes_per_s, options.auto.max_bytes_per_s
    assert least <= options.rate_bytes_per_s <= most
    assert estimate["rate_bytes_per_s"] == options.rate_bytes_per_s
    assert most < GB
