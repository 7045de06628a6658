"""What comes in while partitions move, and quotas that never catch up with it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from clusters import MB, NOON
from run_help import Start, cluster

from core.plan.copies import Side
from core.run.reporting.views import MoveStatus
from core.run.steps import Submit
from core.run.throttles.inflow import Growing, growth_bytes_per_s, inflow_bytes_per_s, never


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([(0, 0), (1, 3), (2.5, 7.5)], 3),
        ([(0, 0), (1, 3)], None),
        ([(0, 90), (1, 10), (2, 13), (3, 16)], 3),
        ([(0, 5), (5, 5)], 0),
        ([], None),
    ],
)
def test_log_growth_is_measured_over_some_seconds_ignoring_an_earlier_shrink(sizes, expected):
    growth = growth_bytes_per_s([(after(at), round(size * MB)) for at, size in sizes])
    assert growth == (None if expected is None else expected * MB)


def growing(*produced: float, followers: int = 1, adding: int = 1) -> Sequence[Growing]:
    return [Growing(w * MB, followers, adding) for w in produced]


@pytest.mark.parametrize(
    ("side", "rate", "moves", "left", "expected"),
    [
        # Measured: RF 2, 2 MB/s produced; nothing in 24 s at 1 and at 1.8, ever later at 3.
        (Side.LEADER, 1.0, growing(2), 100, True),
        (Side.LEADER, 1.8, growing(2), 100, True),
        (Side.LEADER, 3.0, growing(2), 100, True),
        (Side.LEADER, 4.5, growing(2), 100, False),
        (Side.FOLLOWER, 3.0, growing(2), 100, False),
        (Side.FOLLOWER, 3.0, growing(2, 1.5), 100, True),
        (Side.LEADER, 3.0, growing(2), 30, False),
        (Side.LEADER, 1.0, growing(0), 100, False),
        (Side.LEADER, 1.0, [], 100, False),
    ],
)
def test_quota_below_the_inflow_is_reported_as_never_ending(side, rate, moves, left, expected):
    why = never(1, side, round(rate * MB), moves, left * MB)
    assert bool(why) is expected


def test_side_that_never_catches_up_is_reported_with_its_broker_and_rates():
    why = never(1, Side.LEADER, 3 * MB, growing(2), 100 * MB)
    assert why == (
        "b1 sends 4.0 MB/s of what is produced meanwhile: at 3.0 MB/s its copies never catch up"
    )
    assert inflow_bytes_per_s(Side.LEADER, growing(2)) == 4 * MB


@pytest.mark.parametrize(("rate", "stuck"), [(3 * MB, True), (30 * MB, False)])
def test_quota_below_what_is_produced_is_reported_within_seconds(
    start: Start, rate: int, stuck: bool
) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=2_000 * MB, in_bytes_per_s=2 * MB)
    client.advance(20)
    run = start(client, {("t", 0): (3, 2)}, rate=rate)
    run.until(lambda step: isinstance(step, Submit))
    began = client.elapsed_seconds
    while client.elapsed_seconds < began + 6:
        run.runner.advance()
    (move,) = run.view().moves
    assert (move.state is MoveStatus.STUCK) is stuck
    if stuck:
        assert move.why.startswith("b1 sends 4.0 MB/s of what is produced meanwhile: at 3.0 MB/s")


def test_log_growth_before_a_later_batch_begins_is_not_counted_as_its_inflow(
    start: Start,
) -> None:
    """Its partitions have grown since preflight: a size of then and one of now are no growth."""
    layout = {"t": [(1, 2)] * 4}
    client = cluster(layout, size_bytes=40 * MB, in_bytes_per_s=0.5 * MB)
    client.advance(20)
    run = start(
        client,
        {("t", p): (3, 2) for p in range(4)},
        rate=5 * MB,
        batches=tuple((p,) for p in range(4)),
    )
    stuck: set[str] = set()

    def look(_: object) -> bool:
        stuck.update(m.why for m in run.view().moves if m.state is MoveStatus.STUCK)
        return run.state.ended is not None

    run.until(look)
    assert not stuck
