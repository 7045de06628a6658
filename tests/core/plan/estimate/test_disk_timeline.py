"""What disks hold more over the time of a plan: all that comes and goes, never past its peak."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from clusters import MB, cluster, load_of, tp
from hypothesis import given, settings
from hypothesis import strategies as st

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.estimate.estimate import Estimate, estimate_at
from core.plan.estimate.peak_usage import (
    CHANGE,
    DELETED_SECONDS,
    MAX_POINTS,
    DiskPoint,
    estimate_extra_disk,
)
from core.plan.estimate.plan_over_time import DiskLane, build_disk_lanes, build_timeline
from core.plan.estimate.uncertainty import END_SECONDS, START_SECONDS
from core.plan.plan import ANY, Move, Plan


def lanes_of(state: ClusterState, plan: Plan, rate: int) -> tuple[dict[int, DiskLane], Estimate]:
    estimate = estimate_at(state, load_of(state), plan, rate)
    lanes = build_disk_lanes(state, estimate_extra_disk(state, Load.unknown(state), plan, estimate))
    return {lane.broker: lane for lane in lanes}, estimate


def size_of(state: ClusterState, move: Move) -> int:
    row = state.find(move.tp)
    assert row is not None
    return int(state.partition_size_bytes[row])


def held_at(lane: DiskLane, seconds: float) -> float:
    """Return what the lane says of a moment; just before it, where it steps."""
    for (start, first), (end, last) in pairwise((DiskPoint(0.0, 0), *lane.course)):
        if start < end and start <= seconds <= end:
            return first + (last - first) * (seconds - start) / (end - start)
    return lane.course[-1].bytes


@st.composite
def _plans(draw: st.DrawFn) -> tuple[ClusterState, Plan, int]:
    """Return plans in which brokers give, receive, or do both; of seconds to an hour."""
    count = draw(st.integers(1, 40))
    sizes = {f"t-{i}": round(draw(st.floats(0.1, 400)) * MB) for i in range(count)}
    homes = {name: draw(st.permutations(range(4)))[:2] for name in sizes}
    state = cluster(homes, brokers=range(4), size_bytes=sizes)
    plan = Plan()
    for name in sizes:
        plan = plan.with_target(state, tp(name), tuple(draw(st.permutations(range(4)))[:2]))
    return state, plan, round(draw(st.floats(1, 60)) * MB)


@settings(max_examples=20, deadline=None)
@given(_plans())
def test_disks_end_with_what_has_come_less_what_has_left(
    drawn: tuple[ClusterState, Plan, int],
) -> None:
    state, plan, rate = drawn
    lanes, estimate = lanes_of(state, plan, rate)
    net: dict[int, int] = {}
    for move in plan:
        size = size_of(state, move)
        for broker in move.adding:
            net[broker] = net.get(broker, 0) + size
        for broker in move.removing:
            net[broker] = net.get(broker, 0) - size
    peaks = {
        one.broker: one for one in estimate_extra_disk(state, Load.unknown(state), plan, estimate)
    }
    assert lanes.keys() == peaks.keys()
    for broker, lane in lanes.items():
        assert lane.course[-1].bytes == pytest.approx(net[broker], abs=2)
        assert lane.max_bytes == peaks[broker].bytes
        times = [held.at_seconds for held in lane.course]
        assert times == sorted(times)
        assert times[0] >= START_SECONDS
        assert len(times) <= MAX_POINTS
        whole = max(lane.ends, 1.0)
        columns = [most for most, _ in lane.columns(37, whole)]
        assert max(columns) == pytest.approx(lane.max_bytes)
        assert min(columns) >= 0


@settings(max_examples=20, deadline=None)
@given(_plans())
def test_a_course_is_off_what_was_played_by_small_changes_only(
    drawn: tuple[ClusterState, Plan, int],
) -> None:
    state, plan, rate = drawn
    lanes, estimate = lanes_of(state, plan, rate)
    trace = estimate.trace
    if trace is None:
        return
    spans = {(copy.tp, copy.destination): trace.when(at) for at, copy in enumerate(trace.copies)}
    for broker, lane in lanes.items():
        for part in range(1, 24):
            moment = lane.ends * part / 24
            held = 0.0
            for move in plan:
                size = size_of(state, move)
                ends = [spans[move.tp, b][1] for b in move.adding]
                if broker in move.adding:
                    begin, end = (START_SECONDS + at for at in spans[move.tp, broker])
                    span = max(end - begin, 1e-9)
                    held += size * min(max((moment - begin) / span, 0.0), 1.0)
                gone = START_SECONDS + max(ends, default=0.0) + DELETED_SECONDS
                if broker in move.removing and moment > gone:
                    held -= size
            allowed = 2 * CHANGE * lane.max_bytes + 2
            if len(lane.course) < MAX_POINTS / 2:  # else smaller changes may be left out
                assert held_at(lane, moment) == pytest.approx(held, abs=allowed)


def test_what_goes_lies_on_its_disk_until_it_is_deleted() -> None:
    state = cluster({"t-0": [0, 1], "u-0": [2, 1]}, size_bytes=100 * MB)
    plan = Plan.of([Move(tp("t-0"), (0, 1), (2, 1)), Move(tp("u-0"), (2, 1), (0, 1))])
    lanes, estimate = lanes_of(state, plan, 10 * MB)
    assert estimate.seconds is not None
    lane = lanes[0]
    copied = estimate.seconds - END_SECONDS
    assert lane.max_bytes == 100 * MB
    assert held_at(lane, copied / 2) == pytest.approx(50 * MB, rel=0.2)
    assert held_at(lane, copied + DELETED_SECONDS / 2) == 100 * MB
    assert lane.course[-1] == DiskPoint(pytest.approx(copied + DELETED_SECONDS, abs=1.0), 0)


def test_a_disk_that_waits_for_its_copy_is_not_drawn_as_filling() -> None:
    """The copy of a second batch begins when the first has ended, and then fills evenly."""
    waits = DiskLane(1, (DiskPoint(2.0, 0), DiskPoint(90.0, 0), DiskPoint(100.0, 10 * MB)))
    assert [round(most) for most, _ in waits.columns(10, 100.0)] == [0] * 9 + [10 * MB]


def test_a_disk_that_is_emptied_holds_nothing_more() -> None:
    course = (DiskPoint(2.0, 0), DiskPoint(10.0, MB), DiskPoint(50.0, MB), DiskPoint(50.0, -9 * MB))
    columns = [most for most, _ in DiskLane(1, course).columns(4, 100.0)]
    assert columns == [MB, MB, 0, 0]


@pytest.mark.parametrize(
    ("usable", "fraction", "near"), [(700 * MB, 0.4, False), (250 * MB, 0.85, True)]
)
def test_how_full_disks_get_is_told_where_brokers_tell_their_space(
    usable: int, fraction: float, near: bool
) -> None:
    state = cluster(
        {"t-0": [0, 1]}, brokers=[0, 1, 2], size_bytes=100 * MB, disk_bytes=(1000 * MB, usable)
    )
    lanes, _ = lanes_of(state, Plan.of([Move(tp("t-0"), (0, 1), (2, 1))]), 10 * MB)
    lane = lanes[2]
    assert (lane.used_bytes, lane.whole_bytes) == (1000 * MB - usable, 1000 * MB)
    assert lane.max_fraction == pytest.approx(fraction)
    assert lane.is_near(lane.max_bytes) is near
    first, *_, last = (too_much for _, too_much in lane.columns(20, lane.ends))
    assert (first, last) == (False, near)


def test_a_full_disk_that_gets_nothing_more_is_not_marked() -> None:
    full = DiskLane(
        1, (DiskPoint(2.0, 0), DiskPoint(9.0, MB), DiskPoint(9.0, 0)), 99 * MB, 100 * MB
    )
    assert [near for _, near in full.columns(3, 30.0)] == [True, False, False]


def test_space_that_is_not_known_is_no_zero() -> None:
    state = cluster({"t-0": [0, 1]}, brokers=[0, 1, 2], size_bytes=100 * MB)
    lanes, _ = lanes_of(state, Plan.of([Move(tp("t-0"), (0, 1), (2, 1))]), 10 * MB)
    assert lanes[2].max_fraction is None


def test_those_nearest_to_full_come_first() -> None:
    state = cluster(
        {"t-0": [0, 1], "u-0": [0, 1]},
        brokers=[0, 1, 2, 3],
        size_bytes={"t-0": 10 * MB, "u-0": 90 * MB},
    )
    plan = Plan.of([Move(tp("t-0"), (0, 1), (2, 1)), Move(tp("u-0"), (0, 1), (3, 1))])
    assert list(lanes_of(state, plan, 10 * MB)[0]) == [3, 2]


def test_copies_between_log_dirs_are_among_them() -> None:
    state = cluster({"t-0": [0, 1]}, size_bytes=100 * MB)
    plan = Plan.of([Move(tp("t-0"), (0, 1), (0, 1), None, ("/d2", ANY), ("/data", ANY))])
    lanes, _ = lanes_of(state, plan, 10 * MB)
    assert [held.bytes for held in lanes[0].course] == [0, 100 * MB, 100 * MB, 0]


def test_they_are_part_of_the_time_line() -> None:
    state = cluster({"t-0": [0, 1]}, brokers=[0, 1, 2], size_bytes=100 * MB)
    plan = Plan.of([Move(tp("t-0"), (0, 1), (2, 1))])
    estimate = estimate_at(state, load_of(state), plan, 10 * MB)
    found = build_timeline(
        state,
        load_of(state),
        estimate,
        estimate_extra_disk(state, Load.unknown(state), plan, estimate),
    )
    assert found is not None
    assert [(disk.broker, disk.max_bytes) for disk in found.disks] == [(2, 100 * MB)]
    assert found.max_disk_bytes == 100 * MB
    assert math.isclose(found.disks[0].ends, found.ends)
