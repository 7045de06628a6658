"""How long copies between a broker's own log dirs take, and which rate a deadline needs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import MB, cluster, load_of, tp

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.batches import BatchInput
from core.plan.copies import BrokerSide, Side
from core.plan.estimate.estimate import estimate_at, estimate_within
from core.plan.estimate.estimate_json import format_estimate
from core.plan.estimate.rate_table import default_rate, rate_table
from core.plan.plan import ANY, Move, Plan
from core.units import UNLIMITED

STATE = cluster({"t-0": [0, 1], "t-1": [1, 0]}, brokers=range(3), size_bytes=40 * MB)
QUIET = load_of(STATE)


def across(name: str, *brokers: int) -> Move:
    """Return the move of a partition's replicas on these brokers to /d2."""
    held = STATE.replicas(STATE.find(tp(name)) or 0)
    dirs = tuple("/d2" if b in brokers else ANY for b in held)
    return Move(tp(name), held, held, None, dirs, tuple("/data" if d != ANY else ANY for d in dirs))


BOTH = Plan.of([across("t-0", 0), across("t-1", 0)])


@pytest.mark.parametrize(("plan", "clock"), [(Plan.of([across("t-0", 0)]), 9.3), (BOTH, 17.5)])
def test_estimate_matches_times_measured_on_real_brokers(plan: Plan, clock: float) -> None:
    """40.4 MB and twice that at 5 MB/s, two log dirs side by side, Kafka 4.3.1."""
    state = cluster({"t-0": [0, 1], "t-1": [1, 0]}, size_bytes=40_408_093)
    estimate = estimate_at(state, load_of(state), plan, 5 * MB)
    around = 2.6  # before the first byte and after the last one
    assert estimate.seconds == pytest.approx(clock + around, rel=0.05)
    assert estimate.range_seconds is not None
    assert estimate.range_seconds[0] < clock + around < estimate.range_seconds[1]


def test_log_dir_copies_of_each_broker_are_estimated_separately() -> None:
    estimate = estimate_at(STATE, QUIET, Plan.of([across("t-0", 0, 1), across("t-1", 0)]), 5 * MB)
    assert [(row.broker, row.side, row.bytes) for row in estimate.rows] == [
        (0, Side.LOG_DIRS, 80 * MB),
        (1, Side.LOG_DIRS, 40 * MB),
    ]
    assert estimate.total_bytes == 120 * MB
    assert estimate.limit == BrokerSide(0, Side.LOG_DIRS)


def test_longer_of_copies_between_log_dirs_and_between_brokers_determines_the_time() -> None:
    moved = Move(tp("t-1"), (1, 0), (1, 2))
    alone = estimate_at(STATE, QUIET, Plan.of([moved]), 20 * MB)
    both = estimate_at(STATE, QUIET, Plan.of([moved, across("t-0", 0)]), 20 * MB)
    assert alone.seconds is not None
    assert both.seconds == pytest.approx(alone.seconds, rel=0.4)
    assert {row.side for row in both.rows} == set(Side)


def test_partition_produced_faster_than_the_rate_is_never_copied() -> None:
    estimate = estimate_at(STATE, load_of(STATE, 6.0 * MB), Plan.of([across("t-0", 0)]), 5 * MB)
    assert estimate.seconds is None
    assert estimate.never is not None
    assert estimate.never.startswith("Broker 0 has to copy 6.0 MB/s")


def test_recommended_rate_meets_the_deadline_over_the_whole_estimated_range() -> None:
    estimate = estimate_within(STATE, QUIET, BOTH, 60)
    assert estimate.recommended_bytes_per_s is not None
    assert estimate.range_seconds is not None
    assert estimate.range_seconds[1] <= 60.5
    assert estimate_within(STATE, QUIET, BOTH, 4).never


def test_default_rate_for_log_dir_copies_is_one_of_the_rate_table() -> None:
    table = rate_table(STATE, QUIET, BOTH)
    assert default_rate(table) in {row.rate_bytes_per_s for row in table}


def test_time_of_unthrottled_log_dir_copies_is_unknown() -> None:
    estimate = estimate_at(STATE, QUIET, BOTH, UNLIMITED)
    assert (estimate.seconds, estimate.never) == (None, None)
    assert "without a throttle" in estimate.note


def test_replica_already_in_its_target_log_dir_copies_nothing() -> None:
    there = replace(across("t-0", 0), log_dirs=("/data", ANY), log_dirs_before=("/d9", ANY))
    assert not estimate_at(STATE, QUIET, Plan.of([there]), 5 * MB).total_bytes


def test_broker_that_is_down_and_an_unknown_size_are_reported() -> None:
    dead: ClusterState = cluster({"t-0": [0, 1]}, dead=[0], size_bytes=MB)
    unsized = cluster({"t-0": [0, 1]})
    plan = Plan.of([across("t-0", 0)])
    down = estimate_at(dead, load_of(dead), plan, MB)
    assert (down.never or "").startswith("Broker 0 is down")
    unknown = estimate_at(unsized, load_of(unsized), plan, MB)
    assert (unknown.seconds, unknown.never) == (None, None)
    assert "size of t-0" in unknown.note
    (row,) = format_estimate(unknown)["rows"]
    assert (row["bytes"], row["required_bytes_per_s"]) == (None, None)


def test_unknown_produce_rate_is_noted_and_not_reported_as_zero() -> None:
    estimate = estimate_at(STATE, Load.unknown(STATE), BOTH, 5 * MB)
    assert estimate.note == "What is produced to t-0 and t-1 is not known and not counted."
    (row,) = format_estimate(estimate)["rows"]
    assert (row["bytes"], row["background_bytes_per_s"]) == (80 * MB, None)


def test_copies_between_log_dirs_hold_up_no_other_batch() -> None:
    plan = Plan.of([Move(tp("t-1"), (1, 0), (1, 2)), across("t-0", 0)])
    schedule = BatchInput.of(STATE, QUIET, plan).in_batches(rate_bytes_per_s=MB)
    assert schedule.batches == ((0,), (1,))
    assert 0 in schedule.long
