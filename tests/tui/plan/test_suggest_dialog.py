"""A whole plan, asked for on the Plan screen: the form, its making, and what is shown of it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import rested
from maps import demo_picture, text
from pictures import LOAD, SIZES, STATE, a_plan, a_session, body, dashboard, footer, label, pressed
from textual.pilot import Pilot
from textual.widgets import Button, Input, Label
from textual.worker import WorkerFailed

from core import paths
from core.plan.plan import Plan
from core.plan.planner.evenness import Evenness, evenness
from core.plan.planner.model.measures import Measure
from core.plan.planner.plan_request import PlanRequest
from core.plan.planner.planner import suggest_plan
from tui.drawing.spans import Tone, text_of
from tui.plan import planner_worker
from tui.plan import screen as plan_screen
from tui.plan.drawing.broker_tables import bar_lines, worst_spans
from tui.plan.planner_worker import PlannerWorker
from tui.plan.screen import PlanScreen
from tui.plan.suggest_dialog import SuggestDialog, Toggle
from tui.plan.suggest_form import CONTRADICTION, NAMES, SuggestForm, read
from tui.plan.suggested_plan import SuggestedPlan, helpful_first
from tui.session import Session


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
    ("form", "field", "words"),
    [
        (SuggestForm(drain="seven"), "drain", "Broker ids are written like 3,4."),
        (SuggestForm(drain="99"), "drain", "There is no broker 99."),
        (SuggestForm(add="99"), "add", "There is no broker 99."),
        (SuggestForm(brokers="1,x"), "brokers", "Broker ids are written like 3,4."),
        (SuggestForm(replace="1"), "replace", "Old and new are written like 3:7."),
        (SuggestForm(replicas="9"), "replicas", "9 replicas on 6 brokers"),
        (SuggestForm(replicas="many"), "replicas", "How many: a number like 3."),
        (SuggestForm(topics="orders("), "topics", "No regular expression"),
        (SuggestForm(topics="nobody"), "topics", "No topic has such a name."),
        (SuggestForm(keep=".*"), "keep", "It keeps every topic as it is."),
        (SuggestForm(keep="nosuch"), "keep", "No topic has such a name."),
        (SuggestForm(exclude="99"), "exclude", "There is no broker 99."),
        (SuggestForm(band="0"), "band", "A band is 1 to 50 percent."),
        (SuggestForm(max_bytes="lots"), "max_bytes", "Not a size: 'lots'."),
        (SuggestForm(max_moves="-1"), "max_moves", "How many: a number like 200."),
        (SuggestForm(per_broker="0"), "per_broker", "How many: a number like 50."),
        (SuggestForm(max_replicas="0"), "max_replicas", "How many: a number like 4000."),
        (SuggestForm(max_replicas="few"), "max_replicas", "How many: a number like 4000."),
        (SuggestForm(within="soon"), "within", "Not a time: 'soon'."),
        (
            SuggestForm(drain="1", exclude="1"),
            CONTRADICTION,
            "Broker 1 is to be drained and to be left as it is. "
            'Take it out of "drain" or of "exclude".',
        ),
        (
            SuggestForm(drain="1", add="1"),
            CONTRADICTION,
            'Broker 1 is to be drained and to be filled. Take it out of "drain" or of "add".',
        ),
        (
            SuggestForm(leaders=True, replicas="2"),
            CONTRADICTION,
            '"leaders only" copies nothing, and "replicas" has to copy. Leave out one of the two.',
        ),
        (
            SuggestForm(leaders=True, disks=True),
            CONTRADICTION,
            '"leaders only" copies nothing, and "log dirs" has to copy. Leave out one of the two.',
        ),
        (
            SuggestForm(balance=True, disks=True, drain="1"),
            CONTRADICTION,
            '"brokers too" evens all brokers out, and "drain" moves only what it has to.',
        ),
        (
            SuggestForm(brokers="1,2", add="3"),
            CONTRADICTION,
            '"only on" and "add" both say which brokers receive.',
        ),
        (
            SuggestForm(racks=True, ignore_racks=True),
            CONTRADICTION,
            '"repair racks" repairs what "ignore racks" ignores.',
        ),
    ],
)
def test_invalid_input_is_reported_in_a_sentence_for_its_field(
    form: SuggestForm, field: str, words: str
) -> None:
    asked, errors = read(form, STATE)
    assert asked is None
    assert list(errors) == [field]
    assert errors[field].startswith(words)
    assert "--" not in errors[field]


def test_every_invalid_field_is_reported() -> None:
    _, errors = read(SuggestForm(drain="99", add="x", band="0"), STATE)
    assert list(errors) == ["add", "band", "drain"]


def test_form_is_parsed_into_the_goal_and_limits_of_the_planner() -> None:
    form = SuggestForm(
        drain="3",
        replace="1:4",
        replicas="2",
        topics="orders",
        exclude="5",
        band="20 %",
        max_bytes="5GB",
        max_moves="7",
        per_broker="4",
        max_replicas="30",
        within="6h",
        keep_plan=True,
    )
    asked, _ = read(form, STATE, a_plan())
    assert asked is not None
    goal = asked.goal
    assert (goal.drain, goal.replace, goal.exclude) == ((3,), ((1, 4),), (5,))
    assert (goal.replicas, goal.band, goal.kept.moves) == (2, 0.2, a_plan().moves)
    limits = goal.limits
    assert (limits.max_bytes, limits.max_moves, limits.max_per_broker) == (5e9, 7, 4)
    assert goal.max_replicas == 30
    assert asked.within_seconds == 6 * 3600
    assert (
        asked.meaning == "Partitions get 2 replicas. What 1 holds goes to 4. Broker 3 is emptied."
    )


def test_max_replicas_limit_is_respected_and_named_in_notes_as_in_the_form() -> None:
    asked, _ = read(SuggestForm(drain="3", max_replicas="1"), STATE)
    assert asked is not None
    suggestion = suggest_plan(STATE, LOAD, asked.goal, NAMES)
    assert not suggestion.plan.moves
    assert any('"max replicas" allows no broker' in note for note in suggestion.notes)


# -- the form ------------------------------------------------------------------------------------


def planner(pilot: Pilot[int]) -> PlannerWorker:
    screen = pilot.app.get_screen("plan")
    assert isinstance(screen, PlanScreen)
    return screen.planner


@pytest.mark.parametrize("size", SIZES)
async def test_plan_is_requested_with_two_keys(size: tuple[int, int]) -> None:
    session = demo_session()
    async with dashboard(session, "plan", size) as pilot:
        await pressed(pilot, "a", "enter")
        assert planner(pilot).suggested is not None
        assert session.plan.moves == suggest_plan(*demo_picture(), PlanRequest()).plan.moves
        text = body(pilot)
        assert "balanced no → yes" in text
        assert f"{planner(pilot).suggested.result.moves} moves" in text
        assert "The plan is made; u takes it back." in footer(pilot)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("planned", [Plan(), a_plan()])
async def test_the_whole_form_is_on_the_screen_and_its_buttons_can_be_clicked(
    size: tuple[int, int], planned: Plan
) -> None:
    session = a_session(planned)
    async with dashboard(session, "plan", size) as pilot:
        await pressed(pilot, "a", *"1", "down", *"1")
        dialog = form(pilot)
        for widget in (*dialog.query(Input), *dialog.query(Toggle), *dialog.query(Button)):
            assert widget.region.height == 1
            assert widget.region.bottom <= size[1]
            assert widget.region.right <= size[0]
        meaning = dialog.query_one("#meaning", Label)
        assert "to be drained and to be filled" in str(meaning.render())
        assert await pilot.click("#cancel")
        await rested(pilot)
        assert session.plan.moves == planned.moves
        assert planner(pilot).form == SuggestForm()


@pytest.mark.parametrize("size", SIZES)
async def test_log_dirs_are_balanced_alone_and_together_with_brokers(size: tuple[int, int]) -> None:
    session = demo_session()
    async with dashboard(session, "plan", size) as pilot:
        planner(pilot).form = SuggestForm(band="5")
        await pressed(pilot, "a", *["up"] * 4, "space")
        meaning = form(pilot).query_one("#meaning", Label)
        assert str(meaning.render()) == (
            "Each broker's log dirs get within the band. Nothing moves between brokers."
        )
        await pressed(pilot, "enter")
        assert len(session.plan)
        assert all(move.before == move.after and move.dir_moves for move in session.plan)
        assert "of its fair share" in body(pilot)
        assert "made by hand" not in body(pilot)
        alone = len(session.plan)
        await pressed(pilot, "a", *["up"] * 3, "space", "enter")
        between = suggest_plan(*demo_picture(), PlanRequest(band=0.05)).plan.by_partition
        assert {m.tp: m.after for m in session.plan if m.reassigns} == {
            tp: move.after for tp, move in between.items()
        }
        assert any(move.dir_moves or move.new_log_dirs for move in session.plan)
        assert len(session.plan) > alone


def test_log_dir_where_a_replica_lands_is_named_only_for_the_suggested_move() -> None:
    state, load = demo_picture()
    asked, _ = read(SuggestForm(disks=True, balance=True), state)
    assert asked is not None
    suggested = SuggestedPlan(asked, suggest_plan(state, load, asked.goal))
    lands = next(move for move in suggested.result.plan if move.new_log_dirs)
    (path,) = lands.new_log_dirs.values()
    assert suggested.dir_words(lands) == f"lands in {path}"
    assert suggested.dir_words(lands.inverse()) == ""


async def test_invalid_input_is_reported_at_once_and_makes_no_plan() -> None:
    session = demo_session()
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a", *"7x")
        assert wrong(pilot, "drain") == "Broker ids are written like 3,4."
        await pressed(pilot, "enter")
        assert form(pilot).query_one("#make", Button).disabled
        await pressed(pilot, "backspace")
        assert wrong(pilot, "drain") == ""
        await pressed(pilot, "enter")
        assert all(7 not in move.after for move in session.plan)
        assert len(session.plan)


async def test_form_remembers_its_input_and_names_broker_and_topic_at_the_map_cursor() -> None:
    session = demo_session()
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a")
        assert session.cursor_at == (7, "payments.v2")
        assert "7" in form(pilot).query_one("#drain", Input).placeholder
        assert "payments.v2" in form(pilot).query_one("#topics", Input).placeholder
        await pressed(pilot, *"7", *["down"] * 5, *"clicks", "enter")
        assert {move.tp.topic for move in session.plan} == {"clicks"}
        await pressed(pilot, "a")
        assert form(pilot).query_one("#topics", Input).value == "clicks"
        assert form(pilot).query_one("#drain", Input).value == "7"


async def test_several_intents_become_one_plan() -> None:
    session = demo_session()
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a", *"7", *["down"] * 4, *"1,2,3,4,5,6")
        meaning = label(pilot, "meaning")
        assert meaning == "Broker 7 is emptied. The topics end on 1,2,3,4,5,6 only."
        await pressed(pilot, "enter")
        assert {b for move in session.plan for b in move.adding} <= {1, 2, 3, 4, 5, 6}
        assert len(session.plan)


async def test_planned_moves_stay_where_the_rest_is_planned_in_addition() -> None:
    session = a_session()
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a", *"3", *["up"] * 5, "space")
        assert form(pilot).query_one("#keep_plan", Toggle).ticked
        meaning = label(pilot, "meaning")
        assert "The plan's 3 moves stay as planned." in meaning
        await pressed(pilot, "enter")
        planned = session.plan.by_partition
        assert all(planned[move.tp] == move for move in a_plan())
        assert len(planned) > 3
        await pressed(pilot, "u")
        assert session.plan.moves == a_plan().moves


# -- its making ----------------------------------------------------------------------------------


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Hold every planner back until this is set."""
    go_on = threading.Event()

    def waiting(*arguments: Any) -> Any:
        go_on.wait(60)
        return suggest_plan(*arguments)

    monkeypatch.setattr(planner_worker, "suggest_plan", waiting)
    return go_on


