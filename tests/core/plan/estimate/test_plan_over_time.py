"""A plan over time: lanes hold every byte that is copied, and disks all that comes and goes."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from clusters import MB, cluster, load_of, plan_of, tp
from hypothesis import given, settings
from hypothesis import strategies as st

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.copies import Side
from core.plan.estimate.calibration import Calibration, Learned
from core.plan.estimate.estimate import Estimate, estimate_at
from core.plan.estimate.plan_over_time import (
    CHANGE,
    DELETED_SECONDS,
    MAX_POINTS,
    DiskLane,
    DiskPoint,
    SideLane,
    build_timeline,
    estimate_extra_disk,
    fullest_first,
)
from core.plan.estimate.uncertainty import END_SECONDS, START_SECONDS
from core.plan.plan import ANY, Move, Plan
from core.units import UNLIMITED

HELD = {"t-0": [1], "u-0": [2], "v-0": [2]}
SIZES = {"t-0": 100 * MB, "u-0": 400 * MB, "v-0": 100 * MB}
TWO_TO_ONE = cluster(HELD, brokers=[1, 2, 3], size_bytes=SIZES)
TO_3 = plan_of(TWO_TO_ONE, dict.fromkeys(HELD, (3,)))


def lanes_of(
    state: ClusterState, plan: Plan, rate: int, load: Load | None = None
) -> dict[tuple[int, Side], SideLane]:
    load = load or load_of(state)
    timeline = build_timeline(state, load, estimate_at(state, load, plan, rate), ())
    assert timeline is not None
    return {(lane.broker, lane.side): lane for lane in timeline.lanes}


@st.composite
def _plans(draw: st.DrawFn) -> tuple[ClusterState, Load, Plan, int, float]:
    """Return plans of seconds to hours, in one batch or many, some so long that they flow."""
    count = draw(st.integers(1, 30))
    rate = round(draw(st.floats(1, 60)) * MB)
    sizes = {f"t-{i}": round(draw(st.floats(0.1, 3_000)) * MB) for i in range(count)}
    homes = {name: [draw(st.integers(1, 3)), 4] for name in sizes}
    state = cluster(homes, brokers=range(1, 8), size_bytes=sizes)
    plan = plan_of(state, {name: (draw(st.integers(5, 7)), 4) for name in sizes})
    produced = draw(st.sampled_from([0.0, 0.1])) * rate / count
    factor = draw(st.sampled_from([1.0, 0.8, 1.3]))
    return state, load_of(state, produced), plan, rate, factor


@settings(max_examples=15, deadline=None)
@given(_plans())
def test_lanes_contain_all_copied_bytes_on_both_sides_and_end_with_the_estimate(
    drawn: tuple[ClusterState, Load, Plan, int, float],
) -> None:
    state, load, plan, rate, factor = drawn
    learned = Learned(4, factor, 1.0)
    calibration = Calibration({Side.LEADER: learned, Side.FOLLOWER: learned})
    estimate = estimate_at(state, load, plan, rate, calibration=calibration)
    timeline = build_timeline(state, load, estimate, ())
    if estimate.seconds is None:
        assert timeline is None
        return
    assert timeline is not None
    assert estimate.trace is not None
    lanes = {(lane.broker, lane.side): lane for lane in timeline.lanes}
    assert lanes.keys() == {(row.broker, row.side) for row in estimate.rows}
    for row in estimate.rows:
        lane = lanes[row.broker, row.side]
        assert row.seconds is not None
        assert lane.ends == pytest.approx(row.seconds)
        # what is produced meanwhile, at most: as long as the play-through took
        there = row.background_bytes_per_s * row.seconds / min(estimate.trace.stretch, 1.0)
        assert row.bytes * (1 - 1e-9) - 1 <= lane.bytes <= (row.bytes + there) * (1 + 1e-9) + 1
        times = [at for step in lane.steps for at in (step.start, step.end)]
        assert times == sorted(times)
        assert times[0] >= START_SECONDS - 1.5  # one fetch is taken for what a second brings
    assert timeline.ends == pytest.approx(estimate.seconds - END_SECONDS)
    assert timeline.batches[0] == pytest.approx(START_SECONDS)
    sums = dict.fromkeys(Side, 0.0)
    for lane in timeline.lanes:
        sums[lane.side] += lane.bytes
    assert sums[Side.LEADER] == pytest.approx(sums[Side.FOLLOWER])  # what is sent is received


def test_the_busiest_side_copies_at_about_the_throttle_from_its_begin_to_its_end() -> None:
    """A fetcher that sleeps a second when the quota is used up does not use all of it."""
    lanes = lanes_of(TWO_TO_ONE, TO_3, 10 * MB)
    into = lanes[3, Side.FOLLOWER]
    assert into.bytes == pytest.approx(600 * MB)
    assert into.steps[0].start == pytest.approx(START_SECONDS)
    assert all(8 * MB < step.bytes_per_s < 10 * MB for step in into.steps)
    assert lanes[1, Side.LEADER].ends < lanes[2, Side.LEADER].ends == into.ends


def test_single_fetch_does_not_appear_as_a_burst_in_a_lane() -> None:
    state = cluster({"t-0": [1], "t-1": [1]}, brokers=[1, 3], size_bytes=MB)
    plan = plan_of(state, {"t-0": [3], "t-1": [3]})
    for lane in lanes_of(state, plan, MB).values():
        assert lane.bytes == pytest.approx(2 * MB)
        assert lane.max_bytes_per_s <= 2 * MB


@pytest.mark.parametrize("rate", [20 * MB, 40 * MB, 100 * MB])
def test_initial_burst_through_a_quota_does_not_raise_a_lane_above_the_rate(rate: int) -> None:
    held = {f"t-{n}": [1] for n in range(6)}
    can = {"can_take_in": 1.3 * rate, "can_send": 1.3 * rate}
    state = cluster(held, brokers=range(1, 5), size_bytes=rate, **can)
    plan = plan_of(state, {f"t-{n}": [2 + n % 3] for n in range(6)})
    for lane in lanes_of(state, plan, rate, load_of(state, 0.0)).values():
        assert lane.max_bytes_per_s <= rate
        assert max(mean for mean, _ in lane.columns(50, lane.ends)) <= rate + 1
        assert not any(near for _, near in lane.columns(50, lane.ends))


def test_lanes_of_a_plan_that_takes_hours_have_few_steps() -> None:
    lanes = lanes_of(TWO_TO_ONE, TO_3, 100_000)
    assert all(len(lane.steps) <= 8 for lane in lanes.values())
    assert lanes[3, Side.FOLLOWER].steps[-1].bytes_per_s == pytest.approx(100_000, rel=0.05)


def test_background_load_and_capacity_determine_when_a_broker_is_near_capacity() -> None:
    can = {"can_take_in": 5e7, "can_send": 5e7}
    state = cluster(HELD, brokers=[1, 2, 3], size_bytes=SIZES, **can)
    load = load_of(state, {"t-0": 0.0, "u-0": 16 * MB, "v-0": 16 * MB})
    only = Plan.of([TO_3.moves[0]])
    timeline = build_timeline(state, load, estimate_at(state, load, only, 10 * MB), ())
    assert timeline is not None
    assert {lane.broker for lane in timeline.lanes} == {1, 3}
    state = cluster({"t-0": [1], "u-0": [1]}, brokers=[1, 3], size_bytes=MB * 99, **can)
    load = load_of(state, {"t-0": 0.0, "u-0": 32 * MB})
    first, other = lanes_of(state, only, 10 * MB, load).values()
    assert (first.broker, first.side) == (1, Side.LEADER)
    assert first.besides_bytes_per_s == 32 * MB
    assert first.max_fraction == pytest.approx((32 * MB + first.max_bytes_per_s) / 50e6)
    assert first.is_near(10 * MB)
    assert not first.is_near(7 * MB)
    assert other.besides_bytes_per_s == 0.0
    assert not other.is_near(10 * MB)


def test_unknown_background_load_of_a_broker_is_none_not_zero() -> None:
    state = cluster({"t-0": [1], "u-0": [1]}, brokers=[1, 3], size_bytes=MB)
    only = Plan.of([TO_3.moves[0]])
    unknown = lanes_of(state, only, MB, Load.unknown(state))[1, Side.LEADER]
    assert unknown.besides_bytes_per_s is None
    assert unknown.max_fraction is None


def test_copies_between_log_dirs_get_a_separate_lane() -> None:
    state = cluster({"t-0": [0, 1]}, size_bytes=100 * MB)
    plan = Plan.of([Move(tp("t-0"), (0, 1), (0, 1), None, ("/d2", ANY), ("/data", ANY))])
    (lane,) = lanes_of(state, plan, 10 * MB).values()
    assert (lane.broker, lane.side) == (0, Side.LOG_DIRS)
    assert lane.bytes == pytest.approx(100 * MB)


@pytest.mark.parametrize("rate", [0, UNLIMITED])
def test_estimate_that_never_ends_or_is_unknown_has_no_timeline(rate: int) -> None:
    load = load_of(TWO_TO_ONE)
    estimate = estimate_at(TWO_TO_ONE, load, TO_3, rate)
    assert estimate.seconds is None
    assert build_timeline(TWO_TO_ONE, load, estimate, ()) is None


def test_plan_with_nothing_to_copy_has_no_timeline() -> None:
    only_time = Estimate(MB, 2.6, (1.3, 3.9), None, None, (), 0)
    assert build_timeline(TWO_TO_ONE, load_of(TWO_TO_ONE), only_time, ()) is None


def test_lanes_of_brokers_without_a_capacity_are_ordered_by_copied_bytes() -> None:
    assert list(lanes_of(TWO_TO_ONE, TO_3, MB)) == [
        (3, Side.FOLLOWER),
        (2, Side.LEADER),
        (1, Side.LEADER),
    ]


def disk_lanes_of(
    state: ClusterState, plan: Plan, rate: int
) -> tuple[dict[int, DiskLane], Estimate]:
    estimate = estimate_at(state, load_of(state), plan, rate)
    lanes = fullest_first(estimate_extra_disk(state, Load.unknown(state), plan, estimate))
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
def _disk_plans(draw: st.DrawFn) -> tuple[ClusterState, Plan, int]:
    """Return plans in which brokers give, receive, or do both; of seconds to an hour."""
    count = draw(st.integers(1, 40))
    sizes = {f"t-{i}": round(draw(st.floats(0.1, 400)) * MB) for i in range(count)}
    homes = {name: draw(st.permutations(range(4)))[:2] for name in sizes}
    state = cluster(homes, brokers=range(4), size_bytes=sizes)
    plan = plan_of(state, {name: draw(st.permutations(range(4)))[:2] for name in sizes})
    return state, plan, round(draw(st.floats(1, 60)) * MB)


@settings(max_examples=20, deadline=None)
@given(_disk_plans())
def test_disk_lanes_end_with_arrived_minus_removed_bytes(
    drawn: tuple[ClusterState, Plan, int],
) -> None:
    state, plan, rate = drawn
    lanes, estimate = disk_lanes_of(state, plan, rate)
    net: dict[int, int] = {}
    for move in plan:
        size = size_of(state, move)
        for broker in move.adding:
            net[broker] = net.get(broker, 0) + size
        for broker in move.removing:
            net[broker] = net.get(broker, 0) - size
    peaks = {
        peak.broker: peak
        for peak in estimate_extra_disk(state, Load.unknown(state), plan, estimate)
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
@given(_disk_plans())
def test_disk_course_deviates_from_the_simulation_by_small_changes_only(
    drawn: tuple[ClusterState, Plan, int],
) -> None:
    state, plan, rate = drawn
    lanes, estimate = disk_lanes_of(state, plan, rate)
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


def test_removed_replica_occupies_its_disk_until_it_is_deleted() -> None:
    state = cluster({"t-0": [0, 1], "u-0": [2, 1]}, size_bytes=100 * MB)
    plan = Plan.of([Move(tp("t-0"), (0, 1), (2, 1)), Move(tp("u-0"), (2, 1), (0, 1))])
    lanes, estimate = disk_lanes_of(state, plan, 10 * MB)
    assert estimate.seconds is not None
    lane = lanes[0]
    copied = estimate.seconds - END_SECONDS
    assert lane.max_bytes == 100 * MB
    assert held_at(lane, copied / 2) == pytest.approx(50 * MB, rel=0.2)
    assert held_at(lane, copied + DELETED_SECONDS / 2) == 100 * MB
    assert lane.course[-1] == DiskPoint(pytest.approx(copied + DELETED_SECONDS, abs=1.0), 0)


def test_disk_whose_copy_has_not_begun_is_not_drawn_as_filling() -> None:
    """The copy of a second batch begins when the first has ended, and then fills evenly."""
    waits = DiskLane(
        1, 10 * MB, 100.0, (DiskPoint(2.0, 0), DiskPoint(90.0, 0), DiskPoint(100.0, 10 * MB))
    )
    assert [round(most) for most, _ in waits.columns(10, 100.0)] == [0] * 9 + [10 * MB]


def test_emptied_disk_is_drawn_with_no_extra_bytes() -> None:
    course = (DiskPoint(2.0, 0), DiskPoint(10.0, MB), DiskPoint(50.0, MB), DiskPoint(50.0, -9 * MB))
    columns = [most for most, _ in DiskLane(1, MB, 10.0, course).columns(4, 100.0)]
    assert columns == [MB, MB, 0, 0]


@pytest.mark.parametrize(
    ("usable", "fraction", "near"), [(700 * MB, 0.4, False), (250 * MB, 0.85, True)]
)
def test_disk_fullness_is_shown_where_brokers_report_their_disk_space(
    usable: int, fraction: float, near: bool
) -> None:
    state = cluster(
        {"t-0": [0, 1]}, brokers=[0, 1, 2], size_bytes=100 * MB, disk_bytes=(1000 * MB, usable)
    )
    lanes, _ = disk_lanes_of(state, Plan.of([Move(tp("t-0"), (0, 1), (2, 1))]), 10 * MB)
    lane = lanes[2]
    assert (lane.used_bytes, lane.whole_bytes) == (1000 * MB - usable, 1000 * MB)
    assert lane.max_fraction == pytest.approx(fraction)
    assert lane.is_near(lane.max_bytes) is near
    first, *_, last = (too_much for _, too_much in lane.columns(20, lane.ends))
    assert (first, last) == (False, near)


def test_full_disk_is_not_marked_once_it_receives_nothing_more() -> None:
    course = (DiskPoint(2.0, 0), DiskPoint(9.0, MB), DiskPoint(9.0, 0))
    full = DiskLane(1, MB, 9.0, course, 99 * MB, 100 * MB)
    assert [near for _, near in full.columns(3, 30.0)] == [True, False, False]


def test_disk_fraction_is_none_where_disk_space_is_unknown() -> None:
    state = cluster({"t-0": [0, 1]}, brokers=[0, 1, 2], size_bytes=100 * MB)
    lanes, _ = disk_lanes_of(state, Plan.of([Move(tp("t-0"), (0, 1), (2, 1))]), 10 * MB)
    assert lanes[2].max_fraction is None


def test_disk_lanes_with_the_most_extra_bytes_come_first() -> None:
    state = cluster(
        {"t-0": [0, 1], "u-0": [0, 1]},
        brokers=[0, 1, 2, 3],
        size_bytes={"t-0": 10 * MB, "u-0": 90 * MB},
    )
    plan = Plan.of([Move(tp("t-0"), (0, 1), (2, 1)), Move(tp("u-0"), (0, 1), (3, 1))])
    assert list(disk_lanes_of(state, plan, 10 * MB)[0]) == [3, 2]


def test_copies_between_log_dirs_appear_in_the_disk_lanes() -> None:
    state = cluster({"t-0": [0, 1]}, size_bytes=100 * MB)
    plan = Plan.of([Move(tp("t-0"), (0, 1), (0, 1), None, ("/d2", ANY), ("/data", ANY))])
    lanes, _ = disk_lanes_of(state, plan, 10 * MB)
    assert [held.bytes for held in lanes[0].course] == [0, 100 * MB, 100 * MB, 0]


def test_disk_lanes_are_part_of_the_timeline() -> None:
    state = cluster({"t-0": [0, 1]}, brokers=[0, 1, 2], size_bytes=100 * MB)
    plan = Plan.of([Move(tp("t-0"), (0, 1), (2, 1))])
    estimate = estimate_at(state, load_of(state), plan, 10 * MB)
    timeline = build_timeline(
        state,
        load_of(state),
        estimate,
        estimate_extra_disk(state, Load.unknown(state), plan, estimate),
    )
    assert timeline is not None
    assert [(disk.broker, disk.max_bytes) for disk in timeline.disks] == [(2, 100 * MB)]
    assert timeline.max_disk_bytes == 100 * MB
    assert math.isclose(timeline.disks[0].ends, timeline.ends)
