"""Applying: nothing starts by accident, and what started is shown."""

from __future__ import annotations

import errno
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clusters import cluster, load_of, tp
from hands import rested
from pictures import (
    MB,
    PROPOSED,
    SIZES,
    STATE,
    a_plan,
    a_run,
    a_session,
    at,
    body,
    button,
    dashboard,
    footer,
    in_sight,
    label,
    pressed,
    publish_events,
)
from textual import events
from textual.widgets import Input, Label

from core.cluster.connect import Address
from core.errors import TrimtabError
from core.plan.checks.catalogue import finding
from core.plan.copies import Side
from core.plan.plan import Plan
from core.run.reporting.views import RunStatus
from tui.dialogs.base import ChoiceDialog
from tui.feed.events import RunChanged
from tui.plan import apply_options as options_module
from tui.plan.apply import ApplyDialog
from tui.plan.apply_options import (
    AdaptRate,
    AllowCheck,
    ElectLeaders,
    PauseIfRemoved,
    PlanToApply,
    SpareBrokers,
)
from tui.plan.assessment import PlanAssessment
from tui.session import PlanHistory, Session


def unsafe_session() -> Session:
    """A plan that takes a partition from three racks to two."""
    session = a_session()
    session.history = PlanHistory(a_plan().with_move(STATE, tp("orders-2"), 4, 5))
    return session


@pytest.mark.parametrize("size", SIZES)
async def test_cluster_name_enables_apply_and_the_started_run_is_shown(
    size: tuple[int, int], started: list[tuple[Any, ...]]
) -> None:
    session = a_session()
    async with dashboard(session, "plan", size) as pilot:
        await pressed(pilot, "A")
        assert isinstance(pilot.app.screen, ApplyDialog)
        assert pilot.app.focused is pilot.app.screen.query_one("#cancel")
        assert button(pilot, "apply").disabled
        summary = label(pilot, "summary")
        assert "delete none of these topics and add no partitions to them." in summary
        await pressed(pilot, *"prod-e")  # what is typed at first is the name
        assert button(pilot, "apply").disabled
        await pressed(pilot, "u")
        assert not button(pilot, "apply").disabled
        assert started == []
        await pressed(pilot, "enter", "enter")
        assert type(pilot.app.screen).__name__ == "MovesScreen"
        assert len(session.plan) == 3, "until the run has passed its own checks"
        await publish_events(pilot, RunChanged(a_run()))
        assert len(session.plan) == 0
    [(address, cluster_id, plan, options, estimate)] = started
    assert (str(address.bootstrap), cluster_id) == ("sim:/nowhere", "test-cluster")
    assert plan.moves == a_plan().moves
    assert options.cluster_name == "prod-eu"
    assert not options.pause_if_removed
    assert options.rate_bytes_per_s == estimate["rate_bytes_per_s"] == PROPOSED


async def test_a_plan_stays_until_its_run_has_passed_preflight(
    started: list[tuple[Any, ...]],
) -> None:
    session = a_session()
    plan = session.plan
    async with dashboard(session, "plan", (80, 24)) as pilot:
        await pressed(pilot, "A", *"prod-eu", "enter", "enter")
        await publish_events(pilot, RunChanged(a_run(RunStatus.STARTING, passed_preflight=False)))
        assert session.plan.moves == plan.moves
        await pressed(pilot, "2", "A")
        assert "0101-021101 is" in footer(pilot)
        why = "Refused by a check: dead-broker. Broker 4 is down."
        refused = a_run(RunStatus.FAILED, passed_preflight=False, why=why, ended_at=at(2, 12))
        await publish_events(pilot, RunChanged(refused))
        assert session.plan.moves == plan.moves
        assert why in footer(pilot)
        await pressed(pilot, "A")
        assert isinstance(pilot.app.screen, ApplyDialog)
    assert len(started) == 1


async def test_moves_planned_after_apply_stay_when_the_run_begins(
    started: list[tuple[Any, ...]],
) -> None:
    session = a_session()
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "A", *"prod-eu", "enter", "enter")
        session.edit(session.plan.with_move(STATE, tp("orders-2"), 4, 1))
        await publish_events(pilot, RunChanged(a_run()))
        assert [str(move.tp) for move in session.plan] == ["orders-2"]


