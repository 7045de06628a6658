"""A plan that is not applied outlives the dashboard, unless its user throws it away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pictures import LOAD, STATE, a_plan, a_session, dashboard, footer, pressed
from textual.pilot import Pilot

from core import paths
from core.cluster.connect import Address
from core.plan.plan import Plan
from tui.app import TrimtabApp
from tui.feed_events import PictureSeen
from tui.leaving import keep_plan, kept_plan
from tui.screens.leave_dialog import LeaveDialog
from tui.seen import Seen
from tui.session import Handed, Session

PLAN = replace(a_plan(), cluster_id=STATE.cluster_id)
PICTURE = PictureSeen(STATE, LOAD, None, None, None)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))


def session_of(plan: Plan) -> Session:
    session = a_session(plan)
    session.address = Address("broker:9092")
    return session


async def seen(pilot: Pilot[int]) -> TrimtabApp:
    """Let the dashboard see its cluster, and with that what is kept for it."""
    pilot.app.post_message(Seen(PICTURE))
    await pressed(pilot)
    await pilot.pause()
    return cast(TrimtabApp, pilot.app)


@pytest.mark.parametrize("key", ["q", "ctrl+q"])
@pytest.mark.parametrize(
    ("keys", "leaves", "kept"),
    [
        (("enter",), False, None),
        (("escape",), False, None),
        (("right", "enter"), True, PLAN),
        (("right", "right", "enter"), True, None),
        (("ctrl+q",), True, PLAN),
    ],
)
async def test_leaving_asks_and_does_what_is_said(
    key: str, keys: tuple[str, ...], leaves: bool, kept: Plan | None
) -> None:
    async with dashboard(session_of(PLAN), "plan") as pilot:
        app = await seen(pilot)
        await pressed(pilot, key)
        assert isinstance(app.screen, LeaveDialog)
        assert app.focused is app.screen.query_one("#stay")
        for one in keys:
            await pilot.press(one)
        assert app._exit is leaves
        if leaves:
            app.settle_plan()
        assert kept_plan(STATE.cluster_id) == kept


async def test_nothing_is_asked_where_nothing_would_be_lost() -> None:
    for session in (session_of(Plan(STATE.cluster_id)), a_session(PLAN)):  # empty; simulated
        async with dashboard(session, "map") as pilot:
            app = await seen(pilot)
            await pilot.press("q")
            assert app._exit
            app.settle_plan()
        assert not paths.kept_plan_file(STATE.cluster_id).exists()


async def test_what_is_kept_comes_back_once_and_one_key_takes_it_away() -> None:
    keep_plan(PLAN)
    async with dashboard(session_of(Plan(STATE.cluster_id)), "map") as pilot:
        app = await seen(pilot)
        assert app.session.plan == PLAN
        assert "is here again" in footer(pilot)
        await pressed(pilot, "u")
        await seen(pilot)
        assert not len(app.session.plan)
        app.settle_plan()
    assert kept_plan(STATE.cluster_id) is None


OTHER = PLAN.without(PLAN.moves[0].tp)


@pytest.mark.parametrize(
    ("found", "planned", "keys", "kept"),
    [
        (None, None, ("q",), OTHER),
        (None, PLAN, ("q", "right", "right", "enter"), OTHER),  # its own is thrown away
        (None, PLAN, ("q", "right", "enter"), PLAN),
        (PLAN, None, ("ctrl+q", "ctrl+q"), OTHER),
        (PLAN, None, ("q", "right", "enter"), PLAN),
    ],
)
async def test_what_another_dashboard_kept_meanwhile_is_only_replaced_by_a_plan(
    found: Plan | None, planned: Plan | None, keys: tuple[str, ...], kept: Plan
) -> None:
    if found is not None:
        keep_plan(found)
    async with dashboard(session_of(Plan(STATE.cluster_id)), "map") as pilot:
        app = await seen(pilot)
        keep_plan(OTHER)
        if planned is not None:
            app.session.edit(planned)
        for key in keys:
            await pilot.press(key)
        assert app._exit
        app.settle_plan()
    assert kept_plan(STATE.cluster_id) == kept


async def test_who_ends_before_the_cluster_was_seen_loses_nothing() -> None:
    keep_plan(PLAN)
    async with dashboard(session_of(Plan(STATE.cluster_id)), "map") as pilot:
        cast(TrimtabApp, pilot.app).settle_plan()
    assert kept_plan(STATE.cluster_id) == PLAN


def test_another_cluster_s_plan_is_not_taken() -> None:
    keep_plan(PLAN)
    assert kept_plan("another") is None
    paths.kept_plan_file(STATE.cluster_id).rename(paths.kept_plan_file("another"))
    assert kept_plan("another") is None


@pytest.mark.parametrize(
    ("handed", "kept"),
    [(PLAN, None), (OTHER, Plan.of(PLAN.moves[:1], cluster_id=STATE.cluster_id))],
)
async def test_what_was_handed_to_a_run_is_neither_asked_about_nor_kept(
    handed: Plan, kept: Plan | None
) -> None:
    keep_plan(handed)
    async with dashboard(session_of(Plan(STATE.cluster_id)), "map") as pilot:
        app = await seen(pilot)
        app.session.handed = Handed("r1", handed)
        app.session.edit(PLAN)  # has more than what was handed, or is it
        await pilot.press("q")
        assert isinstance(app.screen, LeaveDialog) is (kept is not None)
        assert app._exit is (kept is None)
        app.settle_plan()
    assert kept_plan(STATE.cluster_id) == kept


@pytest.mark.parametrize("planned", [None, PLAN])
async def test_a_damaged_file_is_told_stays_and_ends_nothing(planned: Plan | None) -> None:
    keep_plan(OTHER)
    path = paths.kept_plan_file(STATE.cluster_id)
    path.write_text("{")
    async with dashboard(session_of(Plan(STATE.cluster_id)), "map") as pilot:
        app = await seen(pilot)
        assert len(app.session.troubles) == 1
        assert not len(app.session.plan)
        if planned is not None:
            app.session.edit(planned)
        app.settle_plan()
        app.settle_plan()  # as after a signal
    assert (path if planned is None else path.with_suffix(".unread")).read_text() == "{"
    assert planned is None or kept_plan(STATE.cluster_id) == planned
