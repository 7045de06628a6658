"""Carrying a replica, with the mouse and with keys: same rules, same plan, nothing sent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from clusters import cluster, load_of, tp
from hands import rested
from maps import (
    SIZES,
    column_of,
    demo_picture,
    lines,
    look,
    map_of,
    mouse_down,
    mouse_over,
    picture_changed,
    press,
    publish_events,
    row_of,
    session,
    text,
    the_map,
)
from pictures import a_run, at
from textual.pilot import Pilot

from core.cli.common.context import Context, Target
from core.cluster.connect import Address
from core.cluster.documents.cluster_document import DocumentGroup
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.effect import compute_effect
from core.plan.plan import Plan
from core.run.reporting.views import RunEvent, RunStatus
from tui.dashboard import make_session
from tui.drawing.spans import Tone
from tui.feed.events import GroupsChanged, RunChanged
from tui.map import estimates as map_ahead
from tui.map.drag_controller import MapCanvas
from tui.map.drawing.preview import changes
from tui.map.drawing.scene import SIDE
from tui.map.drawing.side_panel import rate_lines
from tui.map.view import MapView, build_model

GB = 10**9


def picture() -> tuple[ClusterState, Load]:
    """Six brokers in three racks; p0 on 1 2 3, p1 on 1 2 6, p2 on 2 3 1."""
    state = cluster(
        {"t-0": [1, 2, 3], "t-1": [1, 2, 6], "t-2": [2, 3, 1]},
        brokers=[1, 2, 3, 4, 5, 6],
        racks={1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"},
        size_bytes=10 * GB,
        disk_bytes=(1000 * GB, 500 * GB),
    )
    return state, load_of(state, {"t-0": 4e6, "t-1": 3e6, "t-2": 2e6})


def plan(pilot: Pilot[int]) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    return {str(move.tp): (move.before, move.after) for move in session(pilot).plan}


async def grab(pilot: Pilot[int], broker: int = 1) -> None:
    """Zoom in and pick p0's replica up with the keyboard."""
    await press(pilot, "enter")
    look(pilot, broker=broker, cursor_partition=0)
    await press(pilot, "space")


async def test_replica_is_carried_with_keys_and_dropped() -> None:
    async with map_of(picture=picture()) as pilot:
        await grab(pilot)
        assert "carrying leader of p0" in text(pilot)
        assert "enter drop" in lines(pilot)[-1]
        await press(pilot, "l", "l", "l")
        assert the_map(pilot).drag.target == 4
        assert plan(pilot) == {}
        await press(pilot, "enter")
        assert plan(pilot) == {"t-0": ((1, 2, 3), (4, 2, 3))}
        assert the_map(pilot).drag is None


@pytest.mark.parametrize("size", SIZES)
async def test_replica_is_carried_with_the_mouse_and_dropped(size: tuple[int, int]) -> None:
    async with map_of(size, picture=picture()) as pilot:
        await press(pilot, "enter")
        y, before = row_of(pilot, "p0"), column_of(pilot, 6)
        await mouse_down(pilot, "p0", 1)
        assert the_map(pilot).drag is not None
        assert column_of(pilot, 6) == before, "columns stay where they are"
        for broker in (2, 3, 4):
            # A sloppy hand: other rows do not matter, only the column does.
            await mouse_over(pilot, y + broker % 2, broker)
        assert the_map(pilot).drag.target == 4
        await pilot.mouse_up(MapCanvas, offset=(column_of(pilot, 4), y))
        await rested(pilot)
        assert plan(pilot) == {"t-0": ((1, 2, 3), (4, 2, 3))}


@pytest.mark.parametrize("broker", [2, 3])
async def test_broker_already_holding_a_replica_is_hatched_and_refuses_the_drop(
    broker: int,
) -> None:
    async with map_of(picture=picture()) as pilot:
        await grab(pilot)
        await press(pilot, str(broker))
        assert "╱" in lines(pilot)[1 + row_of(pilot, "p0")]
        await press(pilot, "enter")
        assert f"Not here: Broker {broker} already holds t-0." in lines(pilot)[-1]
        assert the_map(pilot).drag is not None
        assert plan(pilot) == {}


async def test_mouse_release_on_an_illegal_target_leaves_the_plan_unchanged() -> None:
    async with map_of(picture=picture()) as pilot:
        await press(pilot, "enter")
        y = row_of(pilot, "p0")
        await mouse_down(pilot, "p0", 1)
        await mouse_over(pilot, y, 3)
        await pilot.mouse_up(MapCanvas, offset=(column_of(pilot, 3), y))
        await rested(pilot)
        assert the_map(pilot).drag is None
        assert plan(pilot) == {}
        assert "Broker 3 already holds t-0." in lines(pilot)[-1]


