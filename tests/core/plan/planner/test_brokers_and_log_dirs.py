"""Brokers first, then log dirs: one plan that says where what lands and what stays is to lie."""

from __future__ import annotations

from dataclasses import replace

import clusters
import numpy as np
import pytest
from clusters import MB, load_of, tp

from core.cluster.metadata import LogDir
from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.checks.catalogue import Severity
from core.plan.checks.check_plan import check_plan
from core.plan.plan import ANY, Move, Plan
from core.plan.planner.plan_request import Limits, PlanRequest
from core.plan.planner.plan_result import is_reached
from core.plan.planner.planner import suggest_plan

ROOMY = 10**12
KEPT = ROOMY // 10
DIRS = ("/d1", "/d2")


def cluster(
    held: dict[str, list[tuple[int, str]]],
    *,
    brokers: int = 3,
    size: int = 10 * MB,
    rooms: dict[int, tuple[int, int]] | None = None,
) -> ClusterState:
    """Return partitions of one size, each replica on a broker in a log dir, the leader's first.

    `rooms` is how much each log dir of a broker may be filled with, by default all.
    """
    ids = range(1, brokers + 1)
    free = {b: rooms.get(b, (0, 0)) if rooms else (ROOMY - KEPT,) * 2 for b in ids}
    return clusters.cluster(
        {name: [b for b, _ in places] for name, places in held.items()},
        brokers=ids,
        size_bytes=size,
        log_dirs={
            b: [LogDir(path, ROOMY, KEPT + room) for path, room in zip(DIRS, two, strict=True)]
            for b, two in free.items()
        },
        paths={name: [path for _, path in places] for name, places in held.items()},
    )


def load(state: ClusterState) -> Load:
    return load_of(state, 1000.0)


def dirs_after(state: ClusterState, plan: Plan) -> dict[int, dict[str, int]]:
    """Return what each log dir of each broker holds after the plan; "" is in any of them."""
    moves = plan.by_partition
    held: dict[int, dict[str, int]] = {b.id: {} for b in state.brokers}
    for row in range(state.partition_count):
        at = state.replica_slice(row)
        path_by_broker = {
            b: state.log_dir_paths[place]
            for b, place in zip(state.replicas(row), state.log_dir[at].tolist(), strict=True)
        }
        move = moves.get(state.tp(row))
        wanted = move.target_log_dirs if move else {}
        for broker in move.after if move else state.replicas(row):
            path = wanted.get(broker) or path_by_broker.get(broker, "")
            held[broker][path] = held[broker].get(path, 0) + int(state.partition_size_bytes[row])
    return held


def all_on_the_first(count: int = 24) -> ClusterState:
    """Return brokers 1 and 2 with all replicas in their first log dirs; broker 3 holds nothing."""
    return cluster({f"t-{n}": [(1 + n % 2, "/d1")] for n in range(count)})


def is_even(held: dict[int, dict[str, int]]) -> bool:
    for dirs in held.values():
        whole = sum(dirs.values())
        if whole and any(abs(dirs.get(path, 0) * 2 / whole - 1) > 0.26 for path in DIRS):
            return False
    return True


CASES = {
    "balance": PlanRequest(disks=True, balance=True),
    "drain": PlanRequest(disks=True, drain=(1,)),
    "add": PlanRequest(disks=True, fill=(3,)),
    "replace": PlanRequest(disks=True, replace=((1, 3),)),
    "more replicas": PlanRequest(disks=True, replicas=2),
    "only on": PlanRequest(disks=True, balance=True, brokers=(2, 3)),
}


@pytest.mark.parametrize("plan_request", CASES.values(), ids=CASES)
def test_brokers_are_planned_first_then_log_dirs_of_arriving_and_staying_replicas(
    plan_request: PlanRequest,
) -> None:
    state = all_on_the_first()
    without = suggest_plan(state, load(state), replace(plan_request, disks=False, balance=False))
    suggestion = suggest_plan(state, load(state), plan_request)
    assert {m.tp: m.after for m in without.plan} == {
        m.tp: m.after for m in suggestion.plan if m.after != m.before
    }, "who holds what is planned as without log dirs"
    assert is_even(dirs_after(state, suggestion.plan)), dirs_after(state, suggestion.plan)
    assert all(path for held in dirs_after(state, suggestion.plan).values() for path in held)
    doubts = check_plan(state, load(state), suggestion.plan)
    assert not [doubt for doubt in doubts if doubt.severity is Severity.ILLEGAL]
    assert Plan.of(suggestion.plan.inverse().inverse().moves).moves == suggestion.plan.moves


def test_planning_log_dirs_alone_moves_nothing_between_brokers() -> None:
    state = all_on_the_first()
    suggestion = suggest_plan(state, load(state), PlanRequest(disks=True))
    assert len(suggestion.plan)
    assert all(move.before == move.after for move in suggestion.plan)
    assert np.array_equal(suggestion.before, suggestion.after)
    assert is_even({b: held for b, held in dirs_after(state, suggestion.plan).items() if held})


def test_arriving_replicas_go_to_the_emptiest_log_dir_without_moving_staying_ones() -> None:
    held = {f"t-{n}": [(1, "/d1")] for n in range(4)} | {f"u-{n}": [(2, "/d1")] for n in range(4)}
    state = cluster(held)
    suggestion = suggest_plan(state, load(state), PlanRequest(disks=True, replace=((1, 2),)))
    assert {path for m in suggestion.plan for path in m.new_log_dirs.values()} == {"/d2"}
    assert not [m for m in suggestion.plan if m.dir_moves]
    assert suggestion.dirs is not None
    assert suggestion.dirs.moves == 0


