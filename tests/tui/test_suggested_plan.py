"""A whole plan, asked for on the Plan screen: the form, its making, and what is shown of it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from maps import demo_picture
from pictures import LOAD, SIZES, STATE, a_plan, a_session, body, dashboard, footer, pressed
from textual.pilot import Pilot
from textual.widgets import Button, Input, Label

from core.plan.plan import Plan
from core.plan.planner.evenness import evenness
from core.plan.planner.planner import suggest
from core.plan.planner.wanted import Wanted
from tui.hands import rested
from tui.made import helpful_first
from tui.screens import planning
from tui.screens.suggest_dialog import Choice, SuggestDialog
from tui.session import Session
from tui.widgets.lines import Tone, text_of
from tui.widgets.measure_bars import bar_lines
from tui.wish import Intent, Wish, read


def demo_session(plan: Plan | None = None) -> Session:
    session = a_session(plan or Plan())
    session.state, session.load = demo_picture()
    return session


def form(pilot: Pilot[int]) -> SuggestDialog:
    dialog = pilot.app.screen
    assert isinstance(dialog, SuggestDialog)
    return dialog


def wrong(pilot: Pilot[int], field: str) -> str:
    return str(form(pilot).query_one(f"#wrong-{field}", Label).render())


# -- what is typed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "field", "words"),
    [
        (Wish(Intent.DRAIN), "which", "Which: broker ids like 3,4."),
        (Wish(Intent.DRAIN, {Intent.DRAIN: "seven"}), "which", "Broker ids are written like 3,4."),
        (Wish(Intent.DRAIN, {Intent.DRAIN: "99"}), "which", "There is no broker 99."),
        (Wish(Intent.REPLACE, {Intent.REPLACE: "1"}), "which", "Old and new are written like 3:7."),
        (Wish(Intent.REPLICAS, {Intent.REPLICAS: "9"}), "which", "9 replicas on 6 brokers"),
        (Wish(topics="orders("), "topics", "No regular expression"),
        (Wish(topics="nobody"), "topics", "No topic has such a name."),
        (Wish(keep=".*"), "keep", "It keeps every topic as it is."),
        (Wish(exclude="99"), "exclude", "There is no broker 99."),
        (
            Wish(Intent.DRAIN, {Intent.DRAIN: "1"}, exclude="1"),
            "exclude",
            "Broker 1 is to be drained.",
        ),
        (Wish(band="0"), "band", "A band is 1 to 50 percent."),
        (Wish(max_bytes="lots"), "max_bytes", "Not a size: 'lots'."),
        (Wish(max_moves="-1"), "max_moves", "How many: a number like 200."),
        (Wish(within="soon"), "within", "Not a time: 'soon'."),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence_for_its_field(
    wish: Wish, field: str, words: str
) -> None:
    asked, found = read(wish, STATE)
    assert asked is None
    assert list(found) == [field]
    assert found[field].startswith(words)


def test_a_wish_is_read_into_what_the_planner_wants() -> None:
    wish = Wish(
        Intent.DRAIN,
        {Intent.DRAIN: "3", Intent.FILL: "x"},
        topics="orders",
        exclude="5",
        band="20 %",
        max_bytes="5GB",
        max_moves="7",
        within="6h",
    )
    asked, _ = read(wish, STATE)
    assert asked is not None
    wanted = asked.wanted
    assert (wanted.drain, wanted.fill, wanted.exclude, wanted.band) == ((3,), (), (5,), 0.2)
    assert (wanted.limits.most_bytes, wanted.limits.most_moves) == (5e9, 7)
    assert asked.within_seconds == 6 * 3600
    assert asked.leaving == (3,)


# -- the form ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_a_plan_is_asked_for_with_two_keys(size: tuple[int, int]) -> None:
    session = demo_session()
    async with dashboard(session, "plan", size) as pilot:
        await pressed(pilot, "a", "enter")
        assert session.made is not None
        assert session.plan.moves == suggest(*demo_picture(), Wanted()).plan.moves
        text = body(pilot)
        assert "balanced no → yes" in text
        assert f"{session.made.found.moves} moves" in text
        assert "The plan is made; u takes it back." in footer(pilot)


@pytest.mark.parametrize("size", SIZES)
async def test_the_whole_form_is_on_the_screen_and_its_buttons_can_be_clicked(
    size: tuple[int, int],
) -> None:
    session = demo_session()
    async with dashboard(session, "plan", size) as pilot:
        await pressed(pilot, "a")
        dialog = form(pilot)
        dialog.query_one(Choice).intent = Intent.DRAIN
        dialog.on_choice_turned()
        await rested(pilot)
        for widget in (*dialog.query(Input), *dialog.query(Button)):
            assert widget.region.height == 1
            assert widget.region.bottom <= size[1]
        assert await pilot.click("#cancel")
        await rested(pilot)
        assert not len(session.plan)
        assert session.wish is None


async def test_wrong_input_is_said_at_once_and_makes_no_plan() -> None:
    session = demo_session()
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a", "right", "right", "down", *"x")
        assert form(pilot).query_one("#which", Input).value == "7x"
        assert wrong(pilot, "which") == "Broker ids are written like 3,4."
        await pressed(pilot, "enter")
        assert form(pilot).query_one("#make", Button).disabled
        await pressed(pilot, "backspace")
        assert wrong(pilot, "which") == ""
        await pressed(pilot, "enter")
        assert all(7 not in move.after for move in session.plan)
        assert len(session.plan)


async def test_the_form_remembers_and_proposes_the_broker_of_the_maps_cursor() -> None:
    session = demo_session()
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a", "right", "right")
        assert form(pilot).query_one("#which", Input).value == "7"
        assert session.pointed_at == (7, "payments.v2")
        assert "payments.v2" in form(pilot).query_one("#topics", Input).placeholder
        await pressed(pilot, "down", "down", *"clicks", "enter")
        assert {move.tp.topic for move in session.plan} == {"clicks"}
        await pressed(pilot, "a")
        assert form(pilot).query_one("#topics", Input).value == "clicks"
        assert form(pilot).query_one(Choice).intent is Intent.DRAIN


# -- its making ----------------------------------------------------------------------------------


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Hold every planner back until this is set."""
    go_on = threading.Event()

    def waiting(*arguments: Any) -> Any:
        go_on.wait(60)
        return suggest(*arguments)

    monkeypatch.setattr(planning, "suggest", waiting)
    return go_on


