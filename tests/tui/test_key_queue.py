"""Keys typed faster than the dashboard draws reach what they were meant for, in their order."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from hands import character, key_name, rested
from pictures import a_run, a_session, dashboard
from textual.events import Event, Key, Paste
from textual.pilot import Pilot
from textual.widgets import Button, Input

from tui.app import TrimtabApp
from tui.dialogs.base import AskDialog, ConfirmDialog, Dialog, Question
from tui.map.screen import MapScreen
from tui.moves.screen import MovesScreen
from tui.plan.apply import ApplyDialog
from tui.plan.screen import PlanScreen


@pytest.fixture(params=[0.0, 0.05], ids=["quick", "slow"], autouse=True)
def slow_dialogs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each dialog take a while to have its fields, as on a busy machine."""

    async def on_compose(self: Dialog[Any]) -> None:
        await asyncio.sleep(request.param)

    monkeypatch.setattr(Dialog, "_on_compose", on_compose, raising=False)


async def type_at_once(pilot: Pilot[int], *keys: str | Event) -> None:
    """Type all of it at once, before the dashboard handles any."""
    app = cast(TrimtabApp, pilot.app)
    for key in keys:
        event = Key(key_name(key), character(key)) if isinstance(key, str) else key
        app.post_message(event)
    await pilot.pause()
    while app.key_queue.busy:
        await asyncio.sleep(0.001)
    await rested(pilot)


async def test_cluster_name_entered_right_after_the_apply_key_reaches_the_apply_dialog() -> None:
    session = a_session()
    async with dashboard(session, "plan") as pilot:
        await type_at_once(pilot, "A", "tab", *session.cluster_name, "enter")
        dialog = pilot.app.screen
        assert isinstance(dialog, ApplyDialog)
        assert dialog.entered_name == session.cluster_name
        assert pilot.app.focused is dialog.query_one("#apply", Button)


async def test_keys_after_escape_or_cancel_in_a_dialog_go_to_the_screen() -> None:
    async with dashboard(a_session(), "plan") as pilot:
        await type_at_once(pilot, "A", "x", "escape", "1")
        assert isinstance(pilot.app.screen, MapScreen)
        # enter takes Cancel, which is focused
        await type_at_once(pilot, "2", "A", "enter", "1", "2")
        assert isinstance(pilot.app.screen, PlanScreen)


async def test_dialog_opened_by_the_answer_to_another_receives_the_keys_that_follow() -> None:
    async with dashboard(a_session(), "map") as pilot:
        answers: list[Any] = []

        def answer(yes: bool | None) -> None:
            answers.append(yes)
            pilot.app.push_screen(AskDialog("How often?", "", "Go"), answers.append)

        pilot.app.push_screen(
            ConfirmDialog("Again?", lambda _: Question(()), no="No", yes="Yes"), answer
        )
        await type_at_once(pilot, "right", "enter", "4", Paste("2"), "0", "enter", "2")
        assert answers == [True, "420"]
        assert isinstance(pilot.app.screen, PlanScreen)


async def test_keys_entered_into_a_field_keep_their_order() -> None:
    async with dashboard(a_session(), "map") as pilot:
        pilot.app.push_screen(AskDialog("What?", "", "Go"))
        await type_at_once(pilot, *"abc", "left", "left", "x", "backspace", "y")
        assert pilot.app.screen.query_one(Input).value == "aybc"


async def test_words_entered_right_after_the_key_that_opens_a_filter_reach_the_filter() -> None:
    session = a_session()
    session.run = a_run()
    async with dashboard(session, "moves") as pilot:
        await type_at_once(pilot, "l", "/", *"q1j")
        screen = pilot.app.screen
        assert isinstance(screen, MovesScreen)
        assert screen.words == "q1j"
