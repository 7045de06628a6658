"""A plan is assessed by one worker at a time, however long that takes and whatever is edited."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from clusters import tp
from hands import rested
from maps import the_map
from pictures import LOAD, MB, STATE, a_session, at, body, dashboard, pressed
from textual.pilot import Pilot

from core.cluster.access.hidden_topics import HiddenLogDir, HiddenTopics
from core.cluster.documents.cluster_document import DocumentGroup
from core.errors import TrimtabError
from core.plan.estimate import rate_table
from core.plan.plan import Plan
from tui.app import TrimtabApp
from tui.plan import screen as plan_module
from tui.plan.assessment import assess_plan
from tui.plan.assessment_worker import SupersededError


class Slow:
    """Assessments as the real one does, once it is let go; says of each whether it was given up."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self._real = real
        self.may_end = threading.Event()
        self.assessed: list[int] = []
        """How many moves each plan had."""
        self.given_up: list[int] = []

    def __call__(self, state: Any, load: Any, plan: Plan, *rest: Any, **more: Any) -> Any:
        self.assessed.append(len(plan))
        go_on: Callable[[], None] = more["go_on"]
        deadline = time.monotonic() + 60
        try:
            while not self.may_end.wait(0.005):
                assert time.monotonic() < deadline
                go_on()
        except SupersededError:
            self.given_up.append(len(plan))
            raise
        return self._real(state, load, plan, *rest, **more)

    async def until(self, pilot: Pilot[int], assessed: list[int], given_up: list[int]) -> None:
        """Wait until it was asked for plans of so many moves, and gave those up."""
        deadline = time.monotonic() + 60
        while (self.assessed, self.given_up) != (assessed, given_up):
            assert time.monotonic() < deadline, (self.assessed, self.given_up)
            await pilot.pause(0.005)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    slow = Slow(assess_plan)
    monkeypatch.setattr(plan_module, "assess_plan", slow)
    return slow


@pytest.fixture
def slow_table(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """The throttle table beside the map."""
    slow = Slow(rate_table.rate_table)
    monkeypatch.setattr(rate_table, "rate_table", slow)
    return slow


async def test_plan_is_not_assessed_concurrently_with_its_own_assessment(slow: Slow) -> None:
    """Each assessment of a large plan had been joined by another one every five seconds."""
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
            assert slow.assessed == [3]
        finally:
            slow.may_end.set()
        await rested(pilot)
        assert "to copy" in body(pilot)
        took = seconds[0]
        for later, asked in ((took, 1), (3.9 * took, 1), (4.1 * took, 2)):
            seconds[0] = took + later
            app.session.state = replace(STATE, leader=STATE.leader[::-1].copy())
            app.draw()
            await rested(pilot)
            assert len(slow.assessed) == asked, later


async def test_failing_assessment_is_reported_once_and_retried_only_on_a_changed_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Plan] = []
    why = ["No rate can be reckoned."]

    def fail(state: Any, load: Any, plan: Plan, *_: Any, **__: Any) -> Any:
        asked.append(plan)
        raise TrimtabError(why[-1])

    monkeypatch.setattr(plan_module, "assess_plan", fail)
    seconds = [0.0]
    turned = replace(STATE, leader=STATE.leader[::-1].copy())
    session = a_session()
    session.choose_rate(50 * MB)  # else the map may propose another one meanwhile
    async with dashboard(session, "plan", monotonic=lambda: seconds[0]) as pilot:
        app = pilot.app
        assert isinstance(app, TrimtabApp)
        for state, more, times, troubles in (
            (STATE, (), 1, 1),
            (replace(STATE, fetched_at=at(3, 0)), (), 1, 1),
            (turned, (), 2, 1),
            (STATE, ("Something else.",), 3, 2),
        ):
            app.session.state = state
            why += more
            seconds[0] += 60.0
            app.draw()
            await rested(pilot)
            assert (len(asked), len(app.session.troubles)) == (times, troubles)


async def test_plan_is_not_reassessed_before_something_relevant_has_changed(slow: Slow) -> None:
    """An assessment takes seconds where a cluster is large: it would take a fifth of a core."""
    slow.may_end.set()
    seconds = [0.0]
    turned = replace(STATE, leader=STATE.leader[::-1].copy())
    hidden, grown = HiddenTopics(2), HiddenLogDir(1, "/d1", 2, 2, 5_000)
    async with dashboard(a_session(), "plan", monotonic=lambda: seconds[0]) as pilot:
        app = pilot.app
        assert isinstance(app, TrimtabApp)
        session = app.session
        group = DocumentGroup("billing", "Stable", (), {tp("orders-0"): 5})
        for change, asked in (
            ({}, 1),
            ({"state": replace(STATE, fetched_at=at(3, 0))}, 1),
            ({"groups": (group,)}, 1),
            ({"state": turned}, 2),
            ({"load": replace(LOAD, as_of=at(3, 0))}, 3),
            ({"state": replace(turned, hidden=hidden)}, 4),
            ({"state": replace(turned, hidden=replace(hidden, logs=(grown,)))}, 4),
            ({"state": replace(turned, hidden=replace(hidden, unknown_brokers=(3,)))}, 5),
        ):
            seconds[0] += 60.0
            for name, value in change.items():
                setattr(session, name, value)
            app.draw()
            await rested(pilot)
            assert len(slow.assessed) == asked, change
            has_readers = "read by 1 group" in body(pilot)
            assert has_readers is bool(session.groups), "impact on who reads is newer than the rest"


async def test_assessment_is_abandoned_once_the_plan_has_changed(slow: Slow) -> None:
    async with dashboard(a_session(), "plan", wait=False) as pilot:
        try:
            await pilot.press("x")
            await slow.until(pilot, [3, 2], [3])
        finally:
            slow.may_end.set()
        await rested(pilot)
        await pressed(pilot, "x", "x")
        assert "The plan is empty" in body(pilot)


async def test_map_computes_one_rate_table_at_a_time_while_the_load_changes(
    slow_table: Slow,
) -> None:
    """What a large plan takes longer for than the load stays as it is was never shown."""
    async with dashboard(a_session(), "map", wait=False) as pilot:
        app = pilot.app
        assert isinstance(app, TrimtabApp)
        try:
            await slow_table.until(pilot, [3], [])
            session = app.session
            for second in range(1, 4):
                session.load = replace(LOAD, as_of=at(1, second))
                app.draw()
                the_map(pilot).estimates.compute()
                await pilot.pause()
            assert slow_table.assessed == [3]
        finally:
            slow_table.may_end.set()
        await rested(pilot)
        assert the_map(pilot).estimates.preview.rates
        assert not the_map(pilot).estimates.preview.of_before


async def test_rate_table_computation_is_abandoned_once_the_plan_has_changed(
    slow_table: Slow,
) -> None:
    async with dashboard(a_session(), "map", wait=False) as pilot:
        try:
            await slow_table.until(pilot, [3], [])
            session = the_map(pilot).session
            session.edit(session.plan.without(session.plan.moves[0].tp))
            the_map(pilot).show(session)
            await slow_table.until(pilot, [3, 2], [3])
            session.clear_plan()
            the_map(pilot).show(session)
            await slow_table.until(pilot, [3, 2], [3, 2])
        finally:
            slow_table.may_end.set()
        await rested(pilot)
        assert the_map(pilot).estimates.preview.rates == ()
