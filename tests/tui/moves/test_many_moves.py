"""Moves of a run that are marked are meant together; a rate may be one that adapts itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pictures import (
    GB,
    MB,
    SIZES,
    STATE,
    a_move,
    a_run,
    a_session,
    body,
    dashboard,
    footer,
    pressed,
)
from textual.widgets import Static

from core.run.control import SentRequest
from core.run.journal.rates import RateBounds
from core.run.reporting.views import MoveProgress, MoveStatus, RunView
from tui.moves import requests as module
from tui.moves.questions import cancel_some_question
from tui.moves.rate_dialog import RateDialog
from tui.moves.retarget_dialog import targets_of
from tui.plan.apply_options import AdaptRate
from tui.session import Session


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Record what would be asked for instead of asking."""
    calls: list[tuple[str, Any]] = []

    def ask(cluster_id: str, run: str, kind: str, payload: Mapping[str, Any]) -> SentRequest:
        calls.append((kind, dict(payload)))
        return SentRequest(run, len(calls), kind, waits=False)

    monkeypatch.setattr(module, "request", ask)
    return calls


def on(
    name: str, state: MoveStatus, before: tuple[int, ...], after: tuple[int, ...]
) -> MoveProgress:
    return replace(a_move(name, state, 1), before=before, after=after)


MOVES = (
    on("orders-0", MoveStatus.MOVING, (1, 2, 3), (4, 2, 3)),
    on("orders-1", MoveStatus.QUEUED, (1, 5, 6), (4, 5, 6)),
    on("clicks-0", MoveStatus.QUEUED, (1, 2, 6), (4, 2, 6)),
    on("orders-2", MoveStatus.DONE, (1, 2, 3), (4, 2, 3)),
)


def showing(**other: Any) -> Session:
    session = a_session()
    session.run = a_run(moves=MOVES, **other)
    return session


@pytest.mark.parametrize("size", SIZES)
async def test_marked_moves_are_cancelled_together(
    size: tuple[int, int], asked: list[tuple[str, Any]]
) -> None:
    async with dashboard(showing(), "moves", size) as pilot:
        await pressed(pilot, "space", "space")  # the cursor goes on by itself
        assert "▸*" not in body(pilot)
        assert body(pilot).count("\n *") == 2
        assert "c cancel 2…" in footer(pilot) or size[0] == 80
        await pressed(pilot, "c", "tab", "enter")
        assert asked == [("cancel", {"moves": [0, 2]})]
        assert "Asked to cancel 2 moves" in footer(pilot)
        assert "\n *" not in body(pilot)


async def test_of_the_marked_ones_those_are_skipped_that_have_not_begun(
    asked: list[tuple[str, Any]],
) -> None:
    async with dashboard(showing(), "moves") as pilot:
        await pressed(pilot, "v", "v", "v", "s")
        assert asked == [("skip", {"moves": [1, 2]})]


async def test_none_of_the_marked_ones_can_be_tried_again(asked: list[tuple[str, Any]]) -> None:
    async with dashboard(showing(), "moves") as pilot:
        await pressed(pilot, "space", "space", "a")
        assert "Of the 2 marked, each has neither failed" in footer(pilot)
        assert asked == []


async def test_escape_unmarks_and_another_run_has_no_marks(asked: list[tuple[str, Any]]) -> None:
    session = showing()
    async with dashboard(session, "moves") as pilot:
        await pressed(pilot, "space", "escape")
        assert "\n *" not in body(pilot)
        await pressed(pilot, "space")
        session.run = replace(a_run(moves=MOVES), run="0102-000000")
        pilot.app.draw()  # type: ignore[attr-defined]
        await pressed(pilot, "g", "c", "tab", "enter")
        assert asked == [("cancel", {"moves": [0]})]


