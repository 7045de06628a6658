"""What earlier runs teach about estimates: a bounded median, and a range as wide as was seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from clusters import MB, cluster, load_of, plan_of
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.copies import Side
from core.plan.estimate.calibration import (
    FACTORS,
    MAX_RUNS,
    MIN_RUNS,
    NOTHING_LEARNED,
    Calibration,
    Learned,
    Lesson,
    Speed,
    build_calibration,
)
from core.plan.estimate.estimate import estimate_at, estimate_within
from core.plan.estimate.estimate_json import format_estimate
from core.plan.estimate.rate_table import rate_table
from core.plan.estimate.uncertainty import TimeRange
from core.plan.plan import Plan
from core.units import UNLIMITED


def run(ratio: float, *, side: Side | None = Side.LEADER, reach: float = 0.1) -> Lesson:
    """Return a run of 100 s that took `ratio` times as long, with a range of `reach` around it."""
    return Lesson(side, 100 * ratio, 50 * MB, 100.0, (100 * (1 - reach), 100 * (1 + reach)))


def learned(*ratios: float, **more: float) -> Learned:
    return build_calibration(run(ratio, **more) for ratio in ratios).sides[Side.LEADER]  # type: ignore[arg-type]


def a_plan(**more: Any) -> tuple[ClusterState, Load, Plan]:
    """Return a plan that copies 200 MB from broker 1 to broker 3."""
    state = cluster({"t-0": [1, 2]}, brokers=[1, 2, 3], size_bytes=200 * MB, **more)
    return state, load_of(state, 10_000.0), plan_of(state, {"t-0": (1, 3)})


def leading(factor: float, reach: float = 1.0, runs: int = 4) -> Calibration:
    return Calibration(dict.fromkeys(Side, Learned(runs, factor, reach)))


# -- what is learned -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratios", "factor"),
    [
        ((1.03, 1.02, 1.04), 1.03),
        ((1.0, 1.0, 1.0, 5.0), 1.0),  # one odd run decides nothing
        ((3.0, 3.0, 3.0), FACTORS[1]),
        ((0.1, 0.1, 0.1), FACTORS[0]),
        ((*(1.1,) * MAX_RUNS, *(0.8,) * 50), 1.1),  # older ones are forgotten
    ],
)
def test_calibration_factor_is_a_bounded_median_of_the_newest_runs(
    ratios: tuple[float, ...], factor: float
) -> None:
    correction = learned(*ratios)
    assert correction.factor == pytest.approx(factor)
    assert correction.runs == min(len(ratios), MAX_RUNS)


def test_too_few_runs_teach_nothing_and_each_side_has_its_own_calibration() -> None:
    few = [run(1.2)] * (MIN_RUNS - 1)
    assert build_calibration(few) == Calibration({}, None)
    calibration = build_calibration([*few, *[run(0.9, side=Side.FOLLOWER)] * MIN_RUNS])
    assert list(calibration.sides) == [Side.FOLLOWER]
    assert calibration.sides[Side.FOLLOWER].factor == pytest.approx(0.9)


def test_range_narrows_with_each_run_within_it_and_widens_at_once_for_a_run_outside() -> None:
    assert learned(1.0, 1.0, 1.0).reach == pytest.approx(4 / 7)
    assert learned(*(1.0,) * 9).reach == pytest.approx(4 / 13)
    assert learned(1.0, 1.05, 0.95).reach == pytest.approx((4 + 3 * 0.5) / 7)
    assert learned(1.0, 1.0, 1.2).reach == pytest.approx(2.0)
    assert learned(1.0, 1.0, 9.0).reach == 3.0


def test_runs_without_a_throttle_teach_the_copy_speed() -> None:
    free = [replace(run(1.0, side=None), took_seconds=seconds) for seconds in (1.0, 2.0, 4.0)]
    assert build_calibration(free).speed == Speed(3, 25 * MB, 12.5 * MB, 50 * MB)
    assert build_calibration([replace(free[0], busiest_bytes=0)]).speed is None


# -- what it does to estimates ---------------------------------------------------------------------


def test_calibration_scales_copy_times_and_ranges_but_not_start_and_end_time() -> None:
    plain = estimate_at(*a_plan(), 5 * MB)
    estimate = estimate_at(*a_plan(), 5 * MB, calibration=leading(1.1))
    assert plain.seconds is not None
    assert estimate.seconds == pytest.approx(2.6 + (plain.seconds - 2.6) * 1.1)
    assert estimate.range_seconds is not None
    assert estimate.range_seconds[0] < estimate.seconds < estimate.range_seconds[1]
    assert estimate.calibration is not None
    assert estimate.calibration.words == "learned from 4 runs here: 10 % longer"
    assert (estimate.calibration.seconds, estimate.calibration.range_seconds) == (
        plain.seconds,
        plain.range_seconds,
    )
    ends = [(row.seconds or 0.0) - 1.8 for row in plain.rows]
    assert [(row.seconds or 0.0) - 1.8 for row in estimate.rows] == pytest.approx(
        [end * 1.1 for end in ends]
    )


def test_calibration_leaves_closed_form_required_rates_unchanged() -> None:
    plain = estimate_at(*a_plan(), 5 * MB)
    estimate = estimate_at(*a_plan(), 5 * MB, calibration=leading(1.1))
    assert [r.required_bytes_per_s for r in estimate.rows] == [
        r.required_bytes_per_s for r in plain.rows
    ]
    plain, estimate = (
        estimate_within(*a_plan(), 60.0, calibration=known)
        for known in (NOTHING_LEARNED, leading(1.2))
    )
    assert estimate.rate_bytes_per_s == plain.rate_bytes_per_s
    assert [r.required_bytes_per_s for r in estimate.rows] == [
        r.required_bytes_per_s for r in plain.rows
    ]


def test_estimate_that_never_ends_is_not_calibrated() -> None:
    state, _, plan = a_plan()
    busy = load_of(state, 6e6)
    plain = estimate_at(state, busy, plan, 5 * MB)
    assert plain.never is not None
    assert estimate_at(state, busy, plan, 5 * MB, calibration=leading(0.75)) == plain


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.3])
@pytest.mark.parametrize("reach", [0.4, 1.0, 2.0])
def test_a_recommended_rate_keeps_the_deadline_with_its_whole_range(
    factor: float, reach: float
) -> None:
    estimate = estimate_within(*a_plan(), 60.0, calibration=leading(factor, reach))
    assert estimate.recommended_bytes_per_s is not None
    assert estimate.range_seconds is not None
    assert estimate.range_seconds[1] <= 60.0
    plain = estimate_within(*a_plan(), 60.0).recommended_bytes_per_s or 0
    if (factor, reach) != (1.0, 0.4):  # a narrower range alone does not lower the rate
        slower = factor > 1 or (factor == 1 and reach > 1)
        assert (estimate.recommended_bytes_per_s > plain) is slower


def test_every_row_of_a_rate_table_that_ends_is_calibrated() -> None:
    table = rate_table(*a_plan(), calibration=leading(1.1))
    assert table
    assert all(row.calibration is not None for row in table if not row.never)


def test_unthrottled_estimate_uses_the_observed_copy_speed() -> None:
    assert estimate_at(*a_plan(), UNLIMITED).seconds is None
    known = Calibration(speed=Speed(2, 50e6, 40e6, 60e6))
    estimate = estimate_at(*a_plan(), UNLIMITED, calibration=known)
    assert estimate.seconds == pytest.approx(2.6 + 200e6 / (50e6 - 20_000), rel=0.01)
    assert estimate.range_seconds is not None
    assert estimate.range_seconds[0] < estimate.seconds < estimate.range_seconds[1]
    assert estimate.calibration is not None
    assert estimate.calibration.words == "learned from 2 runs here"
    assert format_estimate(estimate)["calibration"]["uncalibrated_seconds"] is None


def test_configured_capacity_takes_precedence_over_observed_speed() -> None:
    state, load, plan = a_plan(can_send=100e6, can_take_in=100e6)
    known = Calibration(speed=Speed(2, 1e6, 1e6, 1e6))
    assert estimate_at(state, load, plan, UNLIMITED, calibration=known) == (
        estimate_at(state, load, plan, UNLIMITED)
    )


@pytest.mark.parametrize(("risk", "most"), [(False, 107.9), (True, 113.9)])
def test_calibration_does_not_narrow_a_range_at_risk_of_never_ending(
    risk: bool, most: float
) -> None:
    time_range = Learned(4, 1.0, 0.4).on(TimeRange(102.6, 91.3, 113.9, risk))
    assert time_range.seconds == pytest.approx(102.6)
    assert time_range.max_seconds == pytest.approx(most, abs=0.1)


@given(
    st.lists(st.floats(0.2, 5.0), min_size=MIN_RUNS, max_size=12),
    st.floats(0.01, 0.5),
    st.floats(5.0, 1e5),
    st.floats(0.0, 0.5),
)
def test_calibrated_time_stays_within_its_range_whatever_was_observed(
    ratios: list[float], known_reach: float, seconds: float, wide: float
) -> None:
    least, most = seconds * (1 - wide) - 1.3, seconds * (1 + wide) + 1.3
    time_range = learned(*ratios, reach=known_reach).on(TimeRange(seconds, max(least, 1.3), most))
    assert 0 < time_range.min_seconds <= time_range.seconds <= time_range.max_seconds
