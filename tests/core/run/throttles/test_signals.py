"""What a run with an adaptive rate notices of its brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import MB, NOON, cluster, tp

from core.cluster.probe.produce_latency import LatencyWindow
from core.plan.copies import Side
from core.plan.plan import Move
from core.run.journal.move_state import Phase, RunMove
from core.run.journal.produce_latency import LatencyBaseline
from core.run.throttles.rate_signals import BEFORE_WINDOWS, Signals, out_of_step, probed_broker

SENDS, RECEIVES = (1, Side.LEADER), (3, Side.FOLLOWER)
NEW = Move(tp("t-0"), (1, 2), (3, 2))


class Probe:
    """A probe that has seen what it is told."""

    def __init__(self, **windows: int) -> None:
        self.trouble = ""
        self.replicas_by_broker: Mapping[int, tuple[int, ...]] = {
            1: (1, 2, 3),
            2: (2, 3, 1),
            3: (3, 1, 2),
        }
        self.count = windows or {"b1": 3, "b2": 3, "b3": 3}

    def windows(self) -> dict[int, tuple[LatencyWindow, ...]]:
        return {
            int(name[1:]): tuple(
                LatencyWindow(NOON, 100, 0, int(name[1:]), 10.0) for _ in range(count)
            )
            for name, count in self.count.items()
        }


def history(*moves: Move) -> Any:
    """Return what the signals need of a history: its moves, all in flight."""
    return SimpleNamespace(
        moves=[RunMove(move, 0, phase=Phase.SUBMITTED) for move in moves],
        in_flight=list(range(len(moves))),
    )


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def sample(size: float, *arrived: float | None, leader: int = 1) -> dict[str, Any]:
    came = [None if part is None else round(part * MB) for part in arrived]
    return {"moves": [[0, round(size * MB), leader, came, 0.0]], "down": []}


def sides_of(signals: Signals, **more: Any):
    state = cluster({"t-0": [1, 2, 3]}, adding={"t-0": [3]}, isr={"t-0": [1, 2]}, **more)
    return signals.sides(history(NEW), state, {}, [SENDS, RECEIVES])


def test_copy_flow_is_measured_over_a_quota_window():
    signals = Signals(None)
    for second in range(0, 40, 2):
        signals.take_sample(after(second), sample(900, None if second < 4 else second * 5.0))

    observations = sides_of(signals)

    assert observations[SENDS].flow_bytes_per_s == pytest.approx(5 * MB)
    assert observations[RECEIVES].flow_bytes_per_s == pytest.approx(5 * MB)


def test_inflow_is_measured_by_the_growth_of_the_leaders_log():
    signals = Signals(None)
    assert sides_of(signals)[SENDS].inflow_bytes_per_s == 0
    for second, size in ((0, 100), (1, 100), (2.5, 105), (3, 105), (5, 110)):
        signals.take_sample(after(second), sample(size, 0.0))

    observations = sides_of(signals)

    assert observations[SENDS].inflow_bytes_per_s == pytest.approx(4 * MB)
    assert observations[RECEIVES].inflow_bytes_per_s == pytest.approx(2 * MB)


def test_remaining_bytes_come_from_the_newest_sample():
    signals = Signals(None)
    signals.take_sample(after(0), sample(900, 100.0))
    assert sides_of(signals)[SENDS].left_bytes == 800 * MB
    signals.take_sample(after(2), sample(910, 150.0))
    observations = sides_of(signals)
    assert observations[SENDS].left_bytes == observations[RECEIVES].left_bytes == 760 * MB


def test_remaining_bytes_are_unknown_before_the_first_sample():
    assert sides_of(Signals(None))[RECEIVES].left_bytes is None


def test_single_sample_gives_no_flow_rate():
    signals = Signals(None)
    signals.take_sample(NOON, sample(100, 50.0))
    assert sides_of(signals)[SENDS].flow_bytes_per_s == 0


@pytest.mark.parametrize("seconds", [0, -60])
def test_no_flow_is_computed_from_samples_without_time_between_them(seconds: int) -> None:
    """A wall clock may stand still, or be set back."""
    signals = Signals(None)
    signals.take_sample(NOON, sample(20, 0.0))
    signals.take_sample(after(seconds), sample(20, 5.0))
    assert {side.flow_bytes_per_s for side in sides_of(signals).values()} == {0.0}


def test_replica_that_left_the_isr_is_reported_for_both_leader_and_follower_side():
    state = cluster(
        {"t-0": [1, 2], "t-1": [2, 4], "u-0": [2, 3]},
        isr={"t-0": [1], "t-1": [2], "u-0": [2]},
        adding={"u-0": [3]},
        dead=[4],
    )
    assert out_of_step(state) == {
        (1, Side.LEADER): "broker 2 has left the ISR of t-0",
        (2, Side.FOLLOWER): "broker 2 has left the ISR of t-0",
    }


def test_follower_is_out_of_step_only_after_some_seconds_out_of_the_isr():
    signals = Signals(None)
    whole = cluster({"t-0": [1, 2]})
    out = cluster({"t-0": [1, 2]}, isr={"t-0": [1]})

    def out_of_step(state: Any, seconds: float) -> str:
        looked = replace(state, fetched_at=after(seconds))
        return signals.sides(history(), looked, {}, [SENDS])[SENDS].out_of_step

    assert [out_of_step(out, 0), out_of_step(out, 2), out_of_step(whole, 2.5)] == ["", "", ""]
    assert [out_of_step(out, 3), out_of_step(out, 5), out_of_step(out, 6)] == [
        *("", ""),
        "broker 2 has left the ISR of t-0",
    ]


@pytest.mark.parametrize(
    ("key", "expected"),
    [((1, Side.LEADER), 1), ((3, Side.FOLLOWER), 2), ((2, Side.FOLLOWER), 1), ((9, SENDS[1]), 9)],
)
def test_receiving_broker_is_judged_by_the_leader_that_it_follows(key, expected):
    assert probed_broker(Probe().replicas_by_broker, key) == expected


def test_probe_baseline_and_windows_are_assigned_to_each_side():
    signals = Signals(Probe())
    waited = signals.before()
    state = cluster({"t-0": [1, 2]})

    observations = signals.sides(history(), state, waited, [SENDS, RECEIVES])

    assert waited[1] == LatencyBaseline(1, 10)
    assert observations[SENDS].before == LatencyBaseline(1, 10)
    assert observations[RECEIVES].before == LatencyBaseline(2, 10)
    assert len(observations[RECEIVES].windows) == 3


@pytest.mark.parametrize(
    ("windows", "trouble", "ready"),
    [
        ({"b1": BEFORE_WINDOWS, "b2": BEFORE_WINDOWS}, "", True),
        ({"b1": BEFORE_WINDOWS, "b2": BEFORE_WINDOWS - 1}, "", False),
        ({"b1": 0}, "", False),
        ({"b1": 0}, "refused", True),
    ],
)
def test_run_is_ready_once_the_latency_baseline_is_known_or_the_probe_has_failed(
    windows, trouble, ready
):
    probe = Probe(**windows)
    probe.trouble = trouble
    signals = Signals(probe)
    assert signals.ready is ready
    assert signals.trouble == trouble


def test_without_a_probe_the_producer_baseline_is_unknown_and_that_is_reported():
    signals = Signals(None)
    assert signals.ready
    assert signals.before() == {}
    assert "not measured" in signals.trouble
    assert sides_of(signals)[SENDS].before is None
