"""The Plan screen: what it says of a plan, and what keys and mouse do to it."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clusters import cluster, load_of, tp
from hands import rested
from maps import text
from pictures import (
    GB,
    LOAD,
    PROPOSED,
    SIZES,
    STATE,
    a_plan,
    a_session,
    body,
    dashboard,
    drawn,
    footer,
    label,
    pressed,
    spot,
)
from textual.widgets import Button

from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.view.heat import Metric
from core.plan.checks.catalogue import Finding, Severity, finding
from core.plan.copies import Side
from core.plan.effect import compute_effect
from core.plan.estimate.calibration import Calibration, Learned
from core.plan.estimate.estimate import Estimate
from core.plan.estimate.near_capacity import NearCapacity
from core.plan.plan import Move, Plan
from core.units import format_duration, format_rate
from tui.drawing.page import Page
from tui.drawing.spans import Tone, text_of, width_of
from tui.map.drawing.preview import changes, move_words
from tui.map.view import MapView, build_model
from tui.plan import apply_options as options_module
from tui.plan import screen as plan_module
from tui.plan.apply import ApplyDialog
from tui.plan.assessment import PlanAssessment, assess_plan, in_flight, total_to_copy
from tui.plan.drawing.broker_tables import Column, effect_lines, effect_sentence
from tui.plan.drawing.checks import check_lines, finding_lines
from tui.plan.drawing.diff import (
    change_words,
    consequence_of,
    diff_lines,
    replicas_of,
)
from tui.plan.drawing.page import Pane, PlanView, plan_lines
from tui.plan.drawing.throttle_table import throttle_lines
from tui.plan.drawing.time_lanes import lane_lines

RATE = 50_000_000


def an_assessment(rate: int = RATE) -> PlanAssessment:
    return assess_plan(STATE, LOAD, a_plan(), rate)


# -- renderers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "words", "consequence", "replicas"),
    [
        ((7, 2, 4), (12, 2, 4), "7→12", "leader 7→12", "●7 ○2 ○4 → ●12 ○2 ○4"),
        ((2, 7, 4), (2, 12, 4), "7→12", "", "●2 ○7 ○4 → ●2 ○12 ○4"),
        ((7, 2), (12, 3), "7→12 2→3", "leader 7→12", "●7 ○2 → ●12 ○3"),
        ((7, 2), (7, 2, 4), "+4", "RF 2→3", "●7 ○2 → ●7 ○2 ○4"),
        ((7, 2, 4), (7, 2), "−4", "RF 3→2", "●7 ○2 ○4 → ●7 ○2"),
        ((7, 2, 4), (2, 7, 4), "order", "leader 7→2", "●7 ○2 ○4 → ●2 ○7 ○4"),
    ],
)
def test_move_is_described_in_words_and_in_replica_marks(
    before: tuple[int, ...], after: tuple[int, ...], words: str, consequence: str, replicas: str
) -> None:
    move = Move(tp("t-0"), before, after)
    assert change_words(before, after) == words
    assert consequence_of(move) == consequence
    assert text_of(replicas_of(move)) == replicas


def test_a_move_between_log_dirs_says_on_which_broker() -> None:
    move = Move(tp("t-0"), (7, 2), (7, 2), None, ("any", "/d2"), ("any", "/d1"))
    assert change_words(move.before, move.after, tuple(move.dir_moves)) == "b2 dir"
    assert move_words(move) == "2 dir"
    plan = Plan.of([replace(move, tp=STATE.tp(0))])
    assert total_to_copy(STATE, plan) == (STATE.partition_size_bytes[0], 0)


def test_leaving_replica_is_amber_and_arriving_replica_is_blue() -> None:
    tones = {span.text: span.tone for span in replicas_of(Move(tp("t-0"), (7, 2), (12, 2)))}
    assert (tones["●7"], tones["●12"], tones["○2"]) == (Tone.LOOK, Tone.YOURS, Tone.DIM)


def test_total_to_copy_counts_each_new_replica_and_those_of_unknown_size() -> None:
    plan = a_plan().with_target(STATE, tp("clicks-1"), (5, 6, 4))
    assert total_to_copy(STATE, plan) == (30 * GB, 1)


def test_reorder_of_replicas_is_marked_as_without_data() -> None:
    text = drawn(diff_lines(STATE, a_plan(), 0, 80, 20, focused=True))
    order = next(line for line in text.split("\n") if "order" in line)
    assert "no data" in order
    assert "●1 ○2 ○6 → ●2 ○1 ○6" in order


def test_the_cursor_is_in_view_in_a_long_plan() -> None:
    state = cluster({f"t-{p}": [1, 2] for p in range(40)}, brokers=[1, 2, 3], size_bytes=GB)
    plan = Plan()
    for p in range(40):
        plan = plan.with_move(state, tp(f"t-{p}"), 1, 3)
    lines = diff_lines(state, plan, 33, 80, 7, focused=True)
    assert len(lines) == 7
    assert sum("▸" in text_of(line) for line in lines) == 1
    assert "p33" in next(text_of(line) for line in lines if "▸" in text_of(line))


def test_findings_come_worst_first_and_the_rest_is_counted() -> None:
    findings = [
        finding("same-broker-twice", "Two replicas of t-0 on broker 3."),
        *(Finding("rack-spread", Severity.UNSAFE, f"t-{p} loses a rack.") for p in range(5)),
    ]
    lines = finding_lines(findings, 80, 3)
    assert [text_of(line)[:1] for line in lines] == ["✗", "▲", " "]
    assert lines[0][0].tone is Tone.ACT
    assert "4 more findings" in text_of(lines[2])


def test_long_finding_is_cut_to_three_lines_with_an_ellipsis() -> None:
    long = finding("rack-spread", "Broker 3 takes more than its share. " * 9)
    lines = [text_of(line).rstrip() for line in finding_lines([long], 80, 6)]
    assert len(lines) == 3
    assert [line.endswith("…") for line in lines] == [False, False, True]


UNSAFE = Finding("rack-spread", Severity.UNSAFE, "t-0 goes from 3 racks to 2.")
LONG = "Broker 3 ends with 12 GB more than its share: " + "t-0 has to stay where it is, " * 6


@pytest.mark.parametrize("width", [40, 78, 160])
@pytest.mark.parametrize("height", [2, 3, 4, 9])
@pytest.mark.parametrize(
    ("notes", "findings"),
    [([LONG], []), ([LONG, "And so on."], [UNSAFE]), ([LONG] * 3, [UNSAFE] * 3), (["Short."], [])],
)
def test_cut_or_omitted_notes_are_marked_and_never_hide_a_finding(
    notes: list[str], findings: list[Finding], width: int, height: int
) -> None:
    lines = check_lines(notes, findings, width, height)
    drawn = [text_of(line).rstrip() for line in lines]
    assert len(lines) <= height
    assert max(width_of(line) for line in lines) <= width
    whole = " ".join("".join(drawn).split())
    if not all("".join(note.split()) in "".join(whole.split()) for note in notes):
        assert any(line.endswith("…") or "…" in line or "more note" in line for line in drawn)
    assert drawn[0].startswith("▲ Broker 3") or drawn[0].startswith("▲ Short.")
    if findings:
        assert any("rack-spread" in line for line in drawn), "a finding is never behind notes"


def test_single_line_names_the_worst_finding_and_counts_the_rest() -> None:
    (line,) = finding_lines([UNSAFE, UNSAFE, UNSAFE], 80, 1)
    assert text_of(line).startswith("▲ rack-spread  t-0 goes from 3 racks to 2.")
    assert text_of(line).endswith(" and 2 more findings")


def test_rate_that_never_finishes_is_red_and_its_finding_gives_the_reason() -> None:
    rows = assess_plan(STATE, load_of(STATE, 40e6), a_plan(), 1_000_000)
    chosen = rows.row_of(1_000_000)
    line = throttle_lines(rows.table, chosen, 60, 12, focused=True)[1 + chosen]
    assert "never" in text_of(line)
    assert {span.tone for span in line if "never" in span.text} == {Tone.ACT}
    assert rows.at(1_000_000).findings[0].id == "never"
    view = PlanView(STATE, a_plan(), rows, 1_000_000, 0, Pane.THROTTLE)
    assert "never: Broker 1 has to send" in drawn(plan_lines(view, 120, 37))


def test_a_rate_that_comes_near_a_brokers_capacity_is_marked() -> None:
    brokers = [replace(b, out_capacity_bytes_per_s=80e6) for b in STATE.brokers]
    state = STATE.with_brokers(brokers)
    assessment = assess_plan(state, LOAD, a_plan(), RATE)
    row = assessment.row_of(RATE)
    crowd = assessment.table[row].near_capacity
    assert crowd is not None
    assert crowd.broker == 1
    assert crowd.fraction > 0.8
    table = drawn(throttle_lines(assessment.table, row, 60, 12, focused=True))
    assert f"▲ b1 {crowd.fraction:.0%}" in table
    assert all(
        estimate.near_capacity is None
        for estimate in assess_plan(STATE, LOAD, a_plan(), RATE).table
    )


def test_existing_follower_traffic_counts_towards_a_brokers_inbound_capacity() -> None:
    state = cluster({"t-0": [0, 1], "t-1": [1, 2]}, size_bytes=10**9)
    brokers = [replace(broker, in_capacity_bytes_per_s=100e6) for broker in state.brokers]
    state, plan = state.with_brokers(brokers), Plan.of([Move(tp("t-0"), (0, 1), (0, 2))])
    assessment = assess_plan(state, load_of(state, {"t-0": 1e6, "t-1": 40e6}), plan, 50_000_000)
    assert assessment.at(50_000_000).estimate.near_capacity == NearCapacity(2, Side.FOLLOWER, 0.9)


@pytest.mark.parametrize("size", SIZES)
async def test_brokers_are_shown_over_time_while_a_rate_is_chosen(size: tuple[int, int]) -> None:
    async with dashboard(a_session(), "plan", size) as pilot:
        assert "over time" not in body(pilot)
        await pressed(pilot, "T")
        lanes = [line for line in body(pilot).splitlines() if "█████" in line]
        assert [line.split()[:2] for line in lanes[:2]] == [["b1", "sends"], ["b4", "receives"]]
        assert re.search(r"b4 +disk +\+", body(pilot))
        slow = [line.split()[2] for line in lanes]
        await pressed(pilot, "j")
        fast = [line.split()[2] for line in body(pilot).splitlines() if "█████" in line]
        assert fast != slow
        await pressed(pilot, "T")
        assert "over time" not in body(pilot)
        assert "orders" in body(pilot)


def test_timeline_lanes_fit_the_width_and_mark_a_broker_near_its_capacity() -> None:
    brokers = [replace(b, out_capacity_bytes_per_s=100e6) for b in STATE.brokers]
    state = STATE.with_brokers(brokers)
    assessment = assess_plan(state, LOAD, a_plan(), 75_000_000)
    goes = assessment.at(75_000_000).timeline
    assert goes is not None
    for width in (52, 64, 80, 120):
        lines = lane_lines(goes, width, 8)
        assert {width_of(line) for line in lines} == {width}
        assert "until" in text_of(lines[1])
        assert format_duration(goes.lanes[0].ends) in text_of(lines[2])
    sends = lane_lines(goes, 80, 8)[2]
    assert text_of(sends).split()[0] == "b1"
    assert {span.tone for span in sends if span.text == "!"} == {Tone.LOOK}
    assert [text_of(line).split()[1] for line in lane_lines(goes, 80, 8)[2:]] == [
        "sends",
        "receives",
        "disk",
    ]
    few = lane_lines(goes, 80, 3)
    assert len(few) == 3
    assert "more" not in text_of(few[1])


def test_rate_table_holds_the_chosen_rate_among_round_rates_in_order() -> None:
    rates = [row.rate_bytes_per_s for row in an_assessment(37_000_000).table]
    assert 37_000_000 in rates
    assert rates == sorted(rates)
    assert len(rates) > 3


def test_impact_shows_before_after_and_skew() -> None:
    effect, parts = compute_effect(STATE, LOAD, a_plan()), an_assessment().parts
    text = drawn(effect_lines(effect, parts, 60, 10))
    assert "8.0 → 0" in text or "8 → 0" in text
    assert "skew" in text
    assert effect_sentence(effect, parts).startswith("in MB/s")


@pytest.mark.parametrize(
    ("values", "parts", "expected"),
    [
        ([1, 1, 1], [1 / 3] * 3, 1.0),
        ([3, 0, 0], [1 / 3] * 3, 3.0),
        ([3, 0, 0], [0.5, 0.5, 0], 2.0),
        ([3, 1], [0.75, 0.25], 1.0),
        ([0, 0], [0.5, 0.5], 1.0),
    ],
)
def test_skew_is_the_largest_ratio_of_load_to_fair_share(
    values: list[float], parts: list[float], expected: float
) -> None:
    amounts = np.array(values, np.float64)
    assert Column("in", amounts, amounts, np.array(parts)).skew(amounts) == pytest.approx(expected)


def test_broker_that_is_down_has_no_fair_share_in_any_display_of_skew() -> None:
    """On two of four live brokers, and 6 is down: the skew is 2 on the map, beside it, in words."""
    state = cluster({"t-0": [1, 2], "t-1": [2, 1]}, brokers=[1, 2, 3, 4, 6], dead=[6])
    load, plan = load_of(state, 4e6), Plan().with_move(state, tp("t-0"), 1, 3)
    model, effect = build_model(state, load, MapView()), compute_effect(state, load, plan)
    beside = changes(model, effect, [1, 3])[-1]
    assert (beside.name, beside.before) == ("skew", "2.0×")
    assessment = assess_plan(state, load, plan, RATE)
    assert "skew 2.0× → 2.0×" in effect_sentence(assessment.rows[0].effect, assessment.parts)
    assert model.totals.skew(Metric.IN) == 2.0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("assessed", [True, False])
def test_plan_page_never_exceeds_its_height(size: tuple[int, int], assessed: bool) -> None:
    width, height = size[0], size[1] - 2
    for plan in (a_plan(), Plan()):
        view = PlanView(STATE, plan, an_assessment() if assessed else None, RATE, 0)
        assert len(plan_lines(view, width, height)) <= height


def test_moves_in_flight_are_read_from_the_state() -> None:
    state = cluster({"t-0": [1, 2, 3]}, adding={"t-0": [3]}, removing={"t-0": [1]})
    assert in_flight(state)[tp("t-0")].target == (2, 3)


# -- the screen ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_plan_screen_shows_moves_checks_and_throttle_at_each_size(
    size: tuple[int, int],
) -> None:
    async with dashboard(a_session(), "plan", size) as pilot:
        text = body(pilot)
        for words in ("2 moves, 30 GB to copy", "orders", "1→4", "checks", "throttle", "50 MB/s"):
            assert words in text
        assert "b1" in text


async def test_title_that_does_not_fit_the_page_ends_in_an_ellipsis() -> None:
    async with dashboard(a_session(), "plan", (40, 24)) as pilot:
        title = body(pilot).split("\n")[0]
        assert (len(title), title[-1]) == (40, "…")


async def test_apply_key_is_shown_in_the_footer_of_a_small_terminal() -> None:
    async with dashboard(a_session(), "plan", (80, 24)) as pilot:
        assert "A apply…" in footer(pilot)
        assert "x drop" in footer(pilot)
        await pressed(pilot, "1")
        assert "A apply…" in footer(pilot)


@pytest.mark.parametrize("page", ["b", "i", "T"])
async def test_esc_goes_back_to_the_moves(page: str) -> None:
    async with dashboard(a_session(), "plan", (80, 24)) as pilot:
        moves, shown = body(pilot), footer(pilot)
        await pressed(pilot, page)
        assert (body(pilot), footer(pilot)) != (moves, shown)
        await pressed(pilot, "escape")
        assert (body(pilot), footer(pilot)) == (moves, shown)


async def test_empty_plan_is_reported_and_cannot_be_applied() -> None:
    async with dashboard(a_session(Plan()), "plan") as pilot:
        assert "The plan is empty." in body(pilot)
        await pressed(pilot, "x", "T", "down", "A")
        assert "nothing to apply" in footer(pilot)


async def test_removal_of_a_move_can_be_undone_and_redone() -> None:
    session = a_session()
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "j", "x")
        assert [str(move.tp) for move in session.plan] == ["clicks-0", "orders-1"]
        assert "1 move, 10 GB to copy" in body(pilot)
        await pressed(pilot, "u")
        assert len(session.plan) == 3
        await pressed(pilot, "U")
        assert len(session.plan) == 2


async def test_proposed_rate_follows_the_plan_until_a_rate_is_chosen() -> None:
    session = a_session()
    async with dashboard(session, "plan") as pilot:
        assert session.rate_bytes_per_s == PROPOSED
        await pressed(pilot, "j", "x")
        assert session.rate_bytes_per_s != PROPOSED
        await pressed(pilot, "u")
        assert session.rate_bytes_per_s == PROPOSED
        assert not session.rate_chosen


async def test_a_rate_is_chosen_with_the_keys_and_kept_in_the_session() -> None:
    session = a_session()
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "T", "down")
        assert session.rate_bytes_per_s == 2 * PROPOSED
        await pressed(pilot, "up", "up")
        assert session.rate_bytes_per_s == PROPOSED // 2
        await pressed(pilot, "T", "j", "x")
        assert session.rate_bytes_per_s == PROPOSED // 2


@pytest.fixture
def estimating(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Hold every assessment back until this is set."""
    go_on = threading.Event()

    def held(*arguments: Any, **more: Any) -> PlanAssessment:
        go_on.wait(60)
        return assess_plan(*arguments, **more)

    for module in (plan_module, options_module):
        monkeypatch.setattr(module, "assess_plan", held)
    return go_on