async def test_esc_stops_planning_and_the_plan_stays(held: threading.Event) -> None:
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
        assert planner(pilot).suggested is None


async def test_bug_in_the_planner_is_reported_and_the_plan_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))

    def broken(*_: Any) -> Any:
        raise ValueError("no such rate")

    monkeypatch.setattr(planner_worker, "suggest_plan", broken)
    session = a_session()
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a", "enter")
        assert "This is a bug in trimtab" in footer(pilot)
        assert "making a plan" not in body(pilot)
        assert session.plan.moves == a_plan().moves


async def test_bug_in_a_thread_of_a_screen_is_reported_and_the_dashboard_continues(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))

    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("no such move")

    texts: list[str] = []

    async def used() -> None:
        async with dashboard(a_session(), "plan", (80, 24)) as pilot:
            texts.append(footer(pilot))
            await pressed(pilot, "1")
            texts.append(type(pilot.app.screen).__name__)

    monkeypatch.setattr(plan_screen, "assess_plan", broken)
    with pytest.raises(WorkerFailed):  # so tests hear of it, at their end
        await used()
    assert "This is a bug in trimtab" in texts[0]
    assert texts[1:] == ["MapScreen"]
    assert "in broken\n" in (paths.log_dir() / "bugs.log").read_text()


async def test_map_stays_usable_during_planning_and_the_plan_arrives(
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


async def test_suggested_moves_invalidated_during_planning_are_left_out(
    held: threading.Event,
) -> None:
    session = demo_session()
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "a")
        await pilot.press("enter")
        before, _ = demo_picture()
        planned = suggest_plan(*demo_picture(), PlanRequest()).plan
        gone = next(move for move in planned if move.adding)
        session.state = before.with_brokers(
            [replace(b, alive=b.id not in gone.adding[:1]) for b in before.brokers]
        )
        held.set()
        await rested(pilot)
        assert gone.tp not in session.plan.by_partition
        assert "left out: the cluster has changed meanwhile" in footer(pilot)


