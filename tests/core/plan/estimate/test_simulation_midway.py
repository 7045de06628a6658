"""Copies that are simulated from where they stand: in flight, with quotas that have counted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from core.cluster.metadata import TopicPartition
from core.plan.batch_schedule import BETWEEN_SECONDS, WINDOW_SECONDS, CopyBatches
from core.plan.copies import BrokerSide, Copy, Flow, Side
from core.plan.estimate.fetch_simulation import Conditions, RunningCopies, simulate_copies
from core.plan.estimate.trace import Trace

MB = 1_000_000
RATE = 10 * MB
TAKES = BrokerSide(2, Side.FOLLOWER)


def copies(*megabytes: int) -> list[Copy]:
    return [
        Copy(TopicPartition("t", p), 1, 2, size * MB, 0.0, 0) for p, size in enumerate(megabytes)
    ]


def game(
    what: Sequence[Copy],
    midway: RunningCopies,
    batches: CopyBatches | None = None,
    *,
    events: int = 2500,
) -> Trace:
    conditions = Conditions(RATE, RATE, cut=1.0)
    return simulate_copies(what, {Flow(1, 2): 0.02}, conditions, batches, midway, events=events)


STEADY = [(-second, float(RATE)) for second in range(11, 0, -1)]
BURST = [(-1.0, 11.5 * RATE)]


@pytest.mark.parametrize(
    ("counted", "seconds"),
    [
        pytest.param([], (8.5, 10.5), id="nothing yet"),
        pytest.param(STEADY, (8.5, 11.5), id="a steady rate"),
        pytest.param(BURST, (18.0, 22.0), id="a window's worth at once: the window is waited for"),
    ],
)
def test_what_a_quota_has_counted_is_counted_on(
    counted: list[tuple[float, float]], seconds: tuple[float, float]
) -> None:
    """100 MB are left; a leader that has sent as much of late has no credit of a beginning."""
    sides = {TAKES: counted, BrokerSide(1, Side.LEADER): counted or STEADY}
    (end,) = game(copies(100), RunningCopies(frozenset({0}), -20.0, sides)).ends
    assert seconds[0] <= end <= seconds[1]


@pytest.mark.parametrize("events", [0, 2500])
@pytest.mark.parametrize("ago", [0.0, 5.0])
def test_a_batch_to_come_waits_for_the_window_of_the_one_in_flight(ago: float, events: int) -> None:
    midway = RunningCopies(frozenset({0}), -ago, {TAKES: STEADY})
    found = game(copies(300, 10), midway, CopyBatches((0, 1)), events=events)
    assert found.begun[1] == pytest.approx(WINDOW_SECONDS - ago + BETWEEN_SECONDS)
    assert found.ends[1] > found.begun[1]


def test_what_is_in_flight_has_begun() -> None:
    found = game(copies(10, 10), RunningCopies(frozenset({0}), -3.0), CopyBatches((0, 1)))
    assert found.begun[0] == -3.0
    assert found.begun[1] > 0
    assert found.ends[0] < found.begun[1] < found.ends[1]
