"""The mouse on a map of more brokers than fit beside one another."""

from __future__ import annotations

import time

import pytest
from clusters import cluster, load_of
from hands import rested
from maps import column_of, look, map_of, mouse_down, mouse_over, press, row_of, session, the_map
from textual.pilot import Pilot

from core.cluster.state import ClusterState
from core.load.load import Load
from tui.map import drag_controller as map_hands
from tui.map.drag_controller import MapCanvas

BROKERS = 90
FAR = 60
"""A broker that the first columns of 80 do not show."""


def picture() -> tuple[ClusterState, Load]:
    held = [FAR, FAR + 1, FAR + 2]
    state = cluster({"t-0": held, "t-1": held}, brokers=range(1, BROKERS + 1))
    return state, load_of(state, 1e6)


def shown(pilot: Pilot[int]) -> tuple[int, int]:
    """Return the columns in sight: the first, and the one after the last."""
    scene = the_map(pilot).scene
    assert scene is not None
    return scene.columns.first, scene.columns.first + scene.columns.shown


async def opened(pilot: Pilot[int]) -> None:
    """Show the topic's partitions, with the far broker in the middle of the screen."""
    look(pilot, topic="t", broker=1)
    first, end = shown(pilot)
    look(pilot, broker=FAR + (end - first) // 2)
    first, end = shown(pilot)
    assert 0 < first < FAR - 1 < FAR + 3 < end


async def test_a_click_leaves_the_columns_where_they_are() -> None:
    async with map_of((80, 24), picture=picture()) as pilot:
        await opened(pilot)
        before, x = shown(pilot), column_of(pilot, FAR - 3)
        await pilot.click(MapCanvas, offset=(x, row_of(pilot, "p0")))
        await rested(pilot)
        assert the_map(pilot).model.broker == FAR - 3
        assert (shown(pilot), column_of(pilot, FAR - 3)) == (before, x)


async def test_a_replica_stays_under_the_mouse_that_carries_it() -> None:
    async with map_of((80, 24), picture=picture()) as pilot:
        await opened(pilot)
        before, y = shown(pilot), row_of(pilot, "p0")
        await mouse_down(pilot, "p0", FAR)
        for target in (FAR - 2, FAR + 4):
            await mouse_over(pilot, y, target)
            assert the_map(pilot).drag.target == target
            assert shown(pilot) == before
        await pilot.mouse_up(MapCanvas, offset=(column_of(pilot, FAR + 4), y))
        await rested(pilot)
        (move,) = session(pilot).plan.moves
        assert move.after == (FAR + 4, FAR + 1, FAR + 2)
        assert shown(pilot) == before


@pytest.mark.parametrize(("side", "step"), [("left", -1), ("right", 1)])
async def test_mouse_beyond_the_cells_carries_to_the_next_broker_out_of_view(
    side: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_hands, "EDGE_SECONDS", 3600.0)
    async with map_of((80, 24), picture=picture()) as pilot:
        await opened(pilot)
        (first, end), y = shown(pilot), row_of(pilot, "p0")
        beside = column_of(pilot, first + 1) - 3 if step < 0 else 79
        await mouse_down(pilot, "p0", FAR)
        await pilot.hover(MapCanvas, offset=(beside, y))
        await pilot.pause()
        assert the_map(pilot).drag.target == (first if step < 0 else end + 1)
        assert shown(pilot) == (first + step, end + step)
        await mouse_over(pilot, y, FAR + 4)
        assert shown(pilot) == (first + step, end + step)
        await pilot.mouse_up(MapCanvas, offset=(column_of(pilot, FAR + 4), y))
        await rested(pilot)
        (move,) = session(pilot).plan.moves
        assert move.after == (FAR + 4, FAR + 1, FAR + 2)


async def test_mouse_held_beyond_the_cells_carries_on_to_the_last_broker_and_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(map_hands, "EDGE_SECONDS", 0.001)
    async with map_of((80, 24), picture=picture()) as pilot:
        await opened(pilot)
        await mouse_down(pilot, "p0", FAR)
        await pilot.hover(MapCanvas, offset=(79, row_of(pilot, "p0")))
        deadline = time.monotonic() + 30
        while the_map(pilot).drag.target != BROKERS:
            assert time.monotonic() < deadline
            await pilot.pause()
        await pilot.pause()
        assert shown(pilot)[1] == BROKERS
        await press(pilot, "escape")
        assert session(pilot).plan.moves == ()


async def test_keys_scroll_the_columns_only_as_far_as_the_cursor_requires() -> None:
    async with map_of((80, 24), picture=picture()) as pilot:
        await opened(pilot)
        first, end = shown(pilot)
        await press(pilot, "h", "h")
        assert shown(pilot) == (first, end)
        look(pilot, broker=first)
        assert shown(pilot) == (first - 1, end - 1)
        await pilot.resize_terminal(200, 60)
        await rested(pilot)
        assert shown(pilot) == (0, BROKERS)