async def test_started_run_is_shown_even_if_an_older_run_was_open_before(
    started: list[tuple[Any, ...]],
) -> None:
    session = a_session()
    session.run = a_run(RunStatus.DONE, run="0101-000000", ended_at=at(0, 30))
    older = a_run(RunStatus.DONE, run="1231-010000", ended_at=at(2, 0))
    async with dashboard(session, "moves") as pilot:
        pilot.app.screen.show_run(older, "# Yesterday's report")
        await rested(pilot)
        assert "Yesterday" in body(pilot)
        await pressed(pilot, "2", "A", *"prod-eu", "enter", "enter")
        assert "Run 0101-021101 has been started." in footer(pilot)
        await publish_events(pilot, RunChanged(a_run()))
        assert "● run 02:11Z" in body(pilot)
        await pressed(pilot, "P")
        assert "Pause run 0101-021101?" in str(pilot.app.screen.query_one(".title", Label).render())


async def test_chosen_rate_is_applied_and_the_next_plan_gets_a_proposed_rate(
    started: list[tuple[Any, ...]],
) -> None:
    session = a_session()
    session.choose_rate(50 * MB)
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "A")
        pilot.app.screen.query_one(PauseIfRemoved).focus()
        await pressed(pilot, "space", "tab", *"prod-eu", "enter", "enter")
        await publish_events(pilot, RunChanged(a_run()))
    [(_, _, _, options, estimate)] = started
    assert options.pause_if_removed
    assert options.rate_bytes_per_s == estimate["rate_bytes_per_s"] == 50 * MB
    assert not session.rate_chosen


def uneven_session() -> Session:
    """Broker 1 sends thirty times as much as broker 2; both within half a minute."""
    sizes = {"big-0": 1_500 * MB, "little-0": 50 * MB}
    state = cluster({"big-0": [1], "little-0": [2]}, brokers=range(1, 5), size_bytes=sizes)
    plan = Plan().with_target(state, tp("big-0"), (3,)).with_target(state, tp("little-0"), (4,))
    session = replace(a_session(), state=state, load=load_of(state), history=PlanHistory(plan))
    session.choose_rate(60 * MB)
    return session


@pytest.mark.parametrize("size", SIZES)
async def test_brokers_that_need_less_get_a_lower_rate_if_the_option_is_ticked(
    size: tuple[int, int], started: list[tuple[Any, ...]]
) -> None:
    async with dashboard(uneven_session(), "plan", size) as pilot:
        await pressed(pilot, "A")
        adapt, spare = (
            pilot.app.screen.query_one(AdaptRate),
            pilot.app.screen.query_one(SpareBrokers),
        )
        assert "broker 2 sends at 10 MB/s" in str(spare.render())
        spare.focus()
        await pressed(pilot, "space")
        assert (adapt.ticked, spare.ticked) == (False, True)
        adapt.focus()
        await pressed(pilot, "space")
        assert (adapt.ticked, spare.ticked) == (True, False)
        spare.focus()
        await pressed(pilot, "space", *"prod-eu", "enter", "enter")
    [(_, _, _, options, estimate)] = started
    assert options.auto is None
    assert options.rate_bytes_per_s == estimate["rate_bytes_per_s"] == 60 * MB
    assert options.per_side_rates == {(2, Side.LEADER): 10 * MB, (4, Side.FOLLOWER): 10 * MB}


async def test_all_brokers_get_the_same_rate_unless_the_option_is_ticked(
    started: list[tuple[Any, ...]],
) -> None:
    async with dashboard(uneven_session(), "plan") as pilot:
        await pressed(pilot, "A", *"prod-eu", "enter", "enter")
    [(_, _, _, options, _)] = started
    assert options.per_side_rates == {}


@pytest.mark.parametrize("size", SIZES)
async def test_chosen_preferred_leader_is_elected_unless_the_option_is_unticked(
    size: tuple[int, int], started: list[tuple[Any, ...]]
) -> None:
    for keys, elects in (((), True), (("space",), False)):
        async with dashboard(a_session(), "plan", size) as pilot:
            await pressed(pilot, "A")
            elect = pilot.app.screen.query_one(ElectLeaders)
            assert "[x] elect leaders  1 leader changes at the end" in str(elect.render())
            elect.focus()
            await pressed(pilot, *keys)
            summary = label(pilot, "summary")
            assert ("by an election only" in summary) is not elects
            await pressed(pilot, *"prod-eu", "enter", "enter")
        assert started.pop()[3].elect is elects


