"""What is carried while the cluster, or the plan, changes under it."""

from __future__ import annotations

from typing import Any

import pytest
from clusters import cluster, load_of, tp
from hands import rested
from maps import lines, look, map_of, picture_changed, press, publish_events, session, the_map
from textual.pilot import Pilot

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.estimate.rate_table import rate_table
from core.plan.plan import Plan
from tui.session import Highlight

BROKERS = (1, 2, 3, 4, 5)


def picture(
    held: dict[str, list[int]] | None = None, brokers: tuple[int, ...] = BROKERS, **other: Any
) -> tuple[ClusterState, Load]:
    held = held or {"t-0": [1, 2, 3], "t-1": [1, 2, 3]}
    state = cluster(held, brokers=brokers, **other)
    return state, load_of(state, 1e6)


async def drag(pilot: Pilot[int], *keys: str, **view: Any) -> None:
    """Pick p0's replica on broker 1 up with the keyboard, and press keys."""
    look(pilot, topic="t", broker=1, cursor_partition=0, **view)
    await press(pilot, "space", *keys)
    assert the_map(pilot).drag is not None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (picture({"t-0": [5, 2, 3], "t-1": [1, 2, 3]}), "Broker 1 holds no replica of t-0"),
        (picture({"t-1": [1, 2, 3]}), "t-0 does not exist"),
        (picture(brokers=(1, 2, 3, 5)), "Broker 4 is not there"),
        (picture(brokers=(2, 3, 4, 5)), "Broker 1 is not there"),
    ],
    ids=["reassigned", "deleted", "target gone", "source gone"],
)
async def test_carried_replica_that_can_no_longer_move_is_released_and_reported(
    changed: tuple[ClusterState, Load], why: str
) -> None:
    async with map_of(picture=picture()) as pilot:
        await drag(pilot, "4")
        await publish_events(pilot, picture_changed(*changed))
        assert the_map(pilot).drag is None
        assert f"{why} any more: nothing was changed." in lines(pilot)[-1]
        assert session(pilot).plan.moves == ()


async def test_carried_replica_that_a_plan_removes_is_released() -> None:
    state, _ = picture()
    async with map_of(picture=picture()) as pilot:
        await drag(pilot, "4")
        planned = Plan().with_move(state, tp("t-0"), 1, 5)
        session(pilot).edit(planned)
        pilot.app.draw()  # type: ignore[attr-defined]
        await rested(pilot)
        assert the_map(pilot).drag is None
        assert "Broker 1 holds no replica of t-0 any more" in lines(pilot)[-1]
        assert session(pilot).plan == planned


@pytest.mark.parametrize("by", ["plan", "reassignment"])
async def test_legality_of_a_drop_is_rechecked_when_plan_or_cluster_changes(by: str) -> None:
    state, _ = picture()
    planned = Plan()
    async with map_of(picture=picture()) as pilot:
        await drag(pilot, "4")
        assert the_map(pilot).drag.can_drop
        if by == "plan":
            planned = Plan().with_move(state, tp("t-0"), 2, 4)
            session(pilot).edit(planned)
            pilot.app.draw()  # type: ignore[attr-defined]
            await rested(pilot)
        else:
            await publish_events(
                pilot, picture_changed(*picture({"t-0": [1, 4, 3], "t-1": [1, 2, 3]}))
            )
        assert not the_map(pilot).drag.can_drop
        await press(pilot, "enter")
        assert "Not here: Broker 4 already holds t-0." in lines(pilot)[-1]
        assert session(pilot).plan.moves == planned.moves


async def test_newer_unchanged_cluster_state_leaves_the_drag_as_it_is() -> None:
    async with map_of(picture=picture()) as pilot:
        await drag(pilot, "4")
        carried = the_map(pilot).drag
        await publish_events(pilot, picture_changed(*picture()))
        assert the_map(pilot).drag is carried


@pytest.mark.parametrize(
    "changed",
    [
        {"size_bytes": 10**9, "dead": [4]},
        {"size_bytes": 10**9, "leaders": {"t-0": 2}},
        {"size_bytes": 10**9, "isr": {"t-0": [1, 2]}},
        {},
    ],
    ids=["target down", "other leader", "out of sync", "size unknown"],
)
async def test_move_times_are_recomputed_when_the_cluster_changes(
    changed: dict[str, Any],
) -> None:
    """The plan and the load are the same as before."""
    async with map_of(picture=picture(size_bytes=10**9)) as pilot:
        await drag(pilot, "4")
        ahead = the_map(pilot).estimates
        before = ahead.preview.rates
        assert before
        await publish_events(pilot, picture_changed(*picture(size_bytes=10**9)))
        assert ahead.preview.rates is before
        state, load = picture(**changed)
        await publish_events(pilot, picture_changed(state, load))
        assert ahead.preview.rates is not before
        assert ahead.preview.rates == rate_table(state, load, ahead.plan)


# -- marks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("away", ["trouble", "group"])
async def test_marks_are_cleared_when_another_topic_is_opened(away: str) -> None:
    """u-0 is out of sync: a trouble to go to. What was marked in t stays where it is."""
    held = {"t-0": [1, 2, 3], "t-1": [1, 2, 3], "u-0": [1, 2, 3]}
    async with map_of(picture=picture(held, isr={"u-0": [1]})) as pilot:
        look(pilot, topic="t", marked=frozenset({tp("t-1")}))
        if away == "trouble":
            await press(pilot, "n")
        else:
            session(pilot).highlight = Highlight("billing", frozenset({tp("u-0")}))
            pilot.app.draw()  # type: ignore[attr-defined]
        assert the_map(pilot).view.marked == frozenset()
        assert the_map(pilot).model.topic == "u"


async def test_only_visible_marks_are_carried() -> None:
    held = {"t-0": [1, 2, 3], "t-1": [1, 2, 3], "u-0": [1, 2, 3]}
    marked = frozenset({tp("t-1"), tp("u-0"), tp("t-9")})
    async with map_of(picture=picture(held)) as pilot:
        await drag(pilot, marked=marked)
        assert set(the_map(pilot).drag.sources) == {tp("t-0"), tp("t-1")}
