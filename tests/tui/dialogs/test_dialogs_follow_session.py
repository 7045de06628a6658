"""Dialogs about a run that are left open: they go with the run and the cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from clusters import cluster, load_of
from hands import rested
from pictures import (
    GB,
    LOAD,
    MB,
    RACKS,
    STATE,
    Clock,
    a_run,
    a_session,
    at,
    button,
    dashboard,
    down,
    footer,
    grown,
    in_sight,
    picture,
    pressed,
    publish_events_later,
)
from textual.pilot import Pilot
from textual.widgets import Button, Label, Static

from core.cluster.connect import Address
from core.cluster.state import ClusterState
from core.errors import TrimtabError
from core.plan.plan import Plan
from core.run.control import SentRequest
from core.run.reporting.views import MoveStatus, RunStatus, RunView
from core.watch.client_health.report import ProbeReport
from tui.dialogs.base import Words
from tui.feed.events import ClientsChanged, PictureChanged, RunChanged
from tui.moves import rate_dialog as rate_module
from tui.moves import requests as requests_module
from tui.moves import retarget_dialog as retarget_module
from tui.moves.rate_dialog import RateDialog
from tui.moves.retarget_dialog import RetargetDialog, targets_of
from tui.plan.suggest_form import SuggestForm
from tui.session import PendingRun, Session


def table(pilot: Pilot[int]) -> str:
    return str(pilot.app.screen.query_one("#table", Static).render())


async def mark_read_only(pilot: Pilot[int], session: Session) -> None:
    """Let the cluster be marked read-only for a while, under an open dialog."""
    assert session.state is not None
    session.writable = False
    await publish_events_later(pilot, picture(session.state))
    assert button(pilot, "yes").disabled
    assert "Read-only" in table(pilot)
    session.writable = True
    await publish_events_later(pilot, picture(session.state))
    assert not button(pilot, "yes").disabled
    assert "Read-only" not in table(pilot)


def a_real_run() -> RunView:
    """Return a run whose moves end on brokers that there are."""
    run = a_run()
    moves = tuple(m for m in run.moves if STATE.find(m.tp) is not None)
    ends = ((1, 5, 4), (6, 2, 3))
    starts = ((1, 5, 6), (4, 2, 3))
    return replace(
        run,
        moves=tuple(
            replace(m, before=before, after=after)
            for m, before, after in zip(moves, starts, ends, strict=True)
        ),
    )


def fail(*_: Any, **__: Any) -> Any:
    raise TrimtabError("No rate can be reckoned.")


async def test_the_rate_that_was_chosen_stays_chosen_while_the_cluster_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = a_session(Plan())
    session.run = run = a_real_run()
    async with dashboard(session, "moves", (80, 24), monotonic=Clock()) as pilot:
        dialog = RateDialog(run, STATE, LOAD, 1)
        pilot.app.push_screen(dialog)
        await rested(pilot)
        await pressed(pilot, "down")
        chosen, shown = dialog.chosen, table(pilot)
        assert chosen is not None
        assert chosen != 50 * MB
        await publish_events_later(pilot, picture(grown(4)))
        assert dialog.chosen == chosen
        assert table(pilot) != shown
        await publish_events_later(pilot, RunChanged(replace(run, state=RunStatus.DIED)))
        assert dialog.chosen == chosen, "it takes that up when it is back"
        with monkeypatch.context() as broken:
            broken.setattr(rate_module, "assess_plan", fail)
            await publish_events_later(pilot, picture(grown(6)))
        assert "No rate can be reckoned." in table(pilot)
        assert button(pilot, "yes").disabled
        await publish_events_later(pilot, picture(grown(8)))
        assert dialog.chosen == chosen
        await mark_read_only(pilot, session)
        assert dialog.chosen == chosen
        await publish_events_later(pilot, RunChanged(a_run(RunStatus.DONE, ended_at=at(3, 0))))
        assert dialog.chosen is None
        assert button(pilot, "yes").disabled
        assert "has ended" in table(pilot)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_chosen_destination_that_goes_down_cannot_be_confirmed(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = a_session(Plan())
    session.run = run = a_real_run()
    async with dashboard(session, "moves", size, monotonic=Clock()) as pilot:
        targets = targets_of(STATE, LOAD, {1: run.moves[1]})
        answers: list[int | None] = []
        dialog = RetargetDialog(run.run, targets, (STATE, LOAD))
        pilot.app.push_screen(dialog, answers.append)
        await rested(pilot)
        (first, second) = [c.broker for c in targets.choices if not c.refused][:2]
        assert not button(pilot, "yes").disabled
        await publish_events_later(pilot, picture(down([first])))
        assert f"Broker {first} may not take it any more: is down." in " ".join(
            table(pilot).split()
        )
        assert button(pilot, "yes").disabled
        with monkeypatch.context() as broken:
            broken.setattr(retarget_module, "targets_of", fail)
            await publish_events_later(pilot, picture(down([first], grown(4))))
        await pressed(pilot, "up")
        assert button(pilot, "yes").disabled, "nothing is known of this picture"
        await publish_events_later(pilot, picture(down([first], grown(8))))
        assert not button(pilot, "yes").disabled
        await publish_events_later(pilot, RunChanged(replace(run, state=RunStatus.DIED)))
        assert not button(pilot, "yes").disabled, "it takes that up when it is back"
        button(pilot, "yes").focus()
        await pressed(pilot, "enter")
        assert answers == [second]


def seven_brokers() -> ClusterState:
    return STATE.with_brokers([*STATE.brokers, replace(STATE.brokers[-1], id=7, rack="a")])


async def test_marked_moves_done_meanwhile_leave_the_dialog_open_for_other_moves() -> None:
    session = a_session(Plan())
    run = a_real_run()
    done, moving = run.moves[0], replace(run.moves[0], state=MoveStatus.MOVING)
    both = {0: moving, 1: run.moves[1]}
    session.run = replace(run, moves=(moving, run.moves[1]))
    session.state = state = seven_brokers()
    async with dashboard(session, "moves", (80, 24), monotonic=Clock()) as pilot:
        dialog = RetargetDialog(run.run, targets_of(state, LOAD, both), (state, LOAD))
        pilot.app.push_screen(dialog)
        await rested(pilot)
        await mark_read_only(pilot, session)
        title = dialog.query_one(".title", Label)
        assert "2 moves, instead of b4, b6" in str(title.render())
        few = [choice.broker for choice in dialog.targets.choices if not choice.refused]
        await publish_events_later(pilot, RunChanged(replace(run, moves=(done, run.moves[1]))))
        assert list(dialog.targets.moves) == [1]
        assert "orders-2, instead of b6" in str(title.render())
        more = [choice.broker for choice in dialog.targets.choices if not choice.refused]
        assert set(more) > set(few), "it was assessed for the rest"
        assert not button(pilot, "yes").disabled
        await publish_events_later(pilot, RunChanged(replace(run, run="0101-031101")))
        assert "Run 0101-031101 has begun meanwhile" in table(pilot)
        assert button(pilot, "yes").disabled


async def test_chosen_destination_that_leaves_the_cluster_cannot_be_confirmed() -> None:
    state, session = seven_brokers(), a_session(Plan())
    session.state, session.run = state, (run := a_real_run())
    async with dashboard(session, "moves", monotonic=Clock()) as pilot:
        targets = targets_of(state, LOAD, {1: run.moves[1]})
        dialog = RetargetDialog(run.run, targets, (state, LOAD))
        pilot.app.push_screen(dialog)
        await rested(pilot)
        legal = [choice.broker for choice in targets.choices if not choice.refused]
        await pressed(pilot, *["down"] * legal.index(7))
        assert not button(pilot, "yes").disabled
        await publish_events_later(pilot, picture(STATE))
        assert pilot.app.screen is dialog
        assert "Broker 7 is not there any more." in table(pilot)
        assert button(pilot, "yes").disabled
        await pressed(pilot, "up")
        assert not button(pilot, "yes").disabled


def question(pilot: Pilot[int]) -> tuple[str, str, set[str]]:
    """Return what is asked, why something may not be done, and which buttons may be pressed."""
    screen = pilot.app.screen
    words = " ".join(str(label.render()) for label in screen.query_one(Words).query(Label))
    why = str(screen.query_one(".refused", Label).render())
    return words, why, {b.id or "" for b in screen.query(Button) if not b.disabled}


def later(state: RunStatus = RunStatus.RUNNING) -> RunView:
    """Return the run once what was being copied is there, and one more has begun."""
    run = a_run(state)
    done, queued = run.moves[0], run.moves[3]
    moving = replace(queued, state=MoveStatus.MOVING, moved_bytes=7 * GB)
    moves = (done, *(replace(done, tp=move.tp) for move in run.moves[1:3]), moving)
    return replace(run, moves=moves)


async def test_open_question_about_a_run_follows_the_state_of_the_run() -> None:
    session = a_session(Plan())
    async with dashboard(session, "moves", (80, 24), monotonic=Clock()) as pilot:
        for key, typed, words, now, over, why in (
            ("P", "", "the 2 in flight", "the 1 in flight", RunStatus.CANCELLING, "cancelled"),
            ("C", "prod-eu", "26 GB that were", "7.0 GB that were", RunStatus.DONE, "(done)"),
            ("R", "prod-eu", "1 done move", "3 done move", RunStatus.ROLLING_BACK, "already"),
            ("B", "", "0 were in flight", "0 were in flight", RunStatus.RECOVERING, "there again"),
        ):
            state = RunStatus.DIED if key == "B" else RunStatus.RUNNING
            await publish_events_later(pilot, RunChanged(a_run(state)))
            await pressed(pilot, key, *typed)
            assert words in question(pilot)[0]
            assert "yes" in question(pilot)[2]
            await publish_events_later(pilot, RunChanged(later(state)))
            assert now in question(pilot)[0]
            await publish_events_later(pilot, RunChanged(later(over)))
            assert why in question(pilot)[1]
            assert question(pilot)[2] == {"no"}
            assert in_sight(pilot, pilot.app.screen.query_one(".refused"))
            await publish_events_later(pilot, RunChanged(later(state)))
            assert question(pilot)[1] == ""
            assert "yes" in question(pilot)[2]
            session.writable = False
            await publish_events_later(pilot, picture(STATE))
            assert "Read-only" in question(pilot)[1]
            assert question(pilot)[2] == {"no"}
            session.writable = True
            await pressed(pilot, "escape")


async def test_moves_that_end_during_the_question_are_not_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def ask(cluster_id: str, run: str, kind: str, payload: Any) -> SentRequest:
        asked.append((kind, dict(payload)))
        return SentRequest(run, 1, kind, is_waiting=False)

    monkeypatch.setattr(requests_module, "request", ask)
    session = a_session(Plan())
    async with dashboard(session, "moves", monotonic=Clock()) as pilot:
        await publish_events_later(pilot, RunChanged(a_run()))
        await pressed(pilot, "space", "space", "space", "c")
        assert "2 in flight" in question(pilot)[0]
        await publish_events_later(pilot, RunChanged(later()))
        assert "2 of them ended meanwhile" in question(pilot)[0]
        await pressed(pilot, "right", "enter")
        assert asked == [("cancel", {"moves": [3]})]
        await publish_events_later(pilot, RunChanged(a_run()))
        await pressed(pilot, "g", "c")
        assert "yes" in question(pilot)[2]
        await publish_events_later(pilot, RunChanged(later()))
        assert question(pilot)[1:] == ("It has ended meanwhile.", {"no"})
        await publish_events_later(pilot, RunChanged(a_run()))
        session.writable = False  # seen, and not yet drawn
        await pressed(pilot, "right", "enter")
        assert len(asked) == 1
        assert "Read-only" in footer(pilot)


async def test_open_quit_question_follows_the_state_of_the_plan() -> None:
    session = a_session()
    session.address = Address("broker:9092")
    async with dashboard(session, "plan", monotonic=Clock()) as pilot:
        await pressed(pilot, "q")
        assert "3 moves" in question(pilot)[0]
        session.pending_run = PendingRun("0101-021101", session.plan)
        await publish_events_later(pilot, RunChanged(a_run()))
        assert "nothing would be lost" in question(pilot)[0]


async def test_error_of_a_suggest_form_is_cleared_when_the_cluster_changes() -> None:
    held = {str(STATE.tp(row)): [1, 2] for row in range(STATE.partition_count)}
    fewer = cluster(held, brokers=list(RACKS), racks=RACKS)
    assert fewer.topics == STATE.topics
    session = a_session(Plan(STATE.cluster_id))
    async with dashboard(session, "plan", monotonic=Clock()) as pilot:
        pilot.app.screen.planner.form = SuggestForm(max_replicas="2")  # type: ignore[attr-defined]
        await pressed(pilot, "a")
        screen = pilot.app.screen
        wrong, make = screen.query_one("#wrong-max_replicas", Label), screen.query_one("#make")
        meaning = screen.query_one("#meaning", Label)
        assert "15 replicas do not fit" in f"{wrong.render()} {meaning.render()}"
        assert make.disabled
        await publish_events_later(pilot, PictureChanged(fewer, load_of(fewer), None, None, None))
        assert "do not fit" not in f"{wrong.render()} {meaning.render()}"
        assert not make.disabled


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_open_probe_question_follows_the_state_of_the_cluster(size: tuple[int, int]) -> None:
    session = a_session()
    session.address = Address("broker:9092")
    async with dashboard(session, "map", size, monotonic=Clock()) as pilot:
        await pressed(pilot, "W")
        assert "to each of 6 brokers" in question(pilot)[0]
        await publish_events_later(pilot, picture(down([4])))
        assert "to each of 5 brokers" in question(pilot)[0]
        assert question(pilot)[2] == {"no", "yes"}
        await publish_events_later(
            pilot, ClientsChanged(ProbeReport(at(2, 0), STATE.cluster_id, ()))
        )
        assert "at work by now" in question(pilot)[1]
        assert question(pilot)[2] == {"no"}
