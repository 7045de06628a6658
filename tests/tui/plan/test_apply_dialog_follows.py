"""The Apply dialog left open: it goes with the cluster, and applies nothing else than was read."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from clusters import tp
from hands import rested
from pictures import (
    GB,
    MB,
    SIZES,
    STATE,
    Clock,
    a_run,
    a_session,
    at,
    button,
    dashboard,
    down,
    grown,
    label,
    picture,
    pressed,
    publish_events_later,
)
from textual.pilot import Pilot
from textual.widgets import Input, Label

from core.errors import TrimtabError, UnreachableError
from core.plan.plan import Plan
from core.run.reporting.views import RunStatus
from tui.app import FeedMessage
from tui.feed.events import ClusterLost, Event, RunChanged
from tui.plan import apply_options as options_module
from tui.plan.apply import ApplyDialog
from tui.plan.apply_options import AllowCheck
from tui.session import Session


@asynccontextmanager
async def opened(
    size: tuple[int, int] = (80, 24), session: Session | None = None
) -> AsyncIterator[Pilot[int]]:
    """Open the dialog on a plan of 30 GB."""
    async with dashboard(session or a_session(), "plan", size, monotonic=Clock()) as pilot:
        await pressed(pilot, "A")
        assert isinstance(pilot.app.screen, ApplyDialog)
        yield pilot


async def allowed(pilot: Pilot[int]) -> AllowCheck:
    """Tick all that has to be allowed; return the first, which has the focus."""
    first, *others = pilot.app.screen.query(AllowCheck)
    for allow in (*others, first):
        allow.focus()
        await pressed(pilot, "space")
    return first


@pytest.mark.parametrize("size", SIZES)
async def test_growth_since_the_dialog_opened_is_reported_and_applied(
    size: tuple[int, int], started: list[tuple[Any, ...]]
) -> None:
    async with opened(size) as pilot:
        assert "since" not in label(pilot, "summary")
        await pressed(pilot, *"prod-e")
        await publish_events_later(pilot, picture(grown(4)))
        field = pilot.app.screen.query_one("#name", Input)
        assert (field.value, pilot.app.focused) == ("prod-e", field), "nothing typed is lost"
        assert "30 GB → 120 GB" in label(pilot, "summary")
        assert "120 GB to copy" in label(pilot, "summary")
        await pressed(pilot, "u", "enter", "enter")
    [(_, _, _, options, estimate)] = started
    assert estimate["total_bytes"] == 120 * GB
    assert options.rate_bytes_per_s == estimate["rate_bytes_per_s"] == 100 * MB, "as it was read"


async def test_negligible_growth_is_not_reported() -> None:
    async with opened() as pilot:
        await publish_events_later(pilot, picture(grown(1.001)))
        assert "since" not in label(pilot, "summary")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_broker_dying_while_the_dialog_is_open_is_reported_and_must_be_allowed(
    size: tuple[int, int], started: list[tuple[Any, ...]]
) -> None:
    async with opened(size) as pilot:
        await pressed(pilot, *"prod-eu")
        assert not button(pilot, "apply").disabled
        await publish_events_later(pilot, picture(down([4])))
        assert "broker 4 went down" in label(pilot, "summary")
        assert button(pilot, "apply").disabled
        allow = await allowed(pilot)
        assert allow.finding.about[:2] == ("dead-broker", 4)
        assert not button(pilot, "apply").disabled
        await publish_events_later(pilot, picture(grown(1.2, down([4]))))
        assert (allow.ticked, pilot.app.focused) == (True, allow), "only numbers have changed"
        await publish_events_later(pilot, picture(STATE))
        assert not pilot.app.screen.query(AllowCheck)
        assert "went down" not in label(pilot, "summary")
        assert not button(pilot, "apply").disabled
    assert not started


async def test_allowed_finding_is_unticked_when_it_comes_to_include_another_broker() -> None:
    plan = Plan().with_move(STATE, tp("orders-0"), 1, 4).with_move(STATE, tp("orders-1"), 1, 3)
    session = a_session(plan)
    session.state = down([4])
    async with opened(session=session) as pilot:
        allow = await allowed(pilot)
        await pressed(pilot, *"prod-eu")
        assert not button(pilot, "apply").disabled
        await publish_events_later(pilot, picture(down([3, 4])))
        assert not allow.ticked
        assert "Broker 3" in allow.sentence
        assert "Broker 4" in allow.sentence
        assert button(pilot, "apply").disabled
        assert "allow dead-broker" in label(pilot, "problem")


async def test_apply_pressed_as_the_cluster_changes_starts_only_if_nothing_got_worse(
    started: list[tuple[Any, ...]],
) -> None:
    session = a_session()
    async with opened(session=session) as pilot:
        await pressed(pilot, *"prod-eu", "enter")
        assert pilot.app.focused is button(pilot, "apply")
        session.state = down([4])  # seen, and not yet assessed
        await pressed(pilot, "enter")
        assert started == []
        problem = label(pilot, "problem")
        assert "dead-broker" in problem
        assert button(pilot, "apply").disabled
        session.state = grown(1.01)
        await publish_events_later(pilot, picture(session.state))
        await pressed(pilot, "enter")
        session.state = grown(1.02)
        await pressed(pilot, "enter")
    assert len(started) == 1, "what has not become worse is applied"


@pytest.mark.parametrize(
    ("meanwhile", "words"),
    [
        (("backspace",), ""),
        (("escape",), None),
        (RunChanged(a_run()), "0101-021101"),
    ],
    ids=["the name is edited", "the dialog is left", "somebody else's run begins"],
)
async def test_pressed_apply_is_cancelled_by_an_edit_escape_or_another_run_while_reassessing(
    meanwhile: tuple[str, ...] | Event,
    words: str | None,
    started: list[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assessed, may_end = options_module.assess_plan, threading.Event()
    may_end.set()

    def assess_plan(*arguments: Any, **more: Any) -> Any:
        assert may_end.wait(60)
        return assessed(*arguments, **more)

    monkeypatch.setattr(options_module, "assess_plan", assess_plan)
    session = a_session()
    async with opened(session=session) as pilot:
        await pressed(pilot, *"prod-eu", "enter")
        dialog, problem = pilot.app.screen, pilot.app.screen.query_one("#problem", Label)
        session.state = grown(1.02)
        may_end.clear()
        await pilot.press("enter")
        assert "looking once more" in str(problem.render())
        if isinstance(meanwhile, tuple):
            await pilot.press(*meanwhile)
        else:
            pilot.app.post_message(FeedMessage(meanwhile))
            await pilot.pause()
        may_end.set()
        await rested(pilot)
        assert (pilot.app.screen is dialog) is (words is not None)
        if words is not None:
            assert words in str(problem.render())
            assert "looking" not in str(problem.render())
            assert button(pilot, "apply").disabled
    assert started == []


async def test_plan_that_could_not_be_assessed_is_not_applied_until_it_can_be(
    started: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assessed, failing, failed = options_module.assess_plan, False, 0

    def assess_plan(*arguments: Any, **more: Any) -> Any:
        nonlocal failed
        if failing:
            failed += 1
            raise TrimtabError("No rate can be reckoned.")
        return assessed(*arguments, **more)

    monkeypatch.setattr(options_module, "assess_plan", assess_plan)
    session = a_session()
    async with opened(session=session) as pilot:
        await pressed(pilot, *"prod-eu", "enter")
        failing, session.state = True, grown(1.2)
        await pressed(pilot, "enter")
        assert "No rate can be reckoned." in label(pilot, "problem")
        assert button(pilot, "apply").disabled
        await publish_events_later(pilot, picture(session.state), picture(grown(1.201)))
        assert failed == 1, "it would come to the same"
        await publish_events_later(pilot, picture(grown(1.25)))
        assert (failed, len(session.troubles)) == (2, 1)
        failing = False
        await publish_events_later(pilot, picture(grown(1.3)))
        assert label(pilot, "problem") == ""
        assert not button(pilot, "apply").disabled
    assert started == []


@pytest.mark.parametrize(
    ("event", "words", "over"),
    [
        (RunChanged(a_run()), "0101-021101", RunChanged(a_run(RunStatus.DONE, ended_at=at(3, 0)))),
        (ClusterLost(UnreachableError("No broker answers.")), "No broker answers.", picture(STATE)),
    ],
    ids=["a run of somebody else", "the cluster is lost"],
)
async def test_what_forbids_every_run_is_reported_until_it_is_over(
    event: Event, words: str, over: Event, started: list[tuple[Any, ...]]
) -> None:
    async with opened() as pilot:
        await pressed(pilot, *"prod-eu", "enter")
        await publish_events_later(pilot, event)
        assert words in label(pilot, "problem")
        assert button(pilot, "apply").disabled
        await pressed(pilot, "enter")
        assert started == []
        await publish_events_later(pilot, over)
        assert label(pilot, "problem") == ""
        assert not button(pilot, "apply").disabled


async def test_open_dialog_is_not_redrawn_where_nothing_shown_has_changed() -> None:
    async with opened() as pilot:
        drawn: list[str] = []
        screen = pilot.app.screen
        assert isinstance(screen, ApplyDialog)
        put = screen.put

        def counted(id: str, lines: Any) -> None:
            drawn.append(id)
            put(id, lines)

        screen.put = counted  # type: ignore[method-assign]
        for times in (1.0001, 1.0002, 1.0003):
            await publish_events_later(pilot, picture(grown(times)))
        assert drawn == []