# -- what is shown of it -------------------------------------------------------------------------


async def test_manual_plan_replaced_by_a_suggestion_is_restored_with_one_key() -> None:
    session = a_session()
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a")
        meaning = label(pilot, "meaning")
        assert "The plan's 3 moves make room for it; u brings them back." in meaning
        await pressed(pilot, "enter")
        suggested = session.plan.moves
        assert suggested != a_plan().moves
        await pressed(pilot, "u")
        assert session.plan.moves == a_plan().moves
        await pressed(pilot, "U")
        assert session.plan.moves == suggested


@pytest.mark.parametrize("key", ["x", "delete"])
async def test_suggested_move_shows_its_reason_and_removing_it_changes_the_effect(key: str) -> None:
    session = demo_session()
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "a", "enter")
        assert planner(pilot).suggested is not None
        best = helpful_first(*demo_picture(), session.plan, planner(pilot).suggested)
        assert best is not None
        first = session.plan.by_partition[best[0]]
        reasons = planner(pilot).suggested.result.reasons[first.tp]
        assert f"why   {reasons.words} of its fair share" in body(pilot)
        count = len(session.plan)
        title = body(pilot).split("\n")[0]
        await pressed(pilot, key)
        assert len(session.plan) == count - 1
        assert first.tp not in session.plan.by_partition
        assert body(pilot).split("\n")[0] != title


