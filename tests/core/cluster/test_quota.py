"""The replication quota counts as Kafka's SimpleRate does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.quota import Quota

MB = 1e6


def test_a_fresh_quota_allows_the_first_fetch() -> None:
    assert Quota(1.0).allows(100.0)


def test_the_rate_is_taken_over_at_least_one_second() -> None:
    quota = Quota(10 * MB)
    quota.allows(0.0)
    quota.record(0.1, 8 * MB)
    assert quota.measured(0.2) == pytest.approx(8 * MB)


def test_the_rate_is_the_sum_over_the_time_since_the_oldest_sample() -> None:
    quota = Quota()
    for second in range(5):
        quota.record(float(second), 10 * MB)
    assert quota.measured(4.0) == pytest.approx(50 * MB / 4)


@pytest.mark.parametrize(("rate", "allowed"), [(8 * MB, True), (8 * MB - 1, False)])
def test_an_exactly_met_rate_passes(rate: float, allowed: bool) -> None:
    quota = Quota(rate)
    quota.record(0.0, 8 * MB)
    assert quota.allows(0.5) is allowed


def test_a_sample_counts_until_its_last_event_is_eleven_seconds_old() -> None:
    quota = Quota()
    quota.record(0.0, 8 * MB)
    quota.record(0.9, 8 * MB)
    assert quota.measured(11.8) > 0
    assert quota.measured(11.9) == 0


def test_the_thirteenth_second_takes_the_slot_of_the_first() -> None:
    quota = Quota()
    for second in range(13):
        quota.record(float(second), MB)
        quota.record(second + 0.9, MB)
    # Seconds 1 to 12 are left, until the last event of second 1 is 11 s old.
    assert quota.measured(12.85) == pytest.approx(24 * MB / 11.85)
    assert quota.measured(12.9) == pytest.approx(22 * MB / 10.9)


def test_a_leader_that_was_silent_lets_eleven_to_twelve_seconds_of_rate_pass_at_once() -> None:
    quota = Quota.after_idle(10 * MB, now=1_000.0)
    passed = 0.0
    while quota.allows(1_000.0):
        quota.record(1_000.0, MB)
        passed += MB
    assert 11 * 10 * MB <= passed <= 12 * 10 * MB + MB


def test_follower_without_idle_credit_lets_about_one_second_of_rate_pass() -> None:
    quota = Quota(10 * MB)
    passed = 0.0
    while quota.allows(1_000.0):
        quota.record(1_000.0, MB)
        passed += MB
    assert passed == 11 * MB


def test_infinite_quota_allows_every_fetch_and_still_counts_bytes() -> None:
    quota = Quota(math.inf)
    quota.record(0.0, 1e15)
    assert quota.allows(0.1)
    quota.rate = 1.0
    assert not quota.allows(0.1)


@given(st.lists(st.tuples(st.floats(0.01, 3.0), st.floats(0, 20 * MB)), min_size=1, max_size=80))
def test_total_bytes_exceed_the_rate_by_at_most_a_window_and_one_fetch(
    transfers: list[tuple[float, float]],
) -> None:
    rate = 5 * MB
    quota, now, passed = Quota(rate), 0.0, 0.0
    for wait, size in transfers:
        now += wait
        if quota.allows(now):
            quota.record(now, size)
            passed += size
    assert passed <= rate * (now + 12) + 20 * MB