@pytest.mark.parametrize(
    ("own", "targets", "boxes"),
    [
        (None, {"clicks-0": (2, 1, 6)}, [True]),
        (False, {"clicks-0": (2, 1, 6)}, [False]),
        (True, {"clicks-0": (2, 1, 6)}, [True]),
        (None, {"orders-0": (1, 2, 4)}, []),
        (True, {"orders-0": (1, 2, 4)}, [True]),
        (False, {"orders-0": (1, 2, 4)}, []),
    ],
)
async def test_follow_up_plan_of_a_run_takes_over_its_election_and_pause_options(
    own: bool | None, targets: dict[str, tuple[int, ...]], boxes: list[bool]
) -> None:
    """Broker 2 leads orders-0 though broker 1 is preferred: an election changes that, too."""
    session = a_session(Plan())
    assert session.state is not None
    leader = session.state.leader.copy()
    leader[session.state.find(tp("orders-0"))] = 2
    session.state = replace(session.state, leader=leader)
    plan = Plan()
    for name, held in targets.items():
        plan = plan.with_target(session.state, tp(name), held)
    async with dashboard(session, "plan") as pilot:
        pilot.app.push_screen(
            ApplyDialog(session, PlanToApply(plan, "Again", elect=own, pause_if_removed=True))
        )
        await rested(pilot)
        copies = any(move.receiving for move in plan)
        assert [pause.ticked for pause in pilot.app.screen.query(PauseIfRemoved)] == [True] * copies
        assert [elect.ticked for elect in pilot.app.screen.query(ElectLeaders)] == boxes


async def test_no_election_is_offered_where_leaders_change_anyway(
    started: list[tuple[Any, ...]],
) -> None:
    async with dashboard(a_session(Plan().with_move(STATE, tp("orders-0"), 1, 4)), "plan") as pilot:
        await pressed(pilot, "A", *"prod-eu")
        assert not pilot.app.screen.query(ElectLeaders)
        await pressed(pilot, "enter", "enter")
    assert not started.pop()[3].elect


async def test_shown_rate_is_applied_even_if_another_is_proposed_meanwhile(
    started: list[tuple[Any, ...]],
) -> None:
    session = a_session()
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "A", *"prod-eu")
        session.propose_rate(5 * MB)
        await pressed(pilot, "enter", "enter")
    [(_, _, _, options, estimate)] = started
    assert options.rate_bytes_per_s == estimate["rate_bytes_per_s"] == PROPOSED


@pytest.mark.parametrize("keys", [("enter",), ("escape",), ("tab", *"prod-eu", "tab", "enter")])
async def test_cancel_starts_no_run_and_the_plan_stays(
    keys: tuple[str, ...], started: list[tuple[Any, ...]]
) -> None:
    session = a_session()
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "A")
        await pressed(pilot, *keys)
        assert type(pilot.app.screen).__name__ == "PlanScreen"
    assert started == []
    assert len(session.plan) == 3


