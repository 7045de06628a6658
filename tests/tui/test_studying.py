"""The Plan is studied by one worker at a time, however long that takes and whatever is edited."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hands import rested
from pictures import a_session, body, dashboard, pressed

from core.plan.plan import Plan
from tui.app import TrimtabApp
from tui.screens import plan as plan_module
from tui.screens.studying import SupersededError
from tui.study import Study, study


class Slow:
    """Studies as the real one does, once it is let go; says of each whether it was given up."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.asked: list[int] = []
        """How many moves each plan had."""
        self.given_up: list[int] = []

    def study(self, state: Any, load: Any, plan: Plan, *rest: Any, **more: Any) -> Study:
        self.asked.append(len(plan))
        go_on: Callable[[], None] = more["go_on"]
        deadline = time.monotonic() + 60
        try:
            while not self.may_end.wait(0.005):
                assert time.monotonic() < deadline
                go_on()
        except SupersededError:
            self.given_up.append(len(plan))
            raise
        return study(state, load, plan, *rest, **more)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    slow = Slow()
    monkeypatch.setattr(plan_module, "study", slow.study)
    return slow


async def test_a_plan_that_is_being_studied_is_not_studied_beside_that(slow: Slow) -> None:
    """Each study of a large plan had been joined by another one every five seconds."""
    seconds = [0.0]
    async with dashboard(a_session(), "plan", wait=False) as pilot:
        app = pilot.app
        assert isinstance(app, TrimtabApp)
        app.monotonic = lambda: seconds[0]
        try:
            for _ in range(5):
                seconds[0] += 6.0
                app.draw()
                await pilot.pause()
            assert slow.asked == [3]
        finally:
            slow.may_end.set()
        await rested(pilot)
        assert "to copy" in body(pilot)
        took = seconds[0]
        for later, asked in ((took, 1), (3.9 * took, 1), (4.1 * took, 2)):
            seconds[0] = took + later
            app.draw()
            await rested(pilot)
            assert len(slow.asked) == asked, later


async def test_a_study_is_given_up_once_it_is_of_another_plan(slow: Slow) -> None:
    async with dashboard(a_session(), "plan", wait=False) as pilot:
        try:
            await pilot.press("x")
            deadline = time.monotonic() + 60
            while not (slow.given_up and len(slow.asked) == 2):
                assert time.monotonic() < deadline, (slow.asked, slow.given_up)
                await pilot.pause(0.005)
            assert (slow.asked, slow.given_up) == ([3, 2], [3])
        finally:
            slow.may_end.set()
        await rested(pilot)
        await pressed(pilot, "x", "x")
        assert "The plan is empty" in body(pilot)
