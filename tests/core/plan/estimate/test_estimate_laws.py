"""Laws of estimates: more to copy, more produced or a lower rate never ends sooner.

Bytes come in windows of 12 s, and where one begins is chance: a law holds but for one of them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from clusters import MB, cluster, load_of, plan_of
from hypothesis import given, settings
from hypothesis import strategies as st

from core.cluster.metadata import TopicPartition
from core.cluster.quota import EXPIRY_SECONDS
from core.plan.copies import Copy, PlanCopies, min_seconds
from core.plan.estimate.estimate import estimate_at
from core.plan.estimate.fetch_simulation import WINDOW_SECONDS, Conditions, simulate_copies

RATES = st.floats(0.5 * MB, 50 * MB)
SHARES = st.just(0.0) | st.floats(0.001, 0.5)
"""Of a rate, produced meanwhile: nothing, or enough to be seen."""


@st.composite
def _copies(draw: st.DrawFn) -> tuple[list[Copy], float]:
    """Return copies that take some seconds to minutes at a rate, and that rate."""
    rate = draw(RATES)
    count = draw(st.integers(1, 6))
    seconds = draw(st.floats(5, 120))
    produced = draw(st.sampled_from([0.0, 0.1, 0.25])) * rate / count
    followers = draw(st.integers(0, 1))
    copies = [
        Copy(
            TopicPartition("t", i),
            draw(st.integers(1, 2)),
            draw(st.integers(3, 4)),
            rate * seconds / count,
            produced,
            followers,
        )
        for i in range(count)
    ]
    return copies, rate


def _last(copies: list[Copy], rate: float) -> float:
    idle = {copy.flow: 1.0 for copy in copies}
    return max(simulate_copies(copies, idle, Conditions(rate)).ends)


def _changed(copies: list[Copy], *, size: float = 1.0, produced: float = 1.0) -> list[Copy]:
    return [
        replace(
            copy,
            size_bytes=copy.size_bytes * size,
            in_bytes_per_s=copy.in_bytes_per_s * produced,
        )
        for copy in copies
    ]


@settings(max_examples=30, deadline=None)
@given(_copies(), st.floats(1.0, 3.0))
def test_a_lower_rate_more_to_copy_or_more_produced_never_ends_sooner(
    case: tuple[list[Copy], float], factor: float
) -> None:
    copies, rate = case
    soonest = _last(copies, rate) - WINDOW_SECONDS
    assert _last(copies, rate / factor) >= soonest
    assert _last(_changed(copies, size=factor), rate) >= soonest
    assert _last(_changed(copies, produced=factor), rate) >= soonest


@settings(max_examples=30, deadline=None)
@given(_copies())
def test_no_copy_ends_before_its_bytes_fit_through_both_quotas(
    case: tuple[list[Copy], float],
) -> None:
    """A quota is checked before a fetch and charged after it: one may go over it, each window."""
    copies, rate = case
    last = _last(copies, rate)
    for destination in {copy.destination for copy in copies}:
        there = [copy.size_bytes for copy in copies if copy.destination == destination]
        over = len(there) * 1.1 * MB * (1 + last / EXPIRY_SECONDS)
        assert sum(there) <= rate * (last + 1.0) + over


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.floats(1, 200), SHARES, st.floats(1, 50))
def test_estimated_range_contains_the_point_estimate(
    partitions: int, megabytes: float, produced_share: float, rate: float
) -> None:
    state = cluster(
        {f"t-{i}": [1 + i % 2, 3] for i in range(partitions)},
        brokers=range(1, 6),
        size_bytes=round(megabytes * MB),
    )
    plan = plan_of(state, {f"t-{i}": (4 + i % 2, 3) for i in range(partitions)})
    load = load_of(state, produced_share * rate * MB / partitions)
    estimate = estimate_at(state, load, plan, round(rate * MB))
    if estimate.seconds is None:
        assert estimate.never
        return
    low, high = estimate.range_seconds or (math.nan, math.nan)
    assert 0 < low <= estimate.seconds <= high < math.inf


@settings(max_examples=30)
@given(_copies(), st.floats(1.1, 5))
def test_min_seconds_is_the_inverse_of_the_required_rate(
    drawn: tuple[list[Copy], float], more: float
) -> None:
    copies, rate = drawn
    what = PlanCopies(tuple(copies), {})
    floor = max(load.background for load in what.side_loads.values())
    limit = more * floor + rate
    seconds = min_seconds(what, limit)
    assert seconds is not None
    required = max(load.required_bytes_per_s(seconds) for load in what.side_loads.values())
    assert required == pytest.approx(limit)
    assert floor == 0 or min_seconds(what, floor * 0.99) is None