async def test_enter_pressed_before_the_assessment_is_ready_focuses_apply_afterwards(
    started: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who types fast is done with the name before what it means has been worked out."""
    worked_out = threading.Event()
    assessed = options_module.assess_plan

    def slowly(*arguments: Any, **more: Any) -> PlanAssessment:
        assert worked_out.wait(60)
        return assessed(*arguments, **more)

    monkeypatch.setattr(options_module, "assess_plan", slowly)
    async with dashboard(a_session(), "plan") as pilot:
        await pilot.press("A", "tab", *"prod-eu", "enter")
        assert button(pilot, "apply").disabled
        worked_out.set()
        await rested(pilot)
        assert pilot.app.focused is button(pilot, "apply")
        assert "Enter applies it" in label(pilot, "how")
        assert started == []
        await pressed(pilot, "enter")
    assert len(started) == 1


async def test_enter_pressed_on_an_incomplete_name_does_not_count_for_the_full_name(
    started: list[tuple[Any, ...]],
) -> None:
    async with dashboard(a_session(), "plan") as pilot:
        await pressed(pilot, "A", "tab", *"prod-e", "enter", "u")
        assert pilot.app.focused is pilot.app.screen.query_one("#name")
        await pressed(pilot, "enter")
        assert pilot.app.focused is button(pilot, "apply")
    assert started == []


async def test_keys_in_transit_while_the_focus_moves_still_reach_the_name_field(
    started: list[tuple[Any, ...]],
) -> None:
    """Each is sent to what has the focus as it comes, and reaches the dialog a little later."""
    async with dashboard(a_session(), "plan") as pilot:
        await pressed(pilot, "A")
        await pressed(pilot, *"prod-e")
        pilot.app.screen.query_one("#cancel")._forward_event(events.Key("u", "u"))
        await rested(pilot)
        assert pilot.app.screen.query_one(Input).value == "prod-eu"
        assert not button(pilot, "apply").disabled


async def test_pasted_cluster_name_enables_apply(started: list[tuple[Any, ...]]) -> None:
    async with dashboard(a_session(), "plan") as pilot:
        await pressed(pilot, "A")
        pilot.app.screen.query_one("#cancel").post_message(events.Paste("prod-eu\n"))
        await rested(pilot)
        assert not button(pilot, "apply").disabled
        assert started == []


async def test_mouse_click_on_disabled_apply_does_nothing_and_on_cancel_closes_the_dialog(
    started: list[tuple[Any, ...]],
) -> None:
    async with dashboard(a_session(), "plan") as pilot:
        await pressed(pilot, "A")
        await pilot.click("#apply")
        await pilot.click("#cancel")
        await rested(pilot)
        assert type(pilot.app.screen).__name__ == "PlanScreen"
        assert started == []


async def test_unsafe_finding_must_be_allowed_by_its_id_before_apply(
    started: list[tuple[Any, ...]],
) -> None:
    async with dashboard(unsafe_session(), "plan") as pilot:
        await pressed(pilot, "A")
        assert [allow.finding.id for allow in pilot.app.screen.query(AllowCheck)] == ["rack-spread"]
        pilot.app.screen.query_one("#name", Input).value = "prod-eu"
        await rested(pilot)
        assert button(pilot, "apply").disabled
        pilot.app.screen.query_one(AllowCheck).focus()
        await pressed(pilot, "space")
        assert not button(pilot, "apply").disabled
        await pressed(pilot, "space")
        assert button(pilot, "apply").disabled
        await pilot.click(AllowCheck)
        await rested(pilot)
        await pilot.click("#apply")
        await rested(pilot)
    assert [options.allow for *_, options, _ in started] == [frozenset({"rack-spread"})]
    [(_, _, plan, options, _)] = started
    assert sorted(i for batch in options.batches for i in batch) == list(range(len(plan)))


@pytest.mark.parametrize("size", [(80, 24), (80, 18), (120, 40)])
async def test_name_and_buttons_stay_visible_however_long_findings_and_problem_are(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assessed = options_module.assess_plan
    sentence = "b4 comes to 1.6 times its fair share, which is more than any other broker, " * 3
    warnings = [finding("hotter-broker", f"{n}: {sentence}") for n in range(5)]
    unsafe = [finding(id, f"{id}: {sentence}") for id in ("no-leader", "out-of-sync", "disk")]

    def much(*arguments: Any, **more: Any) -> PlanAssessment:
        assessment = assessed(*arguments, **more)
        rows = tuple(replace(row, findings=(*unsafe, *warnings)) for row in assessment.rows)
        return replace(assessment, rows=rows)

    def fail(*_: Any) -> str:
        raise TrimtabError("It cannot be started. " * 12)

    monkeypatch.setattr(options_module, "assess_plan", much)
    monkeypatch.setattr("core.run.launch.start_run", fail)
    async with dashboard(a_session(), "plan", size) as pilot:
        await pressed(pilot, "A")
        for selector in ("#name", "#cancel", "#apply"):
            assert in_sight(pilot, pilot.app.screen.query_one(selector)), selector
        for tick in pilot.app.screen.query(AllowCheck):
            tick.turn(True)
        await pressed(pilot, *"prod-eu", "enter", "enter")
        assert "cannot be started" in label(pilot, "problem")
        for selector in ("#name", "#cancel", "#apply"):
            assert in_sight(pilot, pilot.app.screen.query_one(selector)), selector


async def test_summary_that_does_not_fit_is_scrolled_with_the_page_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assessed = options_module.assess_plan
    findings = tuple(finding("hotter-broker", f"number {n} of what is said") for n in range(40))

    def much(*arguments: Any, **more: Any) -> PlanAssessment:
        assessment = assessed(*arguments, **more)
        return replace(
            assessment, rows=tuple(replace(row, findings=findings) for row in assessment.rows)
        )

    monkeypatch.setattr(options_module, "assess_plan", much)
    async with dashboard(a_session(), "plan", (80, 24)) as pilot:
        await pressed(pilot, "A")
        await pressed(pilot, *["pagedown"] * 9)
        told_in = pilot.app.screen.query_one("#about")
        assert told_in.scroll_y == told_in.max_scroll_y > 0
        assert pilot.app.focused is pilot.app.screen.query_one("#cancel")
        await pressed(pilot, *["pageup"] * 9)
        assert told_in.scroll_y == 0


async def test_failed_start_is_reported_and_the_plan_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    failures: list[tuple[Exception, str]] = [
        (TrimtabError("Run 0101-010000 is in progress on this cluster."), "is in progress"),
        (OSError(errno.EAGAIN, "No more processes"), "No more processes"),
        (ValueError("no such rate"), "This is a bug in trimtab"),
    ]

    def fail(*_: Any) -> str:
        raise failures[0][0]

    monkeypatch.setattr("core.run.launch.start_run", fail)
    session = a_session()
    async with dashboard(session, "plan") as pilot:
        while failures:
            await pressed(pilot, "A", *"prod-eu", "enter", "enter")
            assert isinstance(pilot.app.screen, ApplyDialog)
            problem = pilot.app.screen.query_one("#problem")
            assert failures.pop(0)[1] in str(problem.render())
            assert len(session.plan) == 3
            await pressed(pilot, "escape")
            assert type(pilot.app.screen).__name__ == "PlanScreen"


async def test_run_started_under_another_dialog_is_shown_and_only_later_edits_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing may be left in front that no key takes away; what was edited since is not handed."""
    stands = threading.Event()

    def start(*_: Any) -> str:
        assert stands.wait(60)
        return "0101-021101"

    monkeypatch.setattr("core.run.launch.start_run", start)
    session = a_session()
    session.address = Address("broker:9092")
    async with dashboard(session, "plan") as pilot:
        applied = session.plan
        await pressed(pilot, "A", *"prod-eu", "enter")
        await pilot.press("enter", "escape", "ctrl+q")
        assert isinstance(pilot.app.screen, ChoiceDialog)
        session.edit(session.plan.with_move(STATE, tp("orders-2"), 4, 1))
        stands.set()
        await rested(pilot)
        assert [type(screen).__name__ for screen in pilot.app.screen_stack[1:]] == ["MovesScreen"]
        assert session.pending_run is not None
        assert session.pending_run.plan is applied
        assert [str(move.tp) for move in session.plan_to_keep] == ["orders-2"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"making_plan": True}, "A plan is being made"),
        ({"writable": False}, "Read-only: start with --write"),
        ({"run": a_run()}, "is in progress"),
    ],
    ids=["another plan is being made", "read-only", "a run is in progress"],
)
async def test_apply_dialog_does_not_open_where_nothing_may_be_applied(
    changes: dict[str, Any], words: str
) -> None:
    session = a_session()
    for name, value in changes.items():
        setattr(session, name, value)
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "A")
        assert not isinstance(pilot.app.screen, ApplyDialog)
        assert words in footer(pilot)


async def test_without_colour_dialogs_have_a_frame_and_focus_is_reversed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with dashboard(unsafe_session(), "plan", (80, 24), ascii_only=True) as pilot:
        await pressed(pilot, "A")
        dialog = pilot.app.screen
        assert isinstance(dialog, ApplyDialog)
        assert dialog.query_one(".dialog").styles.border.top[0] == "ascii"
        assert dialog.query_one("#cancel").styles.text_style.reverse
