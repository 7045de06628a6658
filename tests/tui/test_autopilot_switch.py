"""The autopilot's switch in the dashboard: how it stands in the header, and who may set it."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from clusters import NOON
from hands import rested
from maps import lines, map_of, press, publish_events, session, text
from pictures import footer
from textual.pilot import Pilot
from textual.widgets import Button

from core.autopilot import daemon as background
from core.autopilot import switch as switches
from core.autopilot.daemon import AutopilotStatus
from core.autopilot.decision import Reason
from core.autopilot.history import DecisionHistory
from core.autopilot.log import Entry, EntryKind
from core.autopilot.settings import AutopilotSettings, Mode
from core.autopilot.switch import Switch
from core.cluster.connect import Address
from core.daemons.process import Process
from tui.feed.events import AutopilotChanged
from tui.global_actions.autopilot import AutopilotDialog

LAST = Entry(NOON, EntryKind.WAIT, (Reason("broker-down", "Not while a broker is down: 3."),))


def stands(mode: Mode = Mode.ACT, *, is_running: bool = True) -> AutopilotChanged:
    switch = Switch("c-1", "prod", Address("b:9092"), AutopilotSettings(mode=mode), NOON, "ada")
    return AutopilotChanged(
        AutopilotStatus(switch, Process(1, "0") if is_running else None, LAST, DecisionHistory())
    )


@asynccontextmanager
async def living(*, writable: bool = False) -> AsyncIterator[Pilot[int]]:
    """Open the map on a cluster that has an address."""
    async with map_of((120, 40), writable=writable) as pilot:
        session(pilot).address = Address("b:9092")
        yield pilot


def enabled(pilot: Pilot[int]) -> set[str]:
    assert isinstance(pilot.app.screen, AutopilotDialog)
    return {b.id or "" for b in pilot.app.screen.query(Button) if not b.disabled}


async def test_header_shows_the_mode_of_the_autopilot_and_whether_its_process_is_gone() -> None:
    async with map_of((120, 40)) as pilot:
        assert "auto" not in lines(pilot)[0]
        await publish_events(pilot, stands())
        assert "auto act" in lines(pilot)[0]
        await publish_events(pilot, stands(Mode.SUGGEST, is_running=False))
        assert "auto suggest gone" in lines(pilot)[0]
        await publish_events(pilot, stands(Mode.OFF))
        assert "auto" not in lines(pilot)[0]


async def test_read_only_user_can_only_turn_the_autopilot_off() -> None:
    async with living() as pilot:
        await publish_events(pilot, stands())
        await press(pilot, "O")
        assert LAST.text in text(pilot)
        assert enabled(pilot) == {"back", "off"}
        await press(pilot, "escape")


async def test_act_mode_requires_entering_the_clusters_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Switch] = []
    monkeypatch.setattr(background, "start_autopilot", started.append)
    async with living(writable=True) as pilot:
        name = session(pilot).cluster_name
        await press(pilot, "O")
        assert enabled(pilot) == {"back", "suggest"}
        await press(pilot, *name[:-1])
        assert enabled(pilot) == {"back", "suggest"}
        await press(pilot, name[-1])
        assert enabled(pilot) == {"back", "suggest", "act"}
        await press(pilot, "enter", "enter")
        await rested(pilot)
        (switch,) = started
        assert (switch.mode, switch.name, switch.address) == (Mode.ACT, name, Address("b:9092"))
        stored_switch = switches.read(switch.cluster_id)
        assert stored_switch is not None
        assert stored_switch.settings == switch.settings


async def test_open_autopilot_dialog_follows_changes_of_the_autopilot() -> None:
    async with living(writable=True) as pilot:
        known = session(pilot)
        await press(pilot, "O", *known.cluster_name)
        assert "It is off, and never was on." in text(pilot)
        assert enabled(pilot) == {"back", "suggest", "act"}
        await publish_events(pilot, stands())
        assert "Mode act, set by ada." in text(pilot)
        assert LAST.text in text(pilot)
        assert enabled(pilot) == {"back", "off", "suggest", "act"}
        known.writable = False
        await publish_events(pilot, stands(is_running=False))
        assert "process gone" in text(pilot)
        assert "Read-only: start with --write." in text(pilot)
        assert enabled(pilot) == {"back", "off"}
        await publish_events(pilot, stands(Mode.OFF))
        assert enabled(pilot) == {"back"}


async def test_autopilot_that_cannot_be_started_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(switch: Switch) -> None:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(background, "start_autopilot", refuse)
    async with living(writable=True) as pilot:
        await press(pilot, "O")
        await pilot.click("#suggest")
        await rested(pilot)
        message = "The switch is set; the autopilot cannot be started: no more processes."
        assert message in footer(pilot)


async def test_autopilot_is_turned_off_without_entering_the_clusters_name() -> None:
    async with living() as pilot:
        await publish_events(pilot, stands())
        await press(pilot, "O", "down", "enter")
        await rested(pilot)
        assert {switch.mode for switch in switches.read_all()} == {Mode.OFF}


async def test_saved_document_has_no_autopilot() -> None:
    async with map_of((120, 40), writable=True) as pilot:
        await press(pilot, "O")
        assert "An autopilot needs a living cluster." in text(pilot)
