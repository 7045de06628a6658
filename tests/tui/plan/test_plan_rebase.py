"""The Plan screen when the cluster cluster has changed the plan: it says so, and R rebases it."""

from __future__ import annotations

import pytest
from clusters import cluster, tp
from pictures import GB, LOAD, RACKS, SIZES, a_plan, a_session, body, dashboard, footer, pressed

from core.cluster.state import ClusterState
from core.load.load import Load
from tui.session import Session


def changed() -> ClusterState:
    """Return the cluster of `a_plan`, with orders-0 as planned and orders-1 moved by others."""
    return cluster(
        {
            "orders-0": [4, 2, 3],
            "orders-1": [2, 5, 6],
            "orders-2": [4, 2, 3],
            "clicks-0": [1, 2, 6],
            "clicks-1": [2, 3, 4],
        },
        brokers=list(RACKS),
        racks=RACKS,
        size_bytes=GB,
    )


def stale_session() -> Session:
    session = a_session()
    session.state = changed()
    session.load = Load(LOAD.in_bytes_per_s, LOAD.out_bytes_per_s, LOAD.messages_per_s, None, None)
    return session


@pytest.mark.parametrize("size", SIZES)
async def test_moves_kept_done_and_lost_are_counted_and_the_plan_is_rebased_as_one_edit(
    size: tuple[int, int],
) -> None:
    session = stale_session()
    async with dashboard(session, "plan", size) as pilot:
        assert "the cluster has changed: 1 kept, 1 done, 1 lost · R rebases" in body(pilot)
        assert "R rebase" in footer(pilot)
        await pressed(pilot, "R")
        assert [move.tp for move in session.plan] == [tp("clicks-0")]
        assert "Rebased: 1 kept, 1 done, 1 lost; orders-1 has 2,5,6 by now" in footer(pilot)
        assert "cluster has changed" not in body(pilot)
        await pressed(pilot, "u")
        assert session.plan.moves == a_plan().moves
        assert "cluster has changed" in body(pilot)


async def test_plan_that_still_holds_offers_no_rebase_and_stays_unchanged() -> None:
    session = a_session()
    async with dashboard(session, "plan") as pilot:
        assert "cluster has changed" not in body(pilot)
        assert "R rebase" not in footer(pilot)
        await pressed(pilot, "R")
        assert session.plan.moves == a_plan().moves
        assert not session.history.undo
        assert "All of the plan holds as it is." in footer(pilot)


async def test_a_plan_that_is_done_is_empty_once_it_is_rebased() -> None:
    session = a_session(a_plan().without(tp("orders-1")).without(tp("clicks-0")))
    session.state = changed()
    async with dashboard(session, "plan") as pilot:
        await pressed(pilot, "R")
        assert not len(session.plan)
        assert "The plan is empty." in body(pilot)
        assert "Rebased: 1 done. u takes it back." in footer(pilot)
