"""Breaking things on purpose: only where that is what the cluster is for; by keys and mouse."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from clusters import NOON
from hands import rested
from maps import (
    NOW,
    demo_picture,
    lines,
    map_of,
    picture_changed,
    press,
    publish_events,
    session,
    text,
)
from textual.pilot import Pilot

from core.cluster.drills.drill import (
    Drill,
    DrillKind,
    Offer,
    broker_drill,
    disk_drill,
    skew_drills,
)
from core.cluster.state import ClusterState
from core.errors import TrimtabError
from tui.feed.events import DrillTargetDetected
from tui.global_actions.drills import WORDS, Choices, DrillDialog
from tui.session import PastMoment


class Ground:
    """A sandbox of which broker 3 is down; it keeps what was done to it."""

    name = "sandbox demo"
    timeline_id = None

    def __init__(self) -> None:
        self.done: list[Drill] = []
        self.trouble: TrimtabError | None = None

    def offers(self, state: ClusterState) -> tuple[Offer, ...]:
        return (
            Offer(DrillKind.KILL, tuple(broker_drill(DrillKind.KILL, b) for b in (1, 2, 7))),
            Offer(DrillKind.START, (broker_drill(DrillKind.START, 3),)),
            Offer(DrillKind.JOIN, why_not="no load runs on it"),
            Offer(DrillKind.SKEW, skew_drills(state, {"orders", "payments.v2"})),
            Offer(DrillKind.FILL, (disk_drill(DrillKind.FILL, 2, "/x/disk-2"),)),
        )

    def run(self, drill: Drill) -> bool:
        self.done.append(drill)
        if self.trouble is not None:
            raise self.trouble
        return drill.kind is not DrillKind.START

    def close(self) -> None:
        pass


@asynccontextmanager
async def on_a_sandbox(
    ground: Ground, size: tuple[int, int] = (120, 40), **more: Any
) -> AsyncIterator[Pilot[int]]:
    async with map_of(size, **more) as pilot:
        await publish_events(pilot, DrillTargetDetected(ground))
        yield pilot


def dialog(pilot: Pilot[int]) -> DrillDialog:
    screen = pilot.app.screen
    assert isinstance(screen, DrillDialog)
    return screen


def chosen(pilot: Pilot[int]) -> str:
    drill = dialog(pilot).chosen
    assert drill is not None
    return f"{drill.kind.value} {drill.on}"


async def test_drills_are_not_offered_outside_a_sandbox_and_their_key_does_nothing() -> None:
    async with map_of((200, 60), writable=True) as pilot:
        before = text(pilot)
        assert "break" not in lines(pilot)[-1]
        await press(pilot, "F")
        assert text(pilot) == before
        await press(pilot, "question_mark", "G")
        assert "quit" in text(pilot)
        assert "break" not in text(pilot)
        await press(pilot, "escape", "colon", *"break")
        assert "kill a broker" not in text(pilot)


async def test_drills_are_offered_in_footer_help_and_palette_on_a_sandbox() -> None:
    ground = Ground()
    async with on_a_sandbox(ground, (200, 60), writable=True) as pilot:
        assert "F break…" in lines(pilot)[-1]
        await press(pilot, "question_mark", "G")
        assert "break…" in text(pilot)
        await press(pilot, "escape", "colon", *"break", "enter")
        assert "Break something on sandbox demo" in text(pilot)


async def test_drill_key_is_refused_in_read_only_mode() -> None:
    ground = Ground()
    async with on_a_sandbox(ground) as pilot:
        await press(pilot, "F")
        assert "Read-only: start with --write." in lines(pilot)[-1]
    assert ground.done == []


async def test_drill_key_is_refused_while_a_past_moment_is_shown() -> None:
    ground = Ground()
    async with on_a_sandbox(ground, writable=True) as pilot:
        now = session(pilot)
        assert now.state is not None
        now.past_moment = PastMoment(datetime(2026, 1, 1, tzinfo=UTC), now.state)
        await press(pilot, "F")
        assert "The past cannot be broken: 0 goes back to now." in lines(pilot)[-1]
        await press(pilot, "0", "F")
        assert isinstance(pilot.app.screen, DrillDialog)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_drill_is_chosen_and_run_with_keys(size: tuple[int, int]) -> None:
    ground = Ground()
    async with on_a_sandbox(ground, size, writable=True) as pilot:
        session(pilot).cursor_at = (7, "orders")
        await press(pilot, "F")
        # What the map's cursor is on comes first.
        assert chosen(pilot) == "kill broker 7"
        await press(pilot, "l")
        assert chosen(pilot) == "kill broker 1"
        await press(pilot, "left", "left")
        assert chosen(pilot) == "kill broker 2"
        await press(pilot, "down", "j")
        assert chosen(pilot) == "skew topic orders"
        # What cannot be done is last, says why, and is not to be chosen.
        await press(pilot, "j", "j", "j", "j")
        assert chosen(pilot) == "fill log dir disk-2 of broker 2"
        assert "✗ no load runs on it" in text(pilot)
        assert "no space is left on the device" in text(pilot)
        await press(pilot, "k", "k", "k", "enter")
        assert lines(pilot)[-1].startswith(" Killed broker 2.")
    assert [(drill.kind, drill.broker) for drill in ground.done] == [(DrillKind.KILL, 2)]


async def test_drill_is_chosen_and_run_with_the_mouse() -> None:
    ground = Ground()
    async with on_a_sandbox(ground, writable=True) as pilot:
        await press(pilot, "F")
        (row,) = (y for y, line in enumerate(lines(pilot)) if "skew the load" in line)
        (top,) = (y for y, line in enumerate(lines(pilot)) if "kill a broker" in line)
        await pilot.click(Choices, offset=(4, row - top))
        await pilot.pause()
        first = chosen(pilot)
        assert first.startswith("skew ")
        await pilot.click(Choices, offset=(50, row - top))
        await pilot.pause()
        assert chosen(pilot) not in (first, "")
        await pilot.click(Choices, offset=(20, row - top))
        await pilot.pause()
        assert chosen(pilot) == first
        await pilot.click("#yes")
        await rested(pilot)
        assert "Skewed the load: 5 times the records to " in lines(pilot)[-1]
    assert [drill.kind for drill in ground.done] == [DrillKind.SKEW]


@pytest.mark.parametrize("keys", [("j", "escape"), ("enter",)])
async def test_escape_or_an_immediate_enter_runs_no_drill(
    keys: tuple[str, ...],
) -> None:
    ground = Ground()
    async with on_a_sandbox(ground, writable=True) as pilot:
        await press(pilot, "F", *keys)
        assert "Break something" not in text(pilot)
    assert ground.done == []


async def test_drill_dialog_opens_at_once_and_is_not_reopened_by_drills_found_later() -> None:
    ground, looked = Ground(), threading.Event()
    offers = ground.offers

    def slowly(state: ClusterState) -> tuple[Offer, ...]:
        assert looked.wait(60)
        return offers(state)

    ground.offers = slowly  # type: ignore[method-assign]
    async with on_a_sandbox(ground, writable=True) as pilot:
        try:
            await pilot.press("F")
            assert "looking what can be done" in text(pilot)
            await pilot.press("j", "enter", "3")
        finally:
            looked.set()
        await rested(pilot)
        assert "Break something" not in text(pilot)
    assert ground.done == []


async def test_failure_to_find_drills_is_reported() -> None:
    ground = Ground()

    def gone(state: ClusterState) -> tuple[Offer, ...]:
        raise TrimtabError("The sandbox is gone.")

    ground.offers = gone  # type: ignore[method-assign]
    async with on_a_sandbox(ground, writable=True) as pilot:
        await press(pilot, "F")
        assert "Break something" not in text(pilot)
        assert "The sandbox is gone." in lines(pilot)[-1]


async def test_failed_drill_and_drill_with_nothing_to_do_are_reported() -> None:
    ground = Ground()
    ground.trouble = TrimtabError("Broker 2 did not come up.", next="Its whole log: x.")
    async with on_a_sandbox(ground, writable=True) as pilot:
        await press(pilot, "F", "k", "enter")
        assert "Broker 2 did not come up." in lines(pilot)[-1]
        ground.trouble = None
        await press(pilot, "F", "j", "enter")
        assert "There was nothing to do." in lines(pilot)[-1]


async def test_open_drill_dialog_follows_changes_of_the_cluster_and_of_write_access() -> None:
    ground, (state, load) = Ground(), demo_picture()
    killable = [1, 2, 7]
    offers = ground.offers

    def now(state: ClusterState) -> tuple[Offer, ...]:
        if not killable:
            raise TrimtabError("The sandbox is gone.")
        kill = Offer(DrillKind.KILL, tuple(broker_drill(DrillKind.KILL, b) for b in killable))
        return (kill, *offers(state)[1:])

    ground.offers = now  # type: ignore[method-assign]
    async with on_a_sandbox(ground, writable=True) as pilot:
        app, seconds = pilot.app, [NOW]
        app.monotonic = lambda: seconds[0]  # type: ignore[attr-defined]

        async def pass_on() -> None:
            seconds[0] += 10.0
            await publish_events(pilot, picture_changed(replace(state, fetched_at=NOON), load))

        own = session(pilot)
        own.cursor_at = (1, None)
        await press(pilot, "F", "right")
        assert chosen(pilot) == "kill broker 2"
        killable.remove(1)
        await pass_on()
        assert chosen(pilot) == "kill broker 2", "it stays chosen"
        assert app.focused is app.screen.query_one("#yes")
        killable.remove(2)
        await pass_on()
        assert "not possible any more" in text(pilot)
        assert app.focused is app.screen.query_one("#no"), "enter does nothing else instead"
        await press(pilot, "right")
        assert chosen(pilot) == "kill broker 7"
        killable.clear()
        await pass_on()
        assert "The sandbox is gone." in text(pilot)
        assert app.screen.query_one("#yes").disabled
        killable.append(7)
        own.writable = False
        await pass_on()
        assert "Read-only" in text(pilot)
        assert app.screen.query_one("#yes").disabled
        own.writable = True
        await pass_on()
        assert "Read-only" not in text(pilot)
        await press(pilot, "right", "enter")
        assert len(ground.done) == 1
        await press(pilot, "F", "right")
        own.writable = False  # seen, and not yet drawn
        await press(pilot, "enter")
        assert "Read-only" in lines(pilot)[-1]
    assert [(drill.kind, drill.broker) for drill in ground.done] == [(DrillKind.KILL, 7)]


def test_every_drill_kind_has_a_name_and_a_description() -> None:
    assert set(WORDS) == set(DrillKind)


async def test_drill_dialog_without_a_possible_drill_can_only_be_left() -> None:
    offers = (Offer(DrillKind.JOIN, why_not="no load runs on it"),)
    async with map_of(writable=True) as pilot:
        left: list[Drill | None] = []
        dialog = DrillDialog("sandbox x", lambda dialog: None)
        await pilot.app.push_screen(dialog, left.append)
        dialog.offer(offers)
        await press(pilot, "j", "l", "enter")
        assert left == [None]
