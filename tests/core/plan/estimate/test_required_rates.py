"""Lower rates of brokers that need less: none ends later for it, and nobody's clients bear more."""

from __future__ import annotations

import pytest
from clusters import MB, cluster, load_of, plan_of, tp
from hypothesis import given, settings
from hypothesis import strategies as st

from core.plan.copies import BrokerSide, Side
from core.plan.estimate import required_rates
from core.plan.estimate.estimate import estimate_at, estimate_per_side, estimate_within
from core.plan.estimate.estimate_json import format_estimate
from core.plan.estimate.estimate_text import format_per_side_rates
from core.plan.estimate.near_capacity import find_near_capacity
from core.plan.estimate.plan_over_time import build_timeline
from core.plan.estimate.required_rates import (
    GENTLE_BYTES_PER_S,
    WORTH,
    ChosenRates,
    choose_rates,
    min_rate,
)
from core.plan.estimate.uncertainty import Task
from core.plan.plan import Move, Plan
from core.units import UNLIMITED

SECONDS = 60.0
BOTH = (("big-0", 1), ("little-0", 2))


def uneven(big: int = 3_000, little: int = 300, produced: float = 0.0, **more):
    """Return a plan by which broker 1 sends much to broker 3, and broker 2 little to broker 4."""
    sizes = {"big-0": big * MB, "little-0": little * MB}
    held = {"big-0": [1], "little-0": [2]}
    state = cluster(held, brokers=range(1, 5), size_bytes=sizes, **more)
    return state, load_of(state, produced), plan_of(state, {"big-0": [3], "little-0": [4]})


def test_deadline_gives_lower_rates_to_sides_that_need_less():
    estimate = estimate_within(*uneven(), SECONDS)
    assert set(estimate.per_side_rates) == {
        BrokerSide(2, Side.LEADER),
        BrokerSide(4, Side.FOLLOWER),
    }
    assert estimate.recommended_bytes_per_s > 50 * MB
    assert all(rate == GENTLE_BYTES_PER_S for rate in estimate.per_side_rates.values())
    assert estimate.range_seconds[1] <= SECONDS
    assert estimate.limit_of(4, Side.FOLLOWER) == GENTLE_BYTES_PER_S
    assert estimate.limit_of(3, Side.FOLLOWER) == estimate.recommended_bytes_per_s


def test_side_with_a_lower_rate_ends_within_the_deadline_and_not_long_before():
    """Copies of 1.2 GB in 60 s at 10 MB/s would not."""
    estimate = estimate_within(*uneven(little=1_200), SECONDS)
    done = {(row.broker, row.side): row.seconds for row in estimate.rows}
    assert GENTLE_BYTES_PER_S < estimate.per_side_rates[BrokerSide(4, Side.FOLLOWER)] < 40 * MB
    assert SECONDS / 2 < done[4, Side.FOLLOWER] <= SECONDS


@pytest.mark.parametrize(
    ("big", "little"),
    [(3_000, 3_000), (3_000, 2_700), (400, 30)],
    ids=["alike", "nearly alike", "gentle for all"],
)
def test_all_sides_get_the_same_rate_where_lower_rates_would_save_little(big, little):
    assert not estimate_within(*uneven(big, little), SECONDS).per_side_rates


def test_per_side_rate_allows_for_a_doubled_produce_rate():
    estimate = estimate_within(*uneven(little=300, produced=9 * MB), SECONDS)
    assert estimate.per_side_rates[BrokerSide(4, Side.FOLLOWER)] >= 2 * 9 * MB + 300 * MB / SECONDS


def test_explicitly_chosen_rate_gets_lower_per_side_rates_as_well():
    state, load, plan = uneven()
    plain = estimate_at(state, load, plan, 100 * MB)
    spared = estimate_per_side(state, load, plan, plain)
    assert set(spared.per_side_rates) == {BrokerSide(2, Side.LEADER), BrokerSide(4, Side.FOLLOWER)}
    assert spared.range_seconds[1] <= plain.range_seconds[1]


@pytest.mark.parametrize("rate", [UNLIMITED, 10 * MB, 100 * MB])
def test_unlimited_gentle_or_empty_copies_get_no_per_side_rates(rate):
    """Without a throttle, at a gentle one, and where all that is copied is empty."""
    state, load, plan = uneven(0, 0) if rate == 100 * MB else uneven()
    plain = estimate_at(state, load, plan, rate)
    assert estimate_per_side(state, load, plan, plain) is None