async def test_reasons_against_a_drop_are_listed_while_carrying() -> None:
    async with map_of(picture=picture()) as pilot:
        await grab(pilot)
        shown = text(pilot)
        assert "cannot drop on" in shown
        assert "2 3      already hold p0" in shown
        assert "5 6      rack spread" in shown
        await press(pilot, "5")
        assert "t-0 goes from 3 racks to 2" in " ".join(text(pilot).split())


async def test_before_and_after_values_follow_the_target_column() -> None:
    async with map_of(picture=picture()) as pilot:
        await grab(pilot)
        await press(pilot, "4")
        panel = [line.split("│")[-1].split() for line in lines(pilot) if "│" in line]
        assert ["b1", "in", "7.0", "→", "3.0"] in panel
        assert ["b4", "in", "0", "→", "4.0"] in panel
        assert ["p0", "1→4", "10", "GB"] in panel
        assert any(words[:1] == ["time"] or "time" in words for words in panel)
        await press(pilot, "1")
        assert "plan  empty" in " ".join(text(pilot).split("─")[0:999]) or "empty" in text(pilot)


async def test_the_narrow_screen_shows_the_preview_below_the_map() -> None:
    async with map_of((80, 24), picture=picture()) as pilot:
        await grab(pilot)
        await press(pilot, "4")
        shown = text(pilot)
        assert "carrying leader of p0 1 → 4" in shown
        assert "b1 in 7.0→3.0" in shown
        assert "plan  1 move, 10 GB" in shown


@pytest.mark.parametrize("keys", [("escape",), ("1", "enter"), ("h", "enter")])
async def test_cancelled_drag_or_drop_on_the_source_broker_changes_nothing(
    keys: tuple[str, ...],
) -> None:
    async with map_of(picture=picture()) as pilot:
        await grab(pilot)
        if keys == ("escape",):
            await press(pilot, "4")
        await press(pilot, *keys)
        assert the_map(pilot).drag is None
        assert plan(pilot) == {}
        assert session(pilot).history.undo == ()


@pytest.mark.parametrize("lost", ["outside", "escape", "release"])
async def test_interrupted_mouse_drag_ends_without_a_planned_move(lost: str) -> None:
    async with map_of(picture=picture()) as pilot:
        await press(pilot, "enter")
        y = row_of(pilot, "p0")
        await mouse_down(pilot, "p0", 1)
        await mouse_over(pilot, y, 4)
        match lost:
            case "outside":
                await pilot.mouse_up(MapCanvas, offset=(2, y))
            case "escape":
                await press(pilot, "escape")
            case "release":
                canvas = the_map(pilot).query_one(MapCanvas)
                canvas.release_mouse()
        await rested(pilot)
        assert the_map(pilot).drag is None
        assert plan(pilot) == {}


async def test_mouse_press_next_to_a_replica_only_moves_the_cursor() -> None:
    async with map_of(picture=picture()) as pilot:
        await press(pilot, "enter")
        await mouse_down(pilot, "p1", 4)
        assert the_map(pilot).drag is None
        assert the_map(pilot).model.broker == 4
        assert str(the_map(pilot).model.tp) == "t-1"


async def test_marked_rows_are_carried_together() -> None:
    async with map_of(picture=picture()) as pilot:
        await press(pilot, "enter")
        screen = the_map(pilot)
        look(pilot, broker=1, cursor_partition=0, marked=frozenset({tp("t-1"), tp("t-2")}))
        await press(pilot, "space", "4", "enter")
        assert plan(pilot) == {
            "t-0": ((1, 2, 3), (4, 2, 3)),
            "t-1": ((1, 2, 6), (4, 2, 6)),
            "t-2": ((2, 3, 1), (2, 3, 4)),
        }
        assert screen.view.marked == frozenset()


async def test_a_planned_replica_is_shown_undone_redone_and_carried_back() -> None:
    async with map_of(picture=picture()) as pilot:
        await grab(pilot)
        await press(pilot, "4", "enter")
        moved = plan(pilot)
        assert "◌" in lines(pilot)[1 + row_of(pilot, "p0")]
        await press(pilot, "u")
        assert plan(pilot) == {}
        await press(pilot, "U")
        assert plan(pilot) == moved
        await press(pilot, "space", "1", "enter")
        assert plan(pilot) == {}


