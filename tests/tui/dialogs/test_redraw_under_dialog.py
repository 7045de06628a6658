"""What goes on is drawn while a dialog is open, and no more of it than has changed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hands import rested
from pictures import GB, SIZES, a_run, a_session, dashboard, pressed
from textual._compositor import CompositorUpdate
from textual.events import Key
from textual.pilot import Pilot

from core.cluster.connect import Address
from tui.app import TrimtabApp
from tui.dialogs.base import ChoiceDialog

BUDGET_BYTES = 2500
"""For a few numbers and bars that have changed; at 120×40; the whole screen is three times that."""


def text_on(app: TrimtabApp) -> str:
    """Return what the terminal shows: the dialog, and around it the screen below."""
    return app.export_screenshot().replace("&#160;", " ")


async def drawn(pilot: Pilot[int], words: str) -> None:
    """Wait until words are shown: a screen that is not in front draws by its own timer."""
    app = pilot.app
    assert isinstance(app, TrimtabApp)
    deadline = time.monotonic() + 10
    while words not in text_on(app):
        assert time.monotonic() < deadline, text_on(app)
        await pilot.pause(0.01)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("key", ["P", "C", "plus", "m"])
async def test_progress_is_drawn_behind_a_dialog_with_few_bytes(
    key: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = a_session()
    session.run = a_run()
    async with dashboard(session, "moves", size) as pilot:
        app = pilot.app
        assert isinstance(app, TrimtabApp)
        await pressed(pilot, key)
        assert "1 of 4 done" in text_on(app)
        sent: list[int] = []
        display = app._display

        def count(screen: Any, update: Any) -> None:
            if isinstance(update, CompositorUpdate):
                sent.append(len(update.render_segments(app.console)))
            display(screen, update)

        monkeypatch.setattr(app, "_display", count)
        for done, ended in ((2, 1), (3, 3)):
            sent.clear()
            assert session.run is not None
            states = [*session.run.moves]
            # Not the one that the dialog is about, which says so when that has ended.
            states[ended] = replace(states[0], tp=states[ended].tp)
            session.run = replace(session.run, moves=tuple(states), moved_bytes=100 * GB * done)
            app.draw()
            await drawn(pilot, f"{done} of 4 done")
            assert 0 < sum(sent) < BUDGET_BYTES * size[0] * size[1] / (120 * 40)


async def test_dialog_beneath_a_question_is_not_repainted_endlessly() -> None:
    """It would be painted anew without end, and no key would have an effect."""
    for key in ("question_mark", "colon", "A"):
        session = a_session()
        session.address = Address("broker:9092")
        async with dashboard(session, "plan") as pilot:
            await pressed(pilot, key, "ctrl+q")
            assert isinstance(pilot.app.screen, ChoiceDialog)
            beneath = pilot.app.screen_stack[-2]
            await pressed(pilot, "enter")
            assert pilot.app.screen is beneath


@pytest.mark.parametrize("place", ["map", "plan"])
@pytest.mark.parametrize("key", ["a", "O", "A", "e", "colon"])
async def test_key_pressed_right_after_quit_opens_no_dialog(place: str, key: str) -> None:
    async with dashboard(a_session(), place) as pilot:
        for pressed in ("q", key):
            pilot.app.post_message(Key(pressed, pressed if len(pressed) == 1 else None))
        await rested(pilot)
    assert pilot.app.return_code == 0