@pytest.mark.parametrize(
    ("keys", "words"),
    [((*"7",), "why   leaves b7"), ((*["down"] * 3, *"2"), "why   from 3 to 2 replicas")],
)
async def test_requested_move_shows_the_request_as_its_reason(
    keys: tuple[str, ...], words: str
) -> None:
    async with dashboard(demo_session(), "plan") as pilot:
        await pressed(pilot, "a", *keys, "enter")
        assert words in body(pilot)
        assert "of its fair share" not in body(pilot)


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


def test_broker_furthest_outside_the_band_is_listed_first_and_in_amber() -> None:
    state, load = demo_picture()
    even = evenness(state, load, Plan())
    lines = bar_lines(even, 0, 76, 20)
    row, _ = even.furthest(even.before) or (0, None)
    assert text_of(lines[1]).startswith(f"b{even.brokers[row]} ")
    assert Tone.LOOK in {span.tone for span in lines[1]}


def test_worst_broker_is_named_a_second_time_where_it_differs_after_the_plan() -> None:
    even = Evenness(
        (1, 2),
        np.array([True, True]),
        np.array([m in (Measure.DISK, Measure.OUT) for m in Measure]),
        before=np.ones((2, len(Measure))),
        after=np.ones((2, len(Measure))),
        band=0.1,
    )
    even.before[0, Measure.OUT] = 2.9
    even.after[0, Measure.OUT] = 1.04
    even.after[1, Measure.DISK] = 0.91
    assert text_of(worst_spans(even)) == "worst b1 out 290% → b2 disk 91%"
    even.after[0, Measure.OUT] = 1.3
    assert text_of(worst_spans(even)) == "worst b1 out 290% → 130%"


async def test_a_suggested_plan_is_drawn_with_ascii_only() -> None:
    async with dashboard(demo_session(), "plan", ascii_only=True) as pilot:
        await pressed(pilot, "a", "enter")
        assert text(pilot).isascii()
        await pressed(pilot, "b")
        assert text(pilot).isascii()


async def test_nothing_to_do_on_an_even_cluster_is_reported_and_the_plan_stays() -> None:
    session = a_session(Plan())
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a", *["up"] * 6, "space", "enter")
        assert "Nothing to do: it is so already." in footer(pilot)
        assert LOAD is session.load
        assert not session.history.undo


async def test_a_deadline_chooses_the_throttle_that_keeps_it() -> None:
    session = demo_session()
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "a", *["up"] * 8, *"6h", "enter")
        estimate = planner_worker.estimate_plan_time(*demo_picture(), session.plan, 6 * 3600.0)
        assert estimate is not None
        assert session.rate_chosen
        assert session.rate_bytes_per_s == estimate.recommended_bytes_per_s


async def test_deadline_for_moves_of_unknown_size_is_not_reported_as_missed() -> None:
    session = demo_session()
    state, _ = demo_picture()
    diskless = [replace(broker, log_dirs=()) for broker in state.brokers]
    state = replace(state, size_bytes=np.full_like(state.size_bytes, -1)).with_brokers(diskless)
    session.state = state
    async with dashboard(session, "plan", (160, 50)) as pilot:
        await pressed(pilot, "a", *["up"] * 8, *"6h", "enter")
        assert len(session.plan)
        assert not session.rate_chosen
        assert "How long it takes is not known." in footer(pilot)