async def test_esc_stops_a_plan_that_is_being_made(held: threading.Event) -> None:
    session = a_session()
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a")
        await pilot.press("enter")
        assert "making a plan · 0 s · esc stops it" in body(pilot)
        await pilot.press("j")
        await pilot.press("escape")
        assert "making a plan" not in body(pilot)
        assert "Stopped: the plan is as it was." in footer(pilot)
        held.set()
        await rested(pilot)
        assert session.plan.moves == a_plan().moves
        assert session.made is None


async def test_the_map_goes_on_while_a_plan_is_made_and_the_plan_comes(
    held: threading.Event,
) -> None:
    session = demo_session()
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "a")
        await pilot.press("enter")
        await pilot.press("1")
        await pilot.press("j")
        assert not len(session.plan)
        held.set()
        await rested(pilot)
        assert len(session.plan)


async def test_moves_that_no_longer_hold_are_left_out(held: threading.Event) -> None:
    session = demo_session()
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "a")
        await pilot.press("enter")
        before, _ = demo_picture()
        planned = suggest(*demo_picture(), Wanted()).plan
        gone = next(move for move in planned if move.adding)
        session.state = before.with_brokers(
            [replace(b, alive=b.id not in gone.adding[:1]) for b in before.brokers]
        )
        held.set()
        await rested(pilot)
        assert gone.tp not in session.plan.by_partition
        assert "left out: the cluster has changed meanwhile" in footer(pilot)


# -- what is shown of it -------------------------------------------------------------------------


async def test_a_plan_by_hand_is_had_back_with_one_key() -> None:
    session = a_session()
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a")
        meaning = str(form(pilot).query_one("#meaning", Label).render())
        assert "The plan's 3 moves make room for it; u brings them back." in meaning
        await pressed(pilot, "enter")
        suggested = session.plan.moves
        assert suggested != a_plan().moves
        await pressed(pilot, "u")
        assert session.plan.moves == a_plan().moves
        await pressed(pilot, "U")
        assert session.plan.moves == suggested


@pytest.mark.parametrize("key", ["x", "delete"])
async def test_a_move_has_its_reason_and_dropping_it_changes_the_effect(key: str) -> None:
    session = demo_session()
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "a", "enter")
        assert session.made is not None
        best = helpful_first(*demo_picture(), session.plan, session.made)
        assert best is not None
        first = session.plan.by_partition[best[0]]
        because = session.made.found.because[first.tp]
        assert f"why   {because.words} of its fair share" in body(pilot)
        count = len(session.plan)
        title = body(pilot).split("\n")[0]
        await pressed(pilot, key)
        assert len(session.plan) == count - 1
        assert first.tp not in session.plan.by_partition
        assert body(pilot).split("\n")[0] != title


@pytest.mark.parametrize("size", SIZES)
async def test_all_brokers_are_shown_and_scrolled(size: tuple[int, int]) -> None:
    session = demo_session()
    async with dashboard(session, "plan", size) as pilot:
        await pressed(pilot, "a", "enter", "b")
        text = body(pilot)
        for words in ("disk", "lead in", "repl", "b7 "):
            assert words in text
        await pressed(pilot, "G", "b")
        assert "partition" in body(pilot)


def test_what_stays_outside_the_band_is_first_and_amber() -> None:
    state, load = demo_picture()
    even = evenness(state, load, Plan())
    lines = bar_lines(even, 0, 76, 20)
    row, _ = even.furthest(even.before) or (0, None)
    assert text_of(lines[1]).startswith(f"b{even.brokers[row]} ")
    assert Tone.LOOK in {span.tone for span in lines[1]}


async def test_a_suggested_plan_is_drawn_with_ascii_only() -> None:
    async with dashboard(demo_session(), "plan", ascii_only=True) as pilot:
        await pressed(pilot, "a", "enter")
        assert body(pilot).isascii()
        await pressed(pilot, "b")
        assert body(pilot).isascii()


async def test_an_even_cluster_says_so_and_keeps_the_plan() -> None:
    session = a_session(Plan())
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a", "right", "right", "right", "right", "right", "enter")
        assert "Nothing to do: it is so already." in footer(pilot)
        assert LOAD is session.load
        assert not session.history.undo


async def test_a_deadline_chooses_the_throttle_that_keeps_it() -> None:
    session = demo_session()
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a", "up", "up", "up", *"6h", "enter")
        found = planning.time_of(*demo_picture(), session.plan, 6 * 3600.0)
        assert found is not None
        assert session.rate_chosen
        assert session.rate_bytes_per_s == found.recommended_bytes_per_s
