"""What a broker can send or take in is shared by all that fetch from it, or that it fetches."""

from __future__ import annotations

from typing import Any

import pytest
from clusters import MB, cluster, load_of, plan_of, tp
from hypothesis import given, settings
from hypothesis import strategies as st

from core.cluster.state import ClusterState
from core.plan.copies import Side
from core.plan.estimate.estimate import estimate_at, estimate_within
from core.plan.estimate.uncertainty import AROUND_SECONDS
from core.plan.plan import Move, Plan
from core.units import UNLIMITED

CAN = 100 * MB
SENDS = {"can_send": CAN, "can_take_in": 10 * CAN}


def star(side: Side, size_bytes: int, **can: Any) -> tuple[ClusterState, Plan]:
    """Return what one broker sends to three others, or three send to one."""
    sends = side is Side.LEADER
    can = can or {"can_send": CAN if sends else 10 * CAN, "can_take_in": 10 * CAN if sends else CAN}
    pairs = {f"t-{i}": ([9], [i]) if sends else ([i], [9]) for i in (1, 2, 3)}
    held = {name: before for name, (before, _) in pairs.items()}
    state = cluster(held, brokers=[1, 2, 3, 9], size_bytes=size_bytes, **can)
    return state, plan_of(state, {name: after for name, (_, after) in pairs.items()})


@pytest.mark.parametrize("rate", [UNLIMITED, 1000 * MB, 150 * MB])
@pytest.mark.parametrize("size_bytes", [100 * MB, 2_000 * MB, 44_000 * MB], ids=str)
@pytest.mark.parametrize("side", [Side.LEADER, Side.FOLLOWER])
def test_one_broker_copying_with_three_other_brokers_takes_as_long_as_its_link_needs(
    side: Side, size_bytes: int, rate: int
):
    state, plan = star(side, size_bytes)
    estimate = estimate_at(state, load_of(state), plan, rate)
    least = 3 * size_bytes / CAN
    assert least + AROUND_SECONDS < estimate.seconds < 1.08 * least + AROUND_SECONDS
    assert estimate.range_seconds[0] > 0.98 * least


@pytest.mark.parametrize("side", [Side.LEADER, Side.FOLLOWER])
def test_no_rate_meets_a_deadline_shorter_than_the_link_needs(side: Side):
    state, plan = star(side, 44_000 * MB)
    load = load_of(state)
    never = estimate_within(state, load, plan, 600.0)
    assert never.seconds is None
    does = "send" if side is Side.LEADER else "take in"
    assert never.never == (f"No rate moves 132 GB in 600 s: broker 9 has room to {does} 100 MB/s.")
    fits = estimate_within(state, load, plan, 3600.0)
    assert fits.recommended_bytes_per_s is not None
    assert fits.recommended_bytes_per_s < CAN


def test_background_traffic_of_a_broker_reduces_its_capacity_for_copies():
    """Broker 9 sends 40 MB/s to readers and followers of what stays."""
    names = {"t-1": [9], "t-2": [9], "u-0": [9, 1]}
    sizes = {"t-1": 3_000 * MB, "t-2": 3_000 * MB, "u-0": MB}
    state = cluster(names, brokers=[1, 2, 9], size_bytes=sizes, **SENDS)
    plan = plan_of(state, {"t-1": [1], "t-2": [2]})
    load = load_of(state, {"t-1": 0.0, "t-2": 0.0, "u-0": 20 * MB})
    estimate = estimate_at(state, load, plan, UNLIMITED)
    assert 100 + AROUND_SECONDS < estimate.seconds < 106


def test_slow_broker_delays_only_its_own_copies():
    can = {"can_send": dict.fromkeys((2, 3, 4), CAN) | {1: 10 * MB}, "can_take_in": CAN}
    held = {"t-0": [1], "u-0": [3]}
    state = cluster(held, brokers=[1, 2, 3, 4], size_bytes=2_000 * MB, **can)
    plan = plan_of(state, {"t-0": [2], "u-0": [4]})
    rows = estimate_at(state, load_of(state), plan, UNLIMITED).rows
    seconds = {row.broker: row.seconds for row in rows}
    assert seconds[1] == pytest.approx(204, rel=0.03)
    assert 20 < seconds[3] < 32


def test_known_capacity_counts_where_capacities_of_other_brokers_are_unknown():
    state, plan = star(Side.LEADER, 2_000 * MB, can_send={9: CAN})
    assert estimate_at(state, load_of(state), plan, 1000 * MB).seconds > 60


def test_broker_full_from_background_load_gives_half_its_capacity_to_copies():
    state = cluster({"t-0": [1], "u-0": [1]}, brokers=[1, 2], size_bytes=6_000 * MB, **SENDS)
    plan = plan_of(state, {"t-0": [2]})
    estimate = estimate_at(state, load_of(state, {"t-0": 0.0, "u-0": 99 * MB}), plan, 1000 * MB)
    assert 120 + AROUND_SECONDS < estimate.seconds < 140


def test_copy_never_ends_where_a_broker_lacks_room_for_the_produced_bytes():
    can = {"can_send": 30 * MB, "can_take_in": 300 * MB}
    state = cluster({"t-0": [1], "u-0": [1]}, brokers=[1, 2], size_bytes=100 * MB, **can)
    plan = plan_of(state, {"t-0": [2]})
    estimate = estimate_at(state, load_of(state, {"t-0": 16 * MB, "u-0": 2 * MB}), plan, UNLIMITED)
    assert estimate.never == (
        "Broker 1 has room to send 15 MB/s besides what it does anyway; what is produced to the "
        "moving partitions meanwhile never catches up."
    )


@settings(max_examples=12, deadline=None)
@given(
    sizes=st.lists(st.floats(0.1, 4_000).map(lambda mb: round(mb * MB)), min_size=1, max_size=30),
    rate=st.sampled_from([UNLIMITED, 20 * MB, 100 * MB, 1000 * MB]),
    data=st.data(),
)
def test_no_broker_sends_or_takes_in_more_than_it_can(
    sizes: list[int], rate: int, data: st.DataObject
):
    """Short plans, and those that flow once their first fetches have been played."""
    can = {id: data.draw(st.floats(5, 500), "MB/s") * MB for id in range(1, 7)}
    moves = [
        Move(tp(f"t-{i}"), (data.draw(st.integers(1, 3)),), (data.draw(st.integers(4, 6)),))
        for i in range(len(sizes))
    ]
    state = cluster(
        {f"t-{i}": move.before for i, move in enumerate(moves)},
        brokers=can,
        size_bytes={f"t-{i}": size for i, size in enumerate(sizes)},
        can_send=can,
        can_take_in=can,
    )
    estimate = estimate_at(state, load_of(state), Plan.of(moves), rate)
    least = max(row.bytes / can[row.broker] for row in estimate.rows)
    assert estimate.seconds >= least + AROUND_SECONDS
    assert estimate.range_seconds[0] >= 0.98 * least


@pytest.mark.parametrize("side", [Side.LEADER, Side.FOLLOWER])
def test_estimate_for_a_link_that_takes_years_is_computed_at_once(side: Side):
    """Not a quota's every tick of these years is played."""
    tiny, plan = star(side, 1_000 * MB, can_send=1, can_take_in=1)
    assert estimate_at(tiny, load_of(tiny), plan, UNLIMITED).seconds > 1e8
