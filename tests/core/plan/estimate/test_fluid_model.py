"""How broker sides are shared among what flows, and that many moves are timed without delay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from clusters import MB, cluster, load_of, tp
from hypothesis import given
from hypothesis import strategies as st

from core.plan import move_order
from core.plan.estimate import uncertainty
from core.plan.estimate.estimate import estimate_within
from core.plan.estimate.fluid_model import share_fairly
from core.plan.estimate.rate_table import rate_table
from core.plan.plan import Plan

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
            (room[b] - sum(rates[at] for at, flow in enumerate(flows) if flow[i] == b)) / len(some)
            for (room, i, b), some in zip(sides, members, strict=True)
            if some
        ]
        step = max(0.0, min(*steps, link - max(rates[at] for at in growing)))
        for at in growing:
            rates[at] += step
        full = {at for at in growing if rates[at] >= link * (1 - 1e-12)}
        for (room, i, b), some in zip(sides, members, strict=True):
            used = sum(rates[at] for at, flow in enumerate(flows) if flow[i] == b)
            if used >= room[b] - 1e-6 - 1e-9 * room[b]:
                full |= some
        growing -= full
    return rates


@given(st.data(), st.integers(1, 6))
def test_flows_grow_alike_until_a_side_or_the_link_is_full(
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


def test_a_side_that_has_nothing_left_lets_nothing_flow() -> None:
    none = share_fairly(np.array([0]), np.array([0]), np.array([5.0]), np.array([-np.inf]), 1e9)
    assert none.tolist() == [0.0]


def test_what_does_not_hang_on_the_rate_is_found_once_for_a_table_of_rates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = {"t-0": [1, 2], "t-1": [2, 3], "t-2": [3, 1]}
    state = cluster(held, brokers=range(1, 5), size_bytes=10_000 * MB)
    plan = Plan()
    for name, (leader, _) in held.items():
        plan = plan.with_target(state, tp(name), (leader, 4))
    calls = []
    order = move_order.order_moves
    monkeypatch.setattr(move_order, "order_moves", lambda *all: calls.append(1) or order(*all))

    assert len(rate_table(state, load_of(state), plan)) > 1
    assert len(calls) == 1


def test_a_rate_that_a_deadline_needs_is_not_played_again_to_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = cluster({"t-0": [1, 2]}, brokers=range(1, 5), size_bytes=1_000 * MB)
    plan = Plan().with_target(state, tp("t-0"), (1, 4))
    rates = []
    once = uncertainty.spread
    monkeypatch.setattr(
        uncertainty, "spread", lambda task, rate: rates.append(rate) or once(task, rate)
    )

    estimate = estimate_within(state, load_of(state), plan, 600)

    assert estimate.recommended_bytes_per_s == rates[-1]
    assert len(rates) == len(set(rates))
