"""What a broker's disks have room for, alike for checks, for whole plans and for batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import MB, cluster, load_of, tp

from core.cluster.metadata import LogDir
from core.cluster.state import ClusterState
from core.plan.batches import plan_batches
from core.plan.checks.check_plan import check_plan
from core.plan.plan import Move, Plan
from core.plan.planner.model.problem import build_problem
from core.plan.planner.plan_request import PlanRequest
from core.plan.planner.planner import suggest_plan

ONE = LogDir("/d1", 1000 * MB, 300 * MB)
OTHER = LogDir("/d2", 1000 * MB, 350 * MB)
OFFLINE = LogDir("/bad", error="KAFKA_STORAGE_ERROR")
UNKNOWN = LogDir("/d3")

ROOMS: dict[str, tuple[tuple[LogDir, ...], int | None, int]] = {
    "one log dir": ((ONE,), 300, 200),
    "two disks": ((ONE, OTHER), 650, 450),
    "one of two log dirs offline": ((ONE, OFFLINE), 300, 200),
    "two log dirs on one disk": ((ONE, replace(ONE, path="/d2")), 300, 200),
    "two on one disk, one on another": ((ONE, replace(ONE, path="/d3"), OTHER), 650, 450),
    "two new disks of one make": (
        (LogDir("/d1", 1000 * MB, 950 * MB), LogDir("/d2", 1000 * MB, 950 * MB)),
        1900,
        1700,
    ),
    "one that does not tell": ((ONE, UNKNOWN), None, 0),
    "none known": ((), None, 0),
}
"""Log dirs of broker 3; what may come to it, and what a plan fills: MB, None where unknown."""


def with_dirs(state: ClusterState, dirs: tuple[LogDir, ...]) -> ClusterState:
    """Return the cluster with these log dirs of broker 3, and no known ones of others."""
    return replace(
        state,
        brokers=tuple(replace(b, log_dirs=dirs if b.id == 3 else ()) for b in state.brokers),
    )


def disk_findings(state: ClusterState, *moves: Move) -> list[str]:
    found = check_plan(state, load_of(state), Plan.of(moves))
    return [one.sentence for one in found if one.id == "disk"]


@pytest.mark.parametrize("name", ROOMS)
def test_room(name: str) -> None:
    dirs, free, filled = ROOMS[name]
    names = [f"t-{n}" for n in range(10)]
    sizes = dict.fromkeys(names, (free or 10_000) * MB // 10)
    state = with_dirs(cluster({n: [1] for n in names}, brokers=[1, 3], size_bytes=sizes), dirs)
    moves = [Move(tp(n), (1,), (3,)) for n in names]
    assert disk_findings(state, *moves) == []
    more = with_dirs(
        cluster({n: [1] for n in names}, brokers=[1, 3], size_bytes=sizes | {"t-0": 100_000 * MB}),
        dirs,
    )
    assert bool(disk_findings(more, *moves)) == (free is not None)
    given = build_problem(state, load_of(state))
    room = given.room_bytes[given.ids.tolist().index(3)]
    assert room == (pytest.approx(filled * MB) if free is not None else float("inf"))
    # Two of 0.3 of what is free are more than a batch may bring: one at a time then.
    two = with_dirs(
        cluster({"t-0": [1], "t-1": [1]}, brokers=[1, 3], size_bytes=(free or 100) * MB * 3 // 10),
        dirs,
    )
    found = plan_batches(two, load_of(two), Plan.of(moves[:2]), rate_bytes_per_s=1000 * MB)
    assert len(found.batches) == (2 if free is not None else 1)


def in_flight(arrived: int | None, *, size: int = 100 * MB) -> ClusterState:
    """Return u-0 on its way from 1 to 3, `arrived` bytes of it there; 120 MB to fill at 3."""
    state = cluster(
        {"t-0": [1], "u-0": [1, 3]},
        brokers=[1, 3],
        isr={"u-0": [1]},
        adding={"u-0": [3]},
        removing={"u-0": [1]},
        size_bytes=size,
    )
    sizes = state.size_bytes.copy()
    sizes[state.adding] = -1 if arrived is None else arrived
    return with_dirs(replace(state, size_bytes=sizes), (LogDir("/d", 1000 * MB, 220 * MB),))


@pytest.mark.parametrize(
    ("arrived", "size", "room"),
    [
        (0, 100 * MB, 20 * MB),
        (None, 100 * MB, 20 * MB),
        (60 * MB, 100 * MB, 80 * MB),
        (130 * MB, 100 * MB, 120 * MB),
        (0, 500 * MB, 0),
    ],
)
def test_what_reassignments_in_flight_still_bring_is_no_room(
    arrived: int | None, size: int, room: int
) -> None:
    given = build_problem(state := in_flight(arrived, size=size), load_of(state))
    assert given.room_bytes[1] == pytest.approx(room)


def test_a_plan_beside_reassignments_in_flight_has_to_leave_them_their_room() -> None:
    (sentence,) = disk_findings(in_flight(0, size=150 * MB), Move(tp("t-0"), (1,), (3,)))
    assert sentence == (
        "Broker 3 has 220 MB free, and 150 MB are still coming by moves in flight; "
        "the plan brings 150 MB, growth meanwhile included."
    )
    assert not disk_findings(in_flight(149 * MB, size=150 * MB), Move(tp("t-0"), (1,), (3,)))


def test_what_a_plan_itself_has_in_flight_counts_once() -> None:
    """So a move that joins a run of the same plan is not refused for its own bytes."""
    again = Move(tp("u-0"), (1,), (3,))
    assert not disk_findings(in_flight(0, size=150 * MB), again)


def test_nothing_is_planned_onto_a_disk_whose_other_log_dir_is_offline() -> None:
    state = cluster({f"t-{n}": [1] for n in range(6)}, brokers=[1, 3], size_bytes=100 * MB)
    tight = with_dirs(state, (LogDir("/d1", 1000 * MB, 220 * MB), OFFLINE))
    found = suggest_plan(tight, load_of(tight), PlanRequest(drain=(1,)))
    assert found.bytes == 100 * MB
    assert found.incomplete
