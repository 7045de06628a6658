"""A plan that is not applied outlives the dashboard, unless its user throws it away."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hands import rested
from pictures import LOAD, STATE, a_plan, a_session, dashboard, footer, pressed
from textual.pilot import Pilot
from textual.widgets import Label

from core import paths
from core.cluster.connect import Address
from core.plan.plan import Plan
from core.run.journal.records import Kind
from core.run.options import RunOptions, create_journal
from tui.app import FeedMessage, TrimtabApp
from tui.feed.events import PictureChanged
from tui.global_actions import leave as leaving
from tui.global_actions.leave import read_run_id, read_saved_plan, save_plan
from tui.global_actions.leave_dialog import LeaveDialog
from tui.session import PendingRun, Session

PLAN = replace(a_plan(), cluster_id=STATE.cluster_id)
PICTURE = PictureChanged(STATE, LOAD, None, None, None)


def session_of(plan: Plan) -> Session:
    session = a_session(plan)
    session.address = Address("broker:9092")
    return session


def question_text(pilot: Pilot[int]) -> str:
    """Return what the question says now."""
    assert isinstance(pilot.app.screen, LeaveDialog)
    labels = pilot.app.screen.query(Label)
    return " ".join(str(label.render()) for label in labels if label.display)


async def until(pilot: Pilot[int], holds: Callable[[], bool]) -> None:
    """Wait for what a thread brings about."""
    while not holds():
        await pilot.pause(0.01)


async def show_picture(pilot: Pilot[int]) -> TrimtabApp:
    """Let the dashboard see its cluster, and with that what is kept for it."""
    pilot.app.post_message(FeedMessage(PICTURE))
    await pilot.pause()
    await rested(pilot)
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
async def test_leaving_opens_a_dialog_and_does_what_is_chosen(
    key: str, keys: tuple[str, ...], leaves: bool, kept: Plan | None
) -> None:
    async with dashboard(session_of(PLAN), "plan") as pilot:
        app = await show_picture(pilot)
        await pressed(pilot, key)
        assert isinstance(app.screen, LeaveDialog)
        assert app.focused is app.screen.query_one("#stay")
        await pressed(pilot, *keys)
        assert app._exit is leaves
        if leaves:
            app.save_plan_on_exit()
        assert read_saved_plan(STATE.cluster_id) == kept


async def test_leaving_opens_no_dialog_where_nothing_would_be_lost() -> None:
    for session in (session_of(Plan(STATE.cluster_id)), a_session(PLAN)):  # empty; simulated
        async with dashboard(session, "map") as pilot:
            app = await show_picture(pilot)
            await pilot.press("q")
            assert app._exit
            app.save_plan_on_exit()
        assert not paths.kept_plan_file(STATE.cluster_id).exists()


async def test_kept_plan_is_restored_once_and_can_be_removed_with_one_key() -> None:
    save_plan(PLAN)
    async with dashboard(session_of(Plan(STATE.cluster_id)), "map") as pilot:
        app = await show_picture(pilot)
        assert app.session.plan == PLAN
        assert "is here again" in footer(pilot)
        await pressed(pilot, "u")
        await show_picture(pilot)
        assert not len(app.session.plan)
        app.save_plan_on_exit()
    assert read_saved_plan(STATE.cluster_id) is None


OTHER = PLAN.without(PLAN.moves[0].tp)


NEWER = Plan.of(
    (replace(OTHER.moves[0], after=OTHER.moves[0].before[::-1]), *OTHER.moves[1:]),
    cluster_id=STATE.cluster_id,
)


@pytest.mark.parametrize(
    ("answer", "newer", "replaced"),
    [("keep", OTHER, ""), (None, OTHER, ""), (None, NEWER, "1 move of your kept plan is replaced")],
)
async def test_plan_begun_before_the_kept_plan_was_read_replaces_none_of_its_moves_silently(
    answer: Any, newer: Plan, replaced: str
) -> None:
    save_plan(PLAN)
    path = paths.kept_plan_file(STATE.cluster_id)
    path.with_suffix(".unread").write_text("an older one")
    async with dashboard(session_of(newer), "map") as pilot:
        app = cast(TrimtabApp, pilot.app)
        app._answer = answer  # None as at a signal
        app._settle()
        assert read_saved_plan(STATE.cluster_id) == newer
        assert path.with_suffix(".unread").read_text() == "an older one"
        path.with_suffix(".2.unread").replace(path)
        app._kept = app._answer = None
        await show_picture(pilot)
        assert app.session.plan.by_partition == PLAN.by_partition | newer.by_partition
        assert ("replaced" in footer(pilot)) is bool(replaced)
        assert replaced in footer(pilot)
        await pressed(pilot, "u")
        assert app.session.plan == newer


@pytest.mark.parametrize(
    ("found", "planned", "keys", "kept"),
    [
        (None, None, ("q",), OTHER),
        (None, PLAN, ("q", "right", "right", "enter"), OTHER),  # its own is thrown away
        (None, PLAN, ("q", "right", "enter"), PLAN),
        (PLAN, None, ("ctrl+q", "ctrl+q"), OTHER),
        (PLAN, None, ("q", "right", "enter"), PLAN),
        (PLAN, None, ("q", "right", "right", "enter"), OTHER),
        (PLAN, None, ("u",), OTHER),
    ],
)
async def test_plan_kept_by_another_dashboard_meanwhile_is_replaced_only_by_a_kept_plan(
    found: Plan | None, planned: Plan | None, keys: tuple[str, ...], kept: Plan
) -> None:
    if found is not None:
        save_plan(found)
    async with dashboard(session_of(Plan(STATE.cluster_id)), "map") as pilot:
        app = await show_picture(pilot)
        save_plan(OTHER)
        if planned is not None:
            app.session.edit(planned)
        await pressed(pilot, *keys)
        if "u" not in keys:
            assert app._exit
        app.save_plan_on_exit()
    assert read_saved_plan(STATE.cluster_id) == kept


@pytest.mark.parametrize("first", ["stays", "goes"])
async def test_kept_plan_survives_when_one_of_two_dashboards_that_restored_it_drops_it(
    first: str,
) -> None:
    save_plan(PLAN)
    empty = Plan(STATE.cluster_id)
    async with (
        dashboard(session_of(empty), "map") as pilot,
        dashboard(session_of(empty), "map") as other,
    ):
        keeps, drops = await show_picture(pilot), await show_picture(other)
        assert keeps.session.plan == drops.session.plan == PLAN
        drops.session.edit(empty)
        for app in (keeps, drops) if first == "stays" else (drops, keeps):
            app.save_plan_on_exit()
    assert read_saved_plan(STATE.cluster_id) == PLAN


async def test_exit_blocks_until_the_plan_is_kept_unless_another_key_forces_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writing, go_on, written = threading.Event(), threading.Event(), threading.Event()

    def slow(plan: Plan) -> None:
        writing.set()
        go_on.wait(30)
        save_plan(plan)
        written.set()

    monkeypatch.setattr(leaving, "save_plan", slow)
    try:
        for ends in ("it is kept", "a key", "time is up"):
            for event in (writing, go_on, written):
                event.clear()
            seconds = 0.01 if ends == "time is up" else 60.0
            monkeypatch.setattr(leaving, "KEEP_SECONDS", seconds)
            async with dashboard(session_of(PLAN), "map") as pilot:
                app = await show_picture(pilot)
                for key in ("q", "right", "enter"):
                    await pilot.press(key)
                if ends != "time is up":
                    assert writing.wait(30)
                    assert not app._exit
                    assert "is being kept" in question_text(pilot)
                if ends == "time is up":
                    await until(pilot, lambda: bool(app.session.troubles))  # noqa: B023
                    assert not app._exit
                    assert "the disk does not answer" in question_text(pilot)
                if ends != "it is kept":
                    await pilot.press("q")
                else:
                    go_on.set()
                await until(pilot, lambda: app._exit)  # noqa: B023
                assert (read_saved_plan(STATE.cluster_id) == PLAN) is (ends == "it is kept")
                go_on.set()
                assert written.wait(30)
            save_plan(OTHER)
    finally:
        go_on.set()


@pytest.mark.parametrize("full", ["save_plan", "set_aside"])
@pytest.mark.parametrize("beneath", [(), ("A",)])
async def test_plan_that_cannot_be_kept_is_reported_and_the_dashboard_stays(
    beneath: tuple[str, ...], full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    paths.kept_plan_file(STATE.cluster_id).parent.mkdir(parents=True)
    paths.kept_plan_file(STATE.cluster_id).write_text("{")
    async with dashboard(session_of(PLAN), "plan") as pilot:
        app = await show_picture(pilot)
        monkeypatch.setattr(leaving, full, refuse)
        await pressed(pilot, *beneath, "ctrl+q", "right", "enter")
        assert not app._exit
        assert app._deadline is None, "it stays for as long as its user does"
        assert len(app.session.troubles) == 2
        assert "No space left on device" in question_text(pilot)
        assert "It has 3 moves" in question_text(pilot)
        app.save_plan_on_exit()  # as after ctrl+q
        assert (
            app.unsaved_plan_message()
            == "The plan of 3 moves is not kept: No space left on device."
        )
        assert paths.kept_plan_file(STATE.cluster_id).exists() is (full == "set_aside")
        await pressed(pilot, "right", "enter")
        assert app._exit
        assert app.unsaved_plan_message() == "", "it was thrown away"


def test_leaving_during_the_start_of_a_run_blocks_until_its_id_is_known() -> None:
    app = TrimtabApp(session_of(PLAN))
    app._answer, app.session.run_starting = "keep", threading.Event()

    def started() -> None:
        app.session.pending_run = PendingRun("20260101-000000", PLAN)
        app.session.run_starting.set()  # type: ignore[union-attr]

    threading.Timer(0.05, started).start()
    assert "a run was being started with it" in app.unsaved_plan_message()
    app.save_plan_on_exit()
    assert app.unsaved_plan_message() == ""
    assert read_saved_plan(STATE.cluster_id) is None
    assert read_run_id(STATE.cluster_id) == "20260101-000000"


# -- what was handed to a run ----------------------------------------------------------------------

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WENT: dict[str, tuple[Kind, dict[str, Any]] | None] = {
    "undecided": None,
    "refused": (Kind.ENDED, {"outcome": "failed", "why": "no"}),
    "passed": (Kind.PREFLIGHT, {"min_insync": {}, "sizes": [0] * len(PLAN), "leaders": [1, 1, 1]}),
}


@pytest.mark.parametrize("went", WENT)
async def test_plan_handed_to_a_run_is_restored_unless_the_run_has_passed_its_checks(
    went: str,
) -> None:
    address = Address("broker:9092")
    journal = create_journal(address, STATE.cluster_id, PLAN, RunOptions(1), None, at=NOW)
    run = journal.path.stem
    async with dashboard(session_of(Plan(STATE.cluster_id)), "map") as pilot:
        app = await show_picture(pilot)
        app.session.edit(PLAN)
        app.session.pending_run = PendingRun(run, PLAN)
        app.save_plan_on_exit()
    assert (read_saved_plan(STATE.cluster_id), read_run_id(STATE.cluster_id)) == (None, run)
    if (record := WENT[went]) is not None:
        journal.write(NOW, *record)
    journal.close()
    async with dashboard(session_of(Plan(STATE.cluster_id)), "map") as pilot:
        app = await show_picture(pilot)
        session = app.session
        assert session.plan.moves == (() if went == "passed" else PLAN.moves)
        assert session.plan_to_keep.moves == (PLAN.moves if went == "refused" else ())
        assert (session.pending_run is not None) is (went == "undecided")
        assert ("refused" in footer(pilot)) is (went == "refused")
        app.save_plan_on_exit()
    assert read_run_id(STATE.cluster_id) == (run if went == "undecided" else "")
    assert read_saved_plan(STATE.cluster_id) == (PLAN if went == "refused" else None)


async def test_exit_before_the_cluster_is_known_loses_no_kept_plan() -> None:
    save_plan(PLAN)
    async with dashboard(session_of(Plan(STATE.cluster_id)), "map") as pilot:
        cast(TrimtabApp, pilot.app).save_plan_on_exit()
    assert read_saved_plan(STATE.cluster_id) == PLAN


def test_kept_plan_of_another_cluster_is_ignored() -> None:
    save_plan(PLAN)
    assert read_saved_plan("another") is None
    paths.kept_plan_file(STATE.cluster_id).rename(paths.kept_plan_file("another"))
    assert read_saved_plan("another") is None


@pytest.mark.parametrize(
    ("handed", "kept"),
    [(PLAN, None), (OTHER, Plan.of(PLAN.moves[:1], cluster_id=STATE.cluster_id))],
)
async def test_plan_handed_to_a_run_is_neither_prompted_for_nor_kept(
    handed: Plan, kept: Plan | None
) -> None:
    save_plan(handed)
    async with dashboard(session_of(Plan(STATE.cluster_id)), "map") as pilot:
        app = await show_picture(pilot)
        app.session.pending_run = PendingRun("r1", handed)
        app.session.edit(PLAN)  # has more than what was handed, or is it
        await pilot.press("q")
        assert isinstance(app.screen, LeaveDialog) is (kept is not None)
        assert app._exit is (kept is None)
        app.save_plan_on_exit()
    assert read_saved_plan(STATE.cluster_id) == kept


@pytest.mark.parametrize("planned", [None, PLAN])
async def test_damaged_plan_file_is_reported_and_preserved_and_ends_nothing(
    planned: Plan | None,
) -> None:
    save_plan(OTHER)
    path = paths.kept_plan_file(STATE.cluster_id)
    path.write_text("{")
    async with dashboard(session_of(Plan(STATE.cluster_id)), "map") as pilot:
        app = await show_picture(pilot)
        assert len(app.session.troubles) == 1
        assert not len(app.session.plan)
        if planned is not None:
            app.session.edit(planned)
        app.save_plan_on_exit()
        app.save_plan_on_exit()  # as after a signal
    assert (path if planned is None else path.with_suffix(".unread")).read_text() == "{"
    assert planned is None or read_saved_plan(STATE.cluster_id) == planned