def test_copies_between_log_dirs_get_lower_per_side_rates_as_well():
    sizes = {"big-0": 3_000 * MB, "little-0": 300 * MB}
    state = cluster({"big-0": [1], "little-0": [2]}, size_bytes=sizes)
    moves = [Move(tp(name), (b,), (b,), None, ("/d2",), ("/data",)) for name, b in BOTH]
    estimate = estimate_within(state, load_of(state), Plan.of(moves), SECONDS)
    assert estimate.per_side_rates == {BrokerSide(2, Side.LOG_DIRS): GENTLE_BYTES_PER_S}
    assert estimate.range_seconds[1] <= SECONDS


def test_per_side_rates_appear_in_the_document_the_sentence_and_the_timeline():
    state, load, plan = uneven()
    estimate = estimate_within(state, load, plan, SECONDS)
    limits = {(row["broker"], row["side"]): row for row in format_estimate(estimate)["rows"]}
    assert limits[2, "leader"]["limit_bytes_per_s"] == GENTLE_BYTES_PER_S
    assert limits[1, "leader"]["limit_bytes_per_s"] == estimate.recommended_bytes_per_s
    assert format_per_side_rates(estimate.per_side_rates) == (
        "Less will do for some: broker 2 sends at 10 MB/s and broker 4 receives at 10 MB/s."
    )
    lanes = {
        (lane.broker, lane.side): lane for lane in build_timeline(state, load, estimate, ()).lanes
    }
    assert lanes[4, Side.FOLLOWER].max_bytes_per_s <= GENTLE_BYTES_PER_S


def test_near_capacity_check_uses_the_per_side_rate_of_a_broker():
    bearings = Task.of(*uneven(can_send={2: 50e6})).bearings
    assert find_near_capacity(bearings, 60 * MB).broker == 2
    assert find_near_capacity(bearings, 60 * MB, {BrokerSide(2, Side.LEADER): 10 * MB}) is None


def test_rate_is_not_raised_to_near_capacity_to_spare_other_brokers(
    monkeypatch: pytest.MonkeyPatch,
):
    """Lower rates fit only where broker 3 gets a tenth more, of which it can take in half."""
    task = Task.of(*uneven(can_take_in={3: 82e6}))
    alike = round(82e6 * 0.8 / 1.05)
    monkeypatch.setattr(required_rates, "max_seconds", lambda *_: SECONDS)
    monkeypatch.setattr(required_rates, "is_in_time", lambda task, rate, *_: rate > alike)
    assert choose_rates(task, alike, SECONDS, None) == ChosenRates(alike)
    free = choose_rates(Task.of(*uneven()), alike, SECONDS, None)
    assert free.bytes_per_s > alike
    assert free.rates


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(4, 6), st.integers(1, 4_000)), min_size=1),
    st.just(0.0) | st.floats(0.001, 0.3),
    st.integers(20, 300),
)
def test_per_side_rates_meet_the_deadline_and_are_lower_in_total_for_any_plan(
    copies, share, seconds
):
    copies = copies[:8]
    layout = {f"t-{i}": [leader] for i, (leader, _, _) in enumerate(copies)}
    sizes = {f"t-{i}": size * MB for i, (*_, size) in enumerate(copies)}
    state = cluster(layout, brokers=range(1, 7), size_bytes=sizes)
    load = load_of(state, share * MB)
    plan = plan_of(state, {f"t-{i}": [to] for i, (_, to, _) in enumerate(copies)})
    estimate = estimate_within(state, load, plan, seconds)
    if estimate.never:
        return
    task, rate = Task.of(state, load, plan), estimate.recommended_bytes_per_s
    assert task.spread(rate, estimate.per_side_rates).fits(seconds)
    assert all(
        max(task.what.side_loads[side].required_bytes_per_s(seconds), GENTLE_BYTES_PER_S)
        <= limit
        <= WORTH * rate
        for side, limit in estimate.per_side_rates.items()
    )
    alike = min_rate(task, seconds, None)
    assert alike <= rate <= 1.2 * alike + 1
    limits = [estimate.limit_of(*side) for side in task.what.side_loads]
    assert not estimate.per_side_rates or sum(limits) <= WORTH * alike * len(limits)