async def test_prefer_leader_moves_no_data() -> None:
    async with map_of(picture=picture()) as pilot:
        await press(pilot, "enter")
        look(pilot, broker=3, cursor_partition=0)
        await press(pilot, "L")
        assert plan(pilot) == {"t-0": ((1, 2, 3), (3, 1, 2))}
        assert "no data to move" in text(pilot)


@pytest.mark.parametrize(
    ("broker", "keys", "message", "replicas"),
    [
        (2, ("5", "L"), "to lead there", (5, 1, 3)),
        (2, ("L",), "to lead there", (2, 1, 3)),
        (1, ("4", "L"), "It leads already", (4, 2, 3)),
    ],
    ids=["a follower", "where it was", "the leader"],
)
async def test_carried_replica_can_become_leader_at_its_drop_target(
    broker: int, keys: tuple[str, ...], message: str, replicas: tuple[int, ...]
) -> None:
    async with map_of(picture=picture()) as pilot:
        await grab(pilot, broker)
        await press(pilot, *keys)
        assert message in text(pilot)
        await press(pilot, "enter")
        assert plan(pilot) == {"t-0": ((1, 2, 3), replicas)}


async def test_carried_replica_is_called_leader_only_while_it_leads() -> None:
    state, load = picture()
    async with map_of(picture=(state, load)) as pilot:
        await grab(pilot)
        assert "carrying leader of p0" in text(pilot)
        other = replace(state, leader=np.full_like(state.leader, 2))
        await publish_events(pilot, picture_changed(other, load))
        assert "carrying first replica of p0" in text(pilot)
        await press(pilot, "escape")
        look(pilot, broker=2, cursor_partition=0)
        await press(pilot, "space")
        assert "carrying leader of p0" in text(pilot)


async def test_while_carrying_other_keys_do_nothing() -> None:
    async with map_of(picture=picture()) as pilot:
        await grab(pilot)
        await press(pilot, "m", "s", "u", "a", "slash", "v", "j")
        assert the_map(pilot).drag is not None
        assert plan(pilot) == {}
        await press(pilot, "escape", "2")
        assert pilot.app.screen.PLACE == "plan", "digits are screens again"


async def test_suggestion_is_planned_with_one_key_and_relieves_its_broker() -> None:
    async with map_of() as pilot:
        assert "try " in text(pilot)
        await press(pilot, "a")
        assert len(session(pilot).plan) == 1
        (move,) = session(pilot).plan.moves
        assert 7 in move.removing


@pytest.mark.parametrize("changed", ["its target died", "its partition is led by another"])
async def test_suggestion_is_discarded_when_the_cluster_it_was_computed_for_changes(
    changed: str,
) -> None:
    async with map_of() as pilot:
        screen = the_map(pilot)
        suggestion = screen.estimates.suggestion
        assert suggestion is not None
        state, load = demo_picture()
        if changed == "its target died":
            brokers = [replace(b, alive=b.id != suggestion.destination) for b in state.brokers]
            state = state.with_brokers(brokers)
        else:
            leader = state.leader.copy()
            leader[state.find(suggestion.tp)] = suggestion.destination
            state = replace(state, leader=leader)
        await publish_events(pilot, picture_changed(state, load))
        again = screen.estimates.suggestion
        assert again is not suggestion
        if changed == "its target died":
            assert again is None or again.destination != suggestion.destination


async def test_session_becomes_read_only_when_a_broker_belongs_to_a_read_only_cluster() -> None:
    async with map_of(writable=True) as pilot:
        now = session(pilot)
        target = Target(Address("b1.sim:9092"), read_only_servers=frozenset({"b2.sim:9092"}))
        begun = make_session(Context(target, True, True, None, False, False, lambda context: None))
        assert begun.writable
        assert now.writable
        now.read_only_servers = begun.read_only_servers
        await publish_events(pilot, picture_changed(*demo_picture()))
        assert " READ " in lines(pilot)[0]
        assert (now.writable, now.read_only_reason) == (False, "config.toml says read_only")


async def test_read_only_session_refuses_apply_and_shows_how_to_enable_writing() -> None:
    async with map_of(picture=picture()) as pilot:
        await grab(pilot)
        await press(pilot, "4", "enter", "A")
        assert "Read-only: start with --write" in lines(pilot)[-1]
        assert len(pilot.app.screen_stack) == 2