async def test_estimate_of_the_previous_plan_is_not_shown_under_a_changed_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A suggested plan had shown the time, the rates and the groups of the one before it."""
    go_on, first = threading.Event(), a_plan()

    def held(
        state: ClusterState, load: Load, plan: Plan, *rest: Any, **more: Any
    ) -> PlanAssessment:
        if plan.moves != first.moves:
            go_on.wait(60)
        return assess_plan(state, load, plan, *rest, **more)

    monkeypatch.setattr(plan_module, "assess_plan", held)
    session = a_session()
    try:
        async with dashboard(session, "plan") as pilot:
            seconds = assess_plan(STATE, LOAD, first, PROPOSED).table[-1].seconds
            assert seconds is not None
            time = format_duration(seconds)
            assert time in body(pilot)
            await pilot.press("x")
            await pilot.pause()
            assert time not in body(pilot)
            assert "estimating" in body(pilot)
            go_on.set()
    finally:
        go_on.set()


@pytest.mark.parametrize("size", SIZES)
async def test_keys_pressed_before_the_rates_are_known_take_effect_once_they_are(
    size: tuple[int, int], estimating: threading.Event
) -> None:
    session = a_session()
    async with dashboard(session, "plan", size, wait=False) as pilot:
        await pilot.press("T", "G", "k")
        await pilot.pause()
        assert "estimating; your choice is taken then" in body(pilot)
        estimating.set()
        await rested(pilot)
        known = [row.rate_bytes_per_s for row in an_assessment(session.rate_bytes_per_s).table]
        assert session.rate_bytes_per_s == known[-2]
        assert session.rate_chosen


async def test_apply_dialog_shows_the_requested_rate_before_apply_is_enabled(
    estimating: threading.Event,
) -> None:
    session = a_session()
    async with dashboard(session, "plan", wait=False) as pilot:
        await pilot.press("T", "G", "k", "A", *"prod-eu")
        await pilot.pause()
        dialog = pilot.app.screen
        assert isinstance(dialog, ApplyDialog)
        assert dialog.query_one("#apply", Button).disabled
        estimating.set()
        await rested(pilot)
        wished = an_assessment(session.rate_bytes_per_s).table[-2].rate_bytes_per_s
        summary = label(pilot, "summary")
        assert f"{format_rate(wished)} a side" in summary
        assert not dialog.query_one("#apply", Button).disabled


@pytest.mark.parametrize("size", SIZES)
async def test_the_mouse_chooses_rates_and_moves(size: tuple[int, int]) -> None:
    session = a_session()
    async with dashboard(session, "plan", size) as pilot:
        assert await pilot.click(Page, offset=spot(pilot, "100 MB/s"))
        await rested(pilot)
        assert session.rate_bytes_per_s == 100_000_000
        assert await pilot.click(Page, offset=spot(pilot, "p1 "))
        await pressed(pilot, "x")
        assert [str(move.tp) for move in session.plan] == ["clicks-0", "orders-0"]


async def test_a_new_rate_is_assessed_when_the_table_lacks_it() -> None:
    session = a_session()
    session.rate_bytes_per_s = 33_000_000
    async with dashboard(session, "plan") as pilot:
        assert "33 MB/s" in body(pilot)


async def test_the_plan_is_exported_as_kafkas_json(tmp_path: Path) -> None:
    target = tmp_path / "p.json"
    async with dashboard(a_session(), "plan") as pilot:
        await pressed(pilot, "e")
        pilot.app.screen.query_one("#answer").value = str(target)  # type: ignore[attr-defined]
        await pressed(pilot, "enter")
        assert "√" in footer(pilot)
    written = json.loads(target.read_text())
    assert {(p["topic"], p["partition"]) for p in written["partitions"]} == {
        ("clicks", 0),
        ("orders", 0),
        ("orders", 1),
    }


async def test_export_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    async with dashboard(a_session(), "plan") as pilot:
        await pressed(pilot, "e")
        field = pilot.app.screen.query_one("#answer")
        field.value = str(tmp_path / "nowhere" / "p.json")  # type: ignore[attr-defined]
        await pressed(pilot, "enter")
        assert "Nothing was written" in footer(pilot)
        await pressed(pilot, "e", "escape")
        assert "written" not in footer(pilot)


async def test_plan_screen_is_drawn_with_ascii_only() -> None:
    async with dashboard(a_session(), "plan", ascii_only=True) as pilot:
        assert text(pilot).isascii()
        assert "*1 o2 o6 > *2 o1 o6" in text(pilot)


def test_an_estimate_that_is_unknown_shows_a_question_mark() -> None:
    unknown = Estimate(RATE, None, None, None, None, (), 0, note="The size of t-0 is not known.")
    text = drawn(throttle_lines([unknown], 0, 60, 3, focused=False))
    assert "?" in text


# -- what earlier runs have taught -----------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_estimated_times_name_the_number_of_runs_they_were_learned_from(
    size: tuple[int, int],
) -> None:
    session = a_session()
    session.calibration = Calibration(dict.fromkeys(Side, Learned(4, 1.25, 1.0)))
    words = "learned from 4 runs here: 25 % longer"
    async with dashboard(session, "plan", size) as pilot:
        assert words in body(pilot)
        await pressed(pilot, "A")
        assert words in label(pilot, "summary")
    slower = assess_plan(STATE, LOAD, a_plan(), RATE, None, session.calibration).at(RATE).estimate
    usual = an_assessment().at(RATE).estimate
    assert (slower.seconds or 0) > 1.2 * (usual.seconds or 0)
