"""A plan over time: lanes hold every byte that is copied, and end when the estimate says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import MB, cluster, load_of, tp
from hypothesis import given, settings
from hypothesis import strategies as st

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.copies import Side
from core.plan.estimate.calibration import Calibration, Learned
from core.plan.estimate.estimate import Estimate, estimate_at
from core.plan.estimate.plan_over_time import SideLane, build_timeline
from core.plan.estimate.uncertainty import END_SECONDS, START_SECONDS
from core.plan.plan import ANY, Move, Plan
from core.units import UNLIMITED

TWO_TO_ONE = cluster(
    {"t-0": [1], "u-0": [2], "v-0": [2]},
    brokers=[1, 2, 3],
    size_bytes={"t-0": 100 * MB, "u-0": 400 * MB, "v-0": 100 * MB},
)
TO_3 = Plan.of(
    [Move(tp("t-0"), (1,), (3,)), Move(tp("u-0"), (2,), (3,)), Move(tp("v-0"), (2,), (3,))]
)


def lanes_of(
    state: ClusterState, plan: Plan, rate: int, load: Load | None = None
) -> dict[tuple[int, Side], SideLane]:
    load = load or load_of(state)
    found = build_timeline(state, load, estimate_at(state, load, plan, rate), ())
    assert found is not None
    return {(lane.broker, lane.side): lane for lane in found.lanes}


def with_capacity(state: ClusterState, bytes_per_s: float) -> ClusterState:
    return state.with_brokers(
        [
            replace(b, in_capacity_bytes_per_s=bytes_per_s, out_capacity_bytes_per_s=bytes_per_s)
            for b in state.brokers
        ]
    )


@st.composite
def _plans(draw: st.DrawFn) -> tuple[ClusterState, Load, Plan, int, float]:
    """Return plans of seconds to hours, in one batch or many, some so long that they flow."""
    count = draw(st.integers(1, 30))
    rate = round(draw(st.floats(1, 60)) * MB)
    sizes = {f"t-{i}": round(draw(st.floats(0.1, 3_000)) * MB) for i in range(count)}
    homes = {name: [draw(st.integers(1, 3)), 4] for name in sizes}
    state = cluster(homes, brokers=range(1, 8), size_bytes=sizes)
    plan = Plan()
    for name in sizes:
        plan = plan.with_target(state, tp(name), (draw(st.integers(5, 7)), 4))
    produced = draw(st.sampled_from([0.0, 0.1])) * rate / count
    factor = draw(st.sampled_from([1.0, 0.8, 1.3]))
    return state, load_of(state, produced), plan, rate, factor


@settings(max_examples=15, deadline=None)
@given(_plans())
def test_lanes_hold_what_is_copied_on_both_sides_and_end_with_the_estimate(
    drawn: tuple[ClusterState, Load, Plan, int, float],
) -> None:
    state, load, plan, rate, factor = drawn
    learned = Learned(4, factor, 1.0)
    calibration = Calibration({Side.LEADER: learned, Side.FOLLOWER: learned})
    estimate = estimate_at(state, load, plan, rate, calibration=calibration)
    found = build_timeline(state, load, estimate, ())
    if estimate.seconds is None:
        assert found is None
        return
    assert found is not None
    assert estimate.trace is not None
    lanes = {(lane.broker, lane.side): lane for lane in found.lanes}
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
    assert found.ends == pytest.approx(estimate.seconds - END_SECONDS)
    assert found.batches[0] == pytest.approx(START_SECONDS)
    sums = dict.fromkeys(Side, 0.0)
    for lane in found.lanes:
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


def test_what_one_fetch_brings_is_no_burst_of_a_rate() -> None:
    state = cluster({"t-0": [1], "t-1": [1]}, brokers=[1, 3], size_bytes=MB)
    plan = Plan.of([Move(tp("t-0"), (1,), (3,)), Move(tp("t-1"), (1,), (3,))])
    for lane in lanes_of(state, plan, MB).values():
        assert lane.bytes == pytest.approx(2 * MB)
        assert lane.max_bytes_per_s <= 2 * MB


@pytest.mark.parametrize("rate", [20 * MB, 40 * MB, 100 * MB])
def test_what_a_quota_lets_through_at_first_is_no_rate(rate: int) -> None:
    held = {f"t-{n}": [1] for n in range(6)}
    state = with_capacity(cluster(held, brokers=range(1, 5), size_bytes=rate), 1.3 * rate)
    plan = Plan.of([Move(tp(f"t-{n}"), (1,), (2 + n % 3,)) for n in range(6)])
    for lane in lanes_of(state, plan, rate, load_of(state, 0.0)).values():
        assert lane.max_bytes_per_s <= rate
        assert max(mean for mean, _ in lane.columns(50, lane.ends)) <= rate + 1
        assert not any(near for _, near in lane.columns(50, lane.ends))


def test_a_plan_that_takes_hours_is_told_in_few_steps() -> None:
    lanes = lanes_of(TWO_TO_ONE, TO_3, 100_000)
    assert all(len(lane.steps) <= 8 for lane in lanes.values())
    assert lanes[3, Side.FOLLOWER].steps[-1].bytes_per_s == pytest.approx(100_000, rel=0.05)


def test_what_is_borne_anyway_and_capacity_tell_when_a_broker_comes_near() -> None:
    state = with_capacity(TWO_TO_ONE, 50.0 * MB)
    load = load_of(state, {"t-0": 0.0, "u-0": 16 * MB, "v-0": 16 * MB})
    only = Plan.of([TO_3.moves[0]])
    found = build_timeline(state, load, estimate_at(state, load, only, 10 * MB), ())
    assert found is not None
    assert {lane.broker for lane in found.lanes} == {1, 3}
    state = with_capacity(
        cluster({"t-0": [1], "u-0": [1]}, brokers=[1, 3], size_bytes=MB * 99), 5e7
    )
    load = load_of(state, {"t-0": 0.0, "u-0": 32 * MB})
    first, other = lanes_of(state, only, 10 * MB, load).values()
    assert (first.broker, first.side) == (1, Side.LEADER)
    assert first.besides_bytes_per_s == 32 * MB
    assert first.max_fraction == pytest.approx((32 * MB + first.max_bytes_per_s) / 50e6)
    assert first.is_near(10 * MB)
    assert not first.is_near(7 * MB)
    assert other.besides_bytes_per_s == 0.0
    assert not other.is_near(10 * MB)


def test_what_is_not_known_of_a_broker_is_no_zero() -> None:
    state = cluster({"t-0": [1], "u-0": [1]}, brokers=[1, 3], size_bytes=MB)
    only = Plan.of([TO_3.moves[0]])
    unknown = lanes_of(state, only, MB, Load.unknown(state))[1, Side.LEADER]
    assert unknown.besides_bytes_per_s is None
    assert unknown.max_fraction is None


def test_copies_between_log_dirs_are_a_lane_of_their_own() -> None:
    state = cluster({"t-0": [0, 1]}, size_bytes=100 * MB)
    plan = Plan.of([Move(tp("t-0"), (0, 1), (0, 1), None, ("/d2", ANY), ("/data", ANY))])
    (lane,) = lanes_of(state, plan, 10 * MB).values()
    assert (lane.broker, lane.side) == (0, Side.LOG_DIRS)
    assert lane.bytes == pytest.approx(100 * MB)


@pytest.mark.parametrize("rate", [0, UNLIMITED])
def test_what_never_ends_or_is_not_known_has_none(rate: int) -> None:
    load = load_of(TWO_TO_ONE)
    estimate = estimate_at(TWO_TO_ONE, load, TO_3, rate)
    assert estimate.seconds is None
    assert build_timeline(TWO_TO_ONE, load, estimate, ()) is None


def test_nothing_to_copy_has_none() -> None:
    only_time = Estimate(MB, 2.6, (1.3, 3.9), None, None, (), 0)
    assert build_timeline(TWO_TO_ONE, load_of(TWO_TO_ONE), only_time, ()) is None


def test_brokers_without_a_capacity_are_ordered_by_what_they_copy() -> None:
    assert list(lanes_of(TWO_TO_ONE, TO_3, MB)) == [
        (3, Side.FOLLOWER),
        (2, Side.LEADER),
        (1, Side.LEADER),
    ]
