"""Copies simulated from where they stand, and how broker sides are shared among what flows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from clusters import MB, cluster, load_of, plan_of
from hypothesis import given
from hypothesis import strategies as st

from core.cluster.metadata import TopicPartition
from core.cluster.quota import SLOT_SECONDS
from core.plan import move_order
from core.plan.batch_schedule import BETWEEN_SECONDS, WINDOW_SECONDS, CopyBatches
from core.plan.copies import BrokerSide, Copy, Flow, Side
from core.plan.estimate.average_rates import share_fairly
from core.plan.estimate.estimate import estimate_within
from core.plan.estimate.fetch_simulation import Conditions, RunningCopies, simulate_copies
from core.plan.estimate.rate_table import rate_table
from core.plan.estimate.trace import Trace
from core.plan.estimate.uncertainty import Task

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
    conditions = Conditions(RATE, cut=1.0)
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
def test_bytes_already_recorded_by_a_quota_count_in_the_simulation(
    counted: list[tuple[float, float]], seconds: tuple[float, float]
) -> None:
    """100 MB are left; a leader that has sent as much of late has no credit of a beginning."""
    sides = {TAKES: counted, BrokerSide(1, Side.LEADER): counted or STEADY}
    (end,) = game(copies(100), RunningCopies(frozenset({0}), -20.0, sides)).ends
    assert seconds[0] <= end <= seconds[1]


@pytest.mark.parametrize("events", [0, 2500])
@pytest.mark.parametrize("ago", [0.0, 5.0])
def test_next_batch_begins_once_the_batch_in_flight_has_had_its_window(
    ago: float, events: int
) -> None:
    midway = RunningCopies(frozenset({0}), -ago, {TAKES: STEADY})
    trace = game(copies(300, 10), midway, CopyBatches((0, 1)), events=events)
    assert trace.begun[1] == pytest.approx(WINDOW_SECONDS - ago + BETWEEN_SECONDS)
    assert trace.ends[1] > trace.begun[1]


def test_copy_in_flight_keeps_its_past_start_and_the_next_batch_begins_after_its_end() -> None:
    trace = game(copies(10, 10), RunningCopies(frozenset({0}), -3.0), CopyBatches((0, 1)))
    assert trace.begun[0] == -3.0
    assert trace.begun[1] > 0
    assert trace.ends[0] < trace.begun[1] < trace.ends[1]


RATES = st.one_of(st.sampled_from([0.0, 1e6, 2e6, 3e6]), st.floats(1.0, 1e8))


def _filled(
    flows: Sequence[tuple[int, int]], send: list[float], receive: list[float], link: float
) -> list[float]:
    """Return rates as in a textbook: all grow alike, and stop where a side or the link is full."""
    rates, growing = [0.0] * len(flows), set(range(len(flows)))
    while growing:
        sides = [(send, 0, b) for b in range(len(send))] + [
            (receive, 1, b) for b in range(len(receive))
        ]
        members = [{at for at in growing if flows[at][i] == b} for _, i, b in sides]
        steps = [
            (room[b] - sum(rates[at] for at, flow in enumerate(flows) if flow[i] == b)) / len(peers)
            for (room, i, b), peers in zip(sides, members, strict=True)
            if peers
        ]
        step = max(0.0, min(*steps, link - max(rates[at] for at in growing)))
        for at in growing:
            rates[at] += step
        full = {at for at in growing if rates[at] >= link * (1 - 1e-12)}
        for (room, i, b), side_flows in zip(sides, members, strict=True):
            used = sum(rates[at] for at, flow in enumerate(flows) if flow[i] == b)
            if used >= room[b] - 1e-6 - 1e-9 * room[b]:
                full |= side_flows
        growing -= full
    return rates


@given(st.data(), st.integers(1, 6))
def test_flow_rates_grow_equally_until_a_broker_side_or_the_link_is_full(
    data: st.DataObject, brokers: int
) -> None:
    broker = st.integers(0, brokers - 1)
    flows = data.draw(st.lists(st.tuples(broker, broker), max_size=20))
    rooms = st.lists(RATES, min_size=brokers, max_size=brokers)
    send, receive = data.draw(rooms), data.draw(rooms)
    link = data.draw(st.sampled_from([1e5, 1e6, 3e8]))
    of = np.array(flows, np.int64).reshape(-1, 2)

    rates = share_fairly(of[:, 0], of[:, 1], np.array(send), np.array(receive), link)

    assert rates.tolist() == pytest.approx(_filled(flows, send, receive, link), rel=1e-6, abs=1e-3)


def test_flow_through_a_side_without_capacity_left_has_rate_zero() -> None:
    none = share_fairly(np.array([0]), np.array([0]), np.array([5.0]), np.array([-np.inf]), 1e9)
    assert none.tolist() == [0.0]


def test_moves_are_ordered_only_once_for_a_whole_table_of_rates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = {"t-0": [1, 2], "t-1": [2, 3], "t-2": [3, 1]}
    state = cluster(held, brokers=range(1, 5), size_bytes=10_000 * MB)
    plan = plan_of(state, {name: (leader, 4) for name, (leader, _) in held.items()})
    calls = []
    order = move_order.order_moves
    monkeypatch.setattr(move_order, "order_moves", lambda *all: calls.append(1) or order(*all))

    assert len(rate_table(state, load_of(state), plan)) > 1
    assert len(calls) == 1


def test_rate_recommended_for_a_deadline_is_simulated_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = cluster({"t-0": [1, 2]}, brokers=range(1, 5), size_bytes=1_000 * MB)
    plan = plan_of(state, {"t-0": (1, 4)})
    rates = []
    once = Task._spread
    monkeypatch.setattr(
        Task, "_spread", lambda task, rate, sides: rates.append(rate) or once(task, rate, sides)
    )

    estimate = estimate_within(state, load_of(state), plan, 600)

    assert estimate.recommended_bytes_per_s == rates[-1]
    assert len(rates) == len(set(rates))


def test_single_tiny_fetch_is_spread_over_at_least_one_quota_slot() -> None:
    tiny = Copy(TopicPartition("t", 0), 1, 2, 1.0, 0.0, 0)
    (step,) = game([tiny], RunningCopies(frozenset({0}))).steps(TAKES)
    assert step.bytes == pytest.approx(1.0)
    assert step.end - step.start >= SLOT_SECONDS