@pytest.mark.parametrize("size", [(120, 40), (200, 60)])
async def test_groups_reading_the_carried_partition_are_shown_with_their_lag(
    size: tuple[int, int],
) -> None:
    reads = {
        "billing": {tp("t-0"): 1200, tp("t-1"): 50, tp("elsewhere-0"): 9},
        "fraud": {tp("t-0"): 0},
        "other": {tp("t-2"): 7},
    }
    groups = tuple(DocumentGroup(id, "Stable", (), lag) for id, lag in reads.items())
    async with map_of(size, picture=picture()) as pilot:
        await publish_events(pilot, GroupsChanged(groups))
        assert "group billing" not in text(pilot)
        await grab(pilot)
        shown = " ".join(text(pilot).split())
        assert "group billing lag 1,200" in shown
        assert "group fraud lag 0" in shown
        assert "group other" not in shown


async def test_wide_map_shows_plan_and_run_next_to_it() -> None:
    async with map_of((200, 60), picture=picture()) as pilot:
        await publish_events(pilot, RunChanged(a_run(RunStatus.DONE)))
        shown = text(pilot)
        assert "plan" in shown
        assert "nothing planned" in shown
        assert "1 of 4 done" in shown
        assert "orders-1 done" in lines(pilot)[-4] + lines(pilot)[-3]


async def test_times_of_the_previous_target_are_dim_and_shown_only_for_the_same_replicas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with map_of(picture=picture()) as pilot:
        await grab(pilot)
        await press(pilot, "4")
        monkeypatch.setattr(map_ahead, "REST_SECONDS", 3600.0)
        ahead = the_map(pilot).estimates
        known = ahead.preview
        assert known.rates
        await pilot.press("5")
        before = ahead.preview
        assert (before.rates, before.of_before) == (known.rates, True)
        words = [word for line, _ in rate_lines(before) for word in line]
        assert {word.tone for word in words} == {Tone.DIM}
        await pilot.press("escape")
        look(pilot, broker=1, cursor_partition=0, marked=frozenset({tp("t-1")}))
        await pilot.press("space", "4")
        assert len(the_map(pilot).drag.sources) == 2
        assert ahead.preview.rates is None


async def test_rates_have_their_own_units_and_a_rate_below_inflow_names_its_broker() -> None:
    async with map_of(picture=picture()) as pilot:
        await grab(pilot)
        await press(pilot, "4")
        screen = the_map(pilot)
        assert screen.scene is not None
        assert screen.scene.preview.rates is not None
        quickest = screen.scene.preview.rates[-1]
        limit = quickest.limit
        assert limit is not None
        rates = (replace(quickest, rate_bytes_per_s=500_000, seconds=None, never="below"), quickest)
        preview = replace(screen.scene.preview, rates=rates)
        words = ["".join(word.text for word in line) for line, _ in rate_lines(preview)]
        assert words[1].split() == ["500", "kB/s", "never", f"b{limit.broker}", "inflow"]
        assert max(map(len, words)) <= SIDE - 2


async def test_end_of_a_long_log_dir_path_is_shown() -> None:
    state, load = picture()
    paths = tuple(f"/a/very/long/way/to/the/{n}/log/dirs/of/kafka-{n}" for n in range(9))
    state = replace(state, log_dir_paths=paths, log_dir=state.log_dir * 0 + 7)
    async with map_of(picture=(state, load)) as pilot:
        await press(pilot, "enter", "enter")
        assert "…ong/way/to/the/7/log/dirs/of/kafka-7 " in text(pilot)


async def test_text_too_wide_for_the_panel_next_to_the_map_is_cut_with_an_ellipsis() -> None:
    events = (RunEvent(at(2, 31), "moved", "orders-1 done: " + "very " * 40),)
    async with map_of((200, 60), picture=picture()) as pilot:
        await publish_events(pilot, RunChanged(a_run(RunStatus.RUNNING, events=events)))
        await press(pilot, "1")
        assert any("very" in line and line.endswith("…") for line in lines(pilot))


def test_only_brokers_far_above_the_mean_are_amber() -> None:
    """Broker 1 carries all and gives; broker 4 takes: only the first is one to look at."""
    state, load = picture()
    model = build_model(state, load, MapView())
    effect = compute_effect(state, load, Plan().with_move(state, tp("t-0"), 1, 4))
    hot = {change.name: change.hot for change in changes(model, effect, [1, 4])}
    assert hot["b1 in"]
    assert not hot["b4 in"]