def test_each_replica_that_changes_its_log_dir_has_a_reason() -> None:
    state = all_on_the_first()
    suggestion = suggest_plan(state, load(state), PlanRequest(disks=True, balance=True))
    assert suggestion.dirs is not None
    within = {m.tp for m in suggestion.plan if m.dir_moves}
    assert within == set(suggestion.dirs.reasons)
    assert within


@pytest.mark.parametrize("most", [3, 9])
def test_limits_hold_for_broker_and_log_dir_moves_together(most: int) -> None:
    state = all_on_the_first()

    for limits in (Limits(max_moves=most), Limits(max_bytes=most * 10 * MB)):
        wanted = PlanRequest(disks=True, balance=True, limits=limits)
        suggestion = suggest_plan(state, load(state), wanted)
        assert sum(len(move.receiving) for move in suggestion.plan) <= most
        assert any("log dirs" in note for note in suggestion.notes)


@pytest.mark.parametrize("plan_request", CASES.values(), ids=CASES)
def test_moves_already_planned_count_in_the_log_dirs_that_they_target(
    plan_request: PlanRequest,
) -> None:
    state = all_on_the_first()
    first = suggest_plan(state, load(state), plan_request).plan
    assert any(move.target_log_dirs for move in first)
    again = suggest_plan(
        state, load(state), PlanRequest(disks=True, brokers=plan_request.brokers, kept=first)
    )
    assert not again.plan.moves
    assert again.dirs is not None
    assert again.dirs.reached
    held = dirs_after(state, first)
    for log_dir in again.dirs.dirs:
        assert log_dir.after_bytes == held[log_dir.broker].get(log_dir.path, 0), log_dir


def test_replica_arriving_by_a_kept_move_takes_the_room_of_its_log_dir() -> None:
    tight = (LogDir("/d1", ROOMY, ROOMY), LogDir("/d2", ROOMY, ROOMY // 10 + 60 * MB))
    state = all_on_the_first()
    state = replace(state, brokers=tuple(replace(b, log_dirs=tight) for b in state.brokers))
    kept = [
        Move(tp(f"t-{n}"), (1,), (3,), None, log_dirs=("/d2",), log_dirs_before=("/d1",))
        for n in (0, 2, 4, 6, 8)
    ]
    wanted = PlanRequest(disks=True, replace=((2, 3),), kept=Plan.of(kept, cluster_id="jbod"))
    landed = dirs_after(state, suggest_plan(state, load(state), wanted).plan)[3]
    assert landed["/d2"] == 10 * MB, "of 60 MB that may be filled 50 are spoken for"


def test_no_log_dir_is_named_for_a_broker_that_has_only_one() -> None:
    state = all_on_the_first()
    single = tuple(replace(b, log_dirs=b.log_dirs[:1]) if b.id == 3 else b for b in state.brokers)
    state = replace(state, brokers=single)
    suggestion = suggest_plan(state, load(state), PlanRequest(disks=True, replace=((1, 3),)))
    assert all(m.log_dirs is None or ANY in m.log_dirs for m in suggestion.plan if 3 in m.after)


@pytest.mark.parametrize(
    "plan_request",
    [
        PlanRequest(drain=(1,)),
        PlanRequest(replace=((1, 2),)),
        PlanRequest(replicas=2),
        PlanRequest(fill=(2,)),
    ],
)
def test_no_replica_goes_to_a_broker_where_no_single_log_dir_has_room_for_it(
    plan_request: PlanRequest,
) -> None:
    held = {"t-0": [(1, "/d1")]}
    beside, whole = (
        cluster(held, brokers=2, size=80 * MB, rooms={2: room})
        for room in ((60 * MB, 59 * MB), (90 * MB, 0))
    )
    suggestion = suggest_plan(beside, load(beside), plan_request)
    assert not suggestion.plan.moves
    assert not is_reached(suggestion, plan_request)
    if plan_request.forces:
        room = "no broker that could take them has that much disk to fill (60 MB at most"
        assert room in suggestion.notes[0]
    assert plan_request.fill or suggest_plan(whole, load(whole), plan_request).plan.moves


def test_replicas_that_fit_on_a_broker_but_in_none_of_its_log_dirs_are_reported() -> None:
    held = {f"t-{n}": [(1, "/d1")] for n in range(3)}
    state = cluster(held, brokers=2, size=35 * MB, rooms={2: (60 * MB, 59 * MB)})
    wanted = PlanRequest(drain=(1,), disks=True)
    suggestion = suggest_plan(state, load(state), wanted)
    assert not is_reached(suggestion, wanted)
    assert (
        "No log dir of broker 2 has room for t-2 beside what else lands there: Kafka would choose "
        "one, and may fill it. Plan less for that broker, or add disk."
    ) in suggestion.notes


def test_dropped_replicas_do_not_count_against_the_max_per_broker_limit() -> None:
    state = cluster({f"t-{n}": [(1 + n % 3, "/d1"), (1 + (n + 1) % 3, "/d1")] for n in range(18)})
    wanted = PlanRequest(replicas=1, disks=True, limits=Limits(max_per_broker=2))
    suggestion = suggest_plan(state, load_of(state, 0.0), wanted)
    copied = [broker for move in suggestion.plan for broker in move.dir_moves]
    assert [copied.count(broker) for broker in (1, 2, 3)] == [2, 2, 2]
