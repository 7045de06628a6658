"""How much more disks hold while a plan is carried out, at the most and when."""

from __future__ import annotations

import pytest
from clusters import MB, cluster, load_of, plan_of, tp

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.copies import Side
from core.plan.estimate.estimate import Estimate, estimate_at, estimate_within
from core.plan.estimate.near_capacity import NearCapacity
from core.plan.estimate.plan_over_time import (
    DELETED_SECONDS,
    DiskLane,
    PeakUsage,
    estimate_extra_disk,
    estimate_peak_usage,
)
from core.plan.estimate.uncertainty import END_SECONDS
from core.plan.plan import ANY, Move, Plan
from core.units import UNLIMITED

SWAPS = tuple(Move(tp(f"t-{n}"), (0, 1), (2, 1)) for n in range(4))
BACK = tuple(Move(tp(f"u-{n}"), (2, 1), (0, 1)) for n in range(4))
HELD = {f"t-{n}": [0, 1] for n in range(4)} | {f"u-{n}": [2, 1] for n in range(4)}
STATE = cluster(HELD, size_bytes=100 * MB)
LIMITED = cluster(HELD, size_bytes=100 * MB, can_take_in=1e8, can_send=1e8)
PLAN = Plan.of([*SWAPS, *BACK])
"""Four partitions go from broker 0 to 2, four from 2 to 0."""


def at(state: ClusterState, plan: Plan, rate: int) -> Estimate:
    return estimate_at(state, load_of(state), plan, rate)


def extra(state: ClusterState, plan: Plan, estimate: Estimate | int) -> tuple[DiskLane, ...]:
    """Return how much more disks hold, by an estimate or at a rate."""
    estimate = at(state, plan, estimate) if isinstance(estimate, int) else estimate
    return estimate_extra_disk(state, Load.unknown(state), plan, estimate)


def test_in_a_short_run_all_replicas_arrive_before_any_is_deleted() -> None:
    estimate = at(STATE, PLAN, 50 * MB)
    assert estimate.seconds is not None
    assert estimate.seconds < DELETED_SECONDS
    lanes = extra(STATE, PLAN, estimate)
    assert {lane.broker: lane.bytes for lane in lanes} == {0: 400 * MB, 2: 400 * MB}
    latest = max(lane.at_seconds or 0.0 for lane in lanes)
    assert latest == pytest.approx(estimate.seconds - END_SECONDS)


def test_in_a_long_run_removed_replicas_are_deleted_while_later_batches_arrive() -> None:
    there = {f"t-{n}": [0, 1] for n in range(40)} | {f"u-{n}": [2, 1] for n in range(40)}
    state = cluster(there, size_bytes=25 * MB)
    plan = plan_of(state, {name: (2 - held[0], 1) for name, held in there.items()})
    estimate = at(state, plan, MB)
    assert estimate.seconds is not None
    for lane in extra(state, plan, estimate):
        assert lane.bytes is not None
        assert lane.at_seconds is not None
        # two batches are there at a time, and what left in the last minute
        least, most = 60 * MB, (estimate.seconds / 20 * 2 + DELETED_SECONDS) * 1.1 * MB
        assert least < lane.bytes < most < 40 * 25 * MB / 5
        assert lane.at_seconds < estimate.seconds


def test_brokers_that_only_lose_replicas_get_no_extra_disk_lane() -> None:
    state = cluster({"t-0": [0, 1], "u-0": [1, 0]}, brokers=[0, 1, 2], size_bytes=100 * MB)
    both = plan_of(state, {"t-0": (2, 1), "u-0": (1,)})
    lanes = extra(state, both, 10 * MB)
    assert [(lane.broker, lane.bytes) for lane in lanes] == [(2, 100 * MB)]


def test_without_a_simulation_everything_is_assumed_to_arrive_before_anything_leaves() -> None:
    unplayed = Estimate(MB, 60.0, None, None, None, (), 800 * MB)
    assert extra(STATE, PLAN, unplayed) == (DiskLane(0, 400 * MB), DiskLane(2, 400 * MB))


def test_copy_between_log_dirs_temporarily_needs_its_space_twice() -> None:
    plan = Plan.of([Move(tp("t-0"), (0, 1), (0, 1), None, ("/d2", ANY), ("/data", ANY))])
    (lane,) = extra(STATE, plan, 10 * MB)
    assert (lane.broker, lane.bytes) == (0, 100 * MB)
    assert lane.at_seconds == pytest.approx(12.8)


def test_partial_replica_that_a_broker_already_holds_is_not_extra_disk() -> None:
    state = cluster(
        {"t-0": [0, 1, 2], "u-0": [2, 1]},
        isr={"t-0": [0, 1]},
        adding={"t-0": [2]},
        size_bytes=100 * MB,
    )
    plan = Plan.of([SWAPS[0]])
    assert extra(state, plan, 10 * MB) == ()


def test_extra_disk_of_a_replica_of_unknown_size_is_unknown_not_zero() -> None:
    state = cluster({"t-0": [0, 1], "u-0": [2, 1]}, size_bytes={"u-0": MB})
    plan = Plan.of([SWAPS[0], BACK[0]])
    estimate = at(state, plan, 10 * MB)
    assert extra(state, plan, estimate) == (DiskLane(2, None), DiskLane(0, MB))
    assert estimate_peak_usage(state, Load.unknown(state), plan, estimate).sentences == [
        "Meanwhile disks hold more, at most an unknown size on broker 2, 1.0 MB on broker 0."
    ]


@pytest.mark.parametrize(
    ("rate", "fraction"), [(10 * MB, None), (25 * MB, 0.85), (50 * MB, 1.1), (UNLIMITED, None)]
)
def test_near_capacity_fraction_includes_the_background_load_of_a_broker(
    rate: int, fraction: float | None
) -> None:
    """Broker 0 sends 60 MB/s, to readers and to followers."""
    load, plan = load_of(LIMITED, 7.5 * MB), Plan.of([SWAPS[0]])
    usage = estimate_peak_usage(LIMITED, load, plan, estimate_at(LIMITED, load, plan, rate))
    near_capacity = usage.near_capacity
    assert (near_capacity and round(near_capacity.fraction, 3)) == fraction


def test_near_capacity_under_a_deadline_uses_the_recommended_rate() -> None:
    estimate = estimate_within(LIMITED, load_of(LIMITED), PLAN, 12.0)
    assert estimate.recommended_bytes_per_s is not None
    usage = estimate_peak_usage(LIMITED, Load.unknown(LIMITED), PLAN, estimate)
    assert usage.near_capacity is None or usage.near_capacity.fraction == pytest.approx(
        estimate.recommended_bytes_per_s / (100 * MB)
    )


def test_no_peak_usage_is_given_for_an_estimate_that_never_ends() -> None:
    never = Estimate(0, None, None, "no", None, (), 0)
    assert estimate_peak_usage(STATE, Load.unknown(STATE), PLAN, never) == PeakUsage()


def test_peak_usage_is_described_in_sentences() -> None:
    extra = tuple(DiskLane(broker, 100 * MB - broker, 44.0) for broker in range(5))
    assert PeakUsage(NearCapacity(3, Side.FOLLOWER, 0.93), extra).sentences == [
        "With the throttle on top broker 3 comes to 93% of what it can take in: clients there may "
        "wait longer.",
        "Meanwhile disks hold more, at most 100 MB on broker 0 after 44 s, 100 MB on broker 1 "
        "after 44 s, 100 MB on broker 2 after 44 s; less on 2 more.",
    ]
