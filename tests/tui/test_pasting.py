"""What is pasted while something is typed is typed: into every filter, and the palette."""

from __future__ import annotations

import pytest
from hands import rested
from maps import map_of, press, text, the_map
from pictures import a_run, a_session, body, dashboard, pressed
from textual import events
from textual.pilot import Pilot

from tui.drawing.canvas import Canvas
from tui.screen.command_palette import CommandScreen
from tui.screen.text_filter import pasted


async def paste(pilot: Pilot[int], words: str) -> None:
    pilot.app.post_message(events.Paste(words))
    await rested(pilot)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("orders", "orders"),
        ("\r\n orders.v2 \nand more", "orders.v2"),
        ("a\x1b[31mb\tc", "a[31mbc"),
        ("größe", "größe"),
        ("\n", ""),
        ("", ""),
    ],
)
def test_first_nonblank_line_is_pasted_without_control_characters(text: str, words: str) -> None:
    assert pasted(text) == words


async def test_paste_goes_into_the_maps_filter_only_while_it_is_edited() -> None:
    async with map_of() as pilot:
        await paste(pilot, "orders\n")
        assert the_map(pilot).view.filter == "", "nothing is being typed"
        await press(pilot, "/", "o")
        await paste(pilot, "rders\n")
        assert the_map(pilot).view.filter == "orders"
        assert " /orders " in text(pilot)
        await press(pilot, "enter")
        await paste(pilot, "x")
        assert the_map(pilot).view.filter == "orders"


@pytest.mark.parametrize("screen", ["groups", "timeline"])
async def test_paste_goes_into_the_filter_of_a_list_only_while_it_is_edited(
    screen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with dashboard(a_session(), screen) as pilot:
        shown = pilot.app.screen
        monkeypatch.setattr(type(shown), "can_filter", True)
        await paste(pilot, "billing")
        assert shown.words == ""  # type: ignore[attr-defined]
        await pressed(pilot, "/", "x")
        await paste(pilot, "billing\nand more")
        assert shown.words == "xbilling"  # type: ignore[attr-defined]
        await pressed(pilot, "backspace")
        assert shown.words == "xbillin"  # type: ignore[attr-defined]


async def test_paste_goes_into_the_filter_of_a_runs_log() -> None:
    session = a_session()
    session.run = a_run()
    async with dashboard(session, "moves") as pilot:
        await pressed(pilot, "l", "/")
        await paste(pilot, "clicks-9\n")
        assert "/ clicks-9 " in body(pilot)


async def test_paste_goes_into_the_command_palette() -> None:
    async with map_of() as pilot:
        await press(pilot, ":", "n", "down")
        await paste(pilot, "ext\n")
        screen = pilot.app.screen
        assert isinstance(screen, CommandScreen)
        assert ": next " in screen.query_one(Canvas).text
        assert screen._matching_actions
        assert all("next" in f"{a.name} {a.help}".lower() for a in screen._matching_actions)