async def test_marked_moves_go_elsewhere_together(asked: list[tuple[str, Any]]) -> None:
    moves = (MOVES[0], on("orders-2", MoveStatus.QUEUED, (4, 2, 3), (1, 2, 3)))
    session = a_session()
    session.run = a_run(moves=moves)
    async with dashboard(session, "moves") as pilot:
        await pressed(pilot, "space", "space", "m")
        title = str(pilot.app.screen.query_one(".title", Static).render())
        assert "for 2 moves" in title
        assert "instead of b1, b4" in title
        await pressed(pilot, "tab", "enter")
    assert asked == [
        ("retarget", {"move": 0, "after": [5, 2, 3], "allow": ["rack-spread"]}),
        ("retarget", {"move": 1, "after": [5, 2, 3], "allow": ["rack-spread"]}),
    ]


def test_a_broker_that_may_not_take_one_of_them_takes_none_and_says_which() -> None:
    load = a_session().load
    assert load is not None
    targets = targets_of(STATE, load, dict(enumerate(MOVES[:2])))
    refused = {c.broker: c.refused for c in targets.choices if c.refused}
    assert refused[5] == "orders-1: holds a replica already"
    assert refused[2] == "orders-0: holds a replica already"
    assert targets.request(1, 3)["after"] == [3, 5, 6]


def test_the_question_counts_what_is_lost_and_what_is_not_begun() -> None:
    said = " ".join(cancel_some_question(MOVES[:3]).words)
    assert "1 in flight go back" in said
    assert "1.0 GB" in said.replace("1 GB", "1.0 GB")
    assert "2 queued are not begun" in said


# -- adaptive ------------------------------------------------------------------------------------


def adaptive(run: RunView) -> RunView:
    return replace(run, bounds=RateBounds(5 * MB, 60 * MB), rate_bytes_per_s=60 * MB)


@pytest.mark.parametrize("size", SIZES)
async def test_an_adaptive_rate_is_asked_for(
    size: tuple[int, int], asked: list[tuple[str, Any]]
) -> None:
    async with dashboard(showing(), "moves", size) as pilot:
        await pressed(pilot, "plus", "a")
        dialog = pilot.app.screen
        assert isinstance(dialog, RateDialog)
        said = str(dialog.query_one("#table", Static).render())
        assert "▸   adaptive" in said
        await pressed(pilot, "enter")
    [(kind, payload)] = asked
    assert kind == "throttle"
    assert payload["auto"]["least_bytes_per_s"] < payload["auto"]["most_bytes_per_s"]


async def test_an_adaptive_run_says_so_and_may_be_given_a_fixed_rate(
    asked: list[tuple[str, Any]],
) -> None:
    session = showing()
    assert session.run is not None
    session.run = adaptive(session.run)
    async with dashboard(session, "moves", (200, 60)) as pilot:
        assert "adaptive, 5.0 MB/s to 60 MB/s" in body(pilot)
        await pressed(pilot, "plus", "a", "enter")
        assert asked == []
        await pressed(pilot, "escape", "minus", "enter")
    [(kind, payload)] = asked
    assert (kind, "rate_bytes_per_s" in payload) == ("throttle", True)


async def test_a_plan_is_applied_with_an_adaptive_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    def start(*arguments: Any) -> str:
        calls.append(arguments)
        return "0101-021101"

    monkeypatch.setattr("core.run.launch.start_run", start)
    async with dashboard(a_session(), "plan") as pilot:
        await pressed(pilot, "A", "tab", "space")
        assert pilot.app.screen.query_one(AdaptRate).ticked
        said = str(pilot.app.screen.query_one("#summary", Static).render())
        assert "adaptive, reckoned with" in said
        await pressed(pilot, *"prod-eu")
        await pressed(pilot, "enter", "enter")
    [(_, _, _, options, estimate)] = calls
    assert options.auto is not None
    least, most = options.auto.min_bytes_per_s, options.auto.max_bytes_per_s
    assert least <= options.rate_bytes_per_s <= most
    assert estimate["rate_bytes_per_s"] == options.rate_bytes_per_s
    assert most < GB
