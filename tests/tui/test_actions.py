"""The table of actions: footer, help, palette, docs and handlers agree; read-only greys writes."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path

import pytest
from hands import operated
from keys_page import key_table
from maps import lines, map_of, press, session, text, the_map

from tui.actions.action import CARRY, GLOBAL, MAP, PAST_MAP, SCREENS, Action
from tui.actions.table import ACTIONS, actions_of, footer_of, keys_of
from tui.app import SCREEN_CLASSES, TrimtabApp
from tui.screen.command_palette import matching_actions
from tui.screen.footer import footer_row
from tui.screen.help import HELP_AT, NAME_WIDTH, help_rows
from tui.session import Session
from tui.theming import ASCII, load_palettes

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "keys.md"
AVOIDED = {"ctrl+a", "ctrl+b", "ctrl+s", "ctrl+q", "ctrl+z", "ctrl+c", "ctrl+h", "ctrl+i"}


def test_the_docs_hold_the_key_table() -> None:
    assert DOCS.read_text(encoding="utf-8") == key_table(), "run: make docs"


def handler_of(action: Action, place: str) -> object:
    name = f"action_{(action.call or action.id).split('(')[0]}"
    if place == GLOBAL:
        return getattr(TrimtabApp, name, None)
    module, attribute = SCREEN_CLASSES["map" if place in (CARRY, PAST_MAP) else place]
    return getattr(getattr(importlib.import_module(module), attribute), name, None)


@pytest.mark.parametrize("place", [GLOBAL, CARRY, PAST_MAP, *SCREENS])
def test_every_action_has_a_handler(place: str) -> None:
    missing = [a.id for a in actions_of(place) if handler_of(a, place) is None]
    assert missing == []


@pytest.mark.parametrize("place", [CARRY, PAST_MAP, *SCREENS])
def test_no_key_means_two_things_in_one_place(place: str) -> None:
    keys = Counter(key for action in actions_of(place) for key in action.keys)
    assert [key for key, count in keys.items() if count > 1] == []


def test_keys_that_multiplexers_and_terminals_take_are_left_alone() -> None:
    used = {key for action in ACTIONS for key in action.keys}
    assert used & AVOIDED == set()
    assert not any(key.startswith(("alt+", "f1", "f2")) for key in used)


def test_user_defined_keys_replace_the_default_keys_of_an_action() -> None:
    grab = next(action for action in actions_of(MAP) if action.id == "grab")
    assert keys_of(grab, {"map.grab": "x,y"}) == ("x", "y")
    assert keys_of(grab, {}) == ("space",)


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_the_footer_keeps_help_however_narrow(width: int) -> None:
    palette = load_palettes()["dark"]
    actions = footer_of((MAP, GLOBAL))
    words = {action.id: action.name for action in actions}
    row = footer_row(actions, words, {}, width, palette, writable=True)
    assert row.text.rstrip().endswith("? keys")
    assert len(row.text) == width


async def test_user_defined_key_triggers_its_action() -> None:
    app = TrimtabApp(Session("x"), user_keys={"quit": "x"})
    async with operated(app) as pilot:
        await pilot.press("x")
        await pilot.pause()
        assert not app.is_running


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_help_lists_the_keys_of_the_screen_and_global_keys_and_escape_closes_it(
    size: tuple[int, int],
) -> None:
    async with map_of(size) as pilot:
        await press(pilot, "question_mark")
        assert "Map" in text(pilot)
        assert "grab" in text(pilot)
        await press(pilot, *["pagedown"] * 6)
        assert "quit" in text(pilot)
        await press(pilot, "escape")
        assert the_map(pilot)


@pytest.mark.parametrize("place", SCREENS)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_help_is_never_cut_off(place: str, width: int) -> None:
    palette = load_palettes()["dark"]
    rows = help_rows(place, False, "start with --write", {}, width, palette, ASCII, drills=True)
    help_text = " ".join("".join(row.chars)[HELP_AT:].strip() for row in rows)
    for action in (*actions_of(place), *actions_of(GLOBAL)):
        assert action.help in " ".join(help_text.split())


def test_action_names_fit_the_name_column_of_the_help() -> None:
    assert all(len(action.name) < NAME_WIDTH for action in ACTIONS)


async def test_palette_marks_where_a_line_is_cut_off() -> None:
    async with map_of((60, 24), ascii_only=True) as pilot:
        await press(pilot, "colon", "e", "n", "t", "e", "r")
        assert "Zoom in: the partitions of a topic~  enter" in text(pilot)


async def test_palette_finds_actions_by_name_by_key_and_by_description() -> None:
    actions = [*actions_of(MAP), *actions_of(GLOBAL)]
    assert matching_actions(actions, "q", {})[0].id == "quit"
    assert matching_actions(actions, "metr", {})[0].id == "metric"
    assert matching_actions(actions, "clipboard osc", {}) == []
    assert matching_actions(actions, "osc", {})[0].id == "copy"
    async with map_of() as pilot:
        await press(pilot, "colon", "m", "e", "t", "r", "enter")
        assert "metric: out" in lines(pilot)[-1]


async def test_palette_names_the_screen_of_a_command_that_is_not_available_here() -> None:
    async with map_of() as pilot:
        await press(pilot, "colon", *"retarg")
        (line,) = (line for line in lines(pilot) if "no command here" in line)
        assert "on Moves: retarget" in line
        await press(pilot, *"xyz")
        (line,) = (line for line in lines(pilot) if "no command" in line)
        assert "no command is called that" in line
        await press(pilot, "enter")
        assert the_map(pilot)


async def test_colon_q_quits() -> None:
    async with map_of() as pilot:
        app = pilot.app
        await pilot.press("colon", "q", "enter")
        await pilot.pause()
        assert not app.is_running


async def test_tabs_in_the_header_open_screens() -> None:
    async with map_of() as pilot:
        await pilot.click("#header", offset=(lines(pilot)[0].index("2 Plan"), 0))
        await pilot.pause()
        assert pilot.app.screen.PLACE == "plan"


async def test_pause_is_shown_in_the_header() -> None:
    async with map_of() as pilot:
        await press(pilot, "p")
        assert "paused" in lines(pilot)[0]
        assert session(pilot).paused


async def test_copy_says_what_it_copied() -> None:
    async with map_of() as pilot:
        await press(pilot, "y")
        assert lines(pilot)[-1].startswith(" Copied: ")
        assert "on broker 7" in lines(pilot)[-1]


async def test_screenshot_is_written_to_an_svg_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with map_of() as pilot:
        await press(pilot, "S")
    (path,) = tmp_path.glob("trimtab-map-*.svg")
    assert "payments.v2" in path.read_text(encoding="utf-8")
