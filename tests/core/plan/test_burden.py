"""What brokers bear while a plan is carried out: near their capacity, and more on their disks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from clusters import MB, cluster, load_of, tp

from core.cluster.state import ClusterState
from core.load.snapshot import Load
from core.plan.burden import Burden, burden
from core.plan.copying import Side
from core.plan.crowding import Crowded
from core.plan.estimate import Estimate, estimate_at, estimate_within
from core.plan.extra_disk import Extra
from core.plan.plan import Move, Plan
from core.units import UNLIMITED

SWAPS = tuple(Move(tp(f"t-{n}"), (0, 1), (2, 1)) for n in range(4))
BACK = tuple(Move(tp(f"u-{n}"), (2, 1), (0, 1)) for n in range(4))
STATE = cluster(
    {f"t-{n}": [0, 1] for n in range(4)} | {f"u-{n}": [2, 1] for n in range(4)},
    size_bytes=100 * MB,
)
PLAN = Plan.of([*SWAPS, *BACK])
"""Four partitions go from broker 0 to 2, four from 2 to 0."""


def with_capacity(state: ClusterState, bytes_per_s: float) -> ClusterState:
    return state.with_brokers(
        [
            replace(b, in_capacity_bytes_per_s=bytes_per_s, out_capacity_bytes_per_s=bytes_per_s)
            for b in state.brokers
        ]
    )


@pytest.mark.parametrize(
    ("rate", "fraction"), [(10 * MB, None), (25 * MB, 0.85), (50 * MB, 1.1), (UNLIMITED, None)]
)
def test_a_broker_that_carries_much_already_comes_near_its_capacity(
    rate: int, fraction: float | None
) -> None:
    """Broker 0 sends 60 MB/s, to readers and to followers."""
    state = with_capacity(STATE, 100.0 * MB)
    load = load_of(state, 7.5 * MB)
    plan = Plan.of([SWAPS[0]])
    found = burden(state, load, plan, estimate_at(state, load, plan, rate))
    told = found.crowded
    assert (told and round(told.fraction, 3)) == fraction


def test_a_deadline_is_held_against_the_rate_that_it_recommends() -> None:
    state = with_capacity(STATE, 100.0 * MB)
    load = load_of(state)
    estimate = estimate_within(state, load, PLAN, 12.0)
    assert estimate.recommended_bytes_per_s is not None
    found = burden(state, Load.unknown(state), PLAN, estimate)
    assert found.crowded is None or found.crowded.fraction == pytest.approx(
        estimate.recommended_bytes_per_s / (100 * MB)
    )


def test_nothing_is_said_of_what_never_ends() -> None:
    never = Estimate(0, None, None, "no", None, (), 0)
    assert burden(STATE, Load.unknown(STATE), PLAN, never) == Burden()


def test_it_is_said_in_sentences() -> None:
    extra = tuple(Extra(broker, 100 * MB - broker, 44.0) for broker in range(5))
    assert Burden(Crowded(3, Side.FOLLOWER, 0.93), extra).sentences == [
        "With the throttle on top broker 3 comes to 93% of what it can take in: clients there may "
        "wait longer.",
        "Meanwhile disks hold more, at most 100 MB on broker 0 after 44 s, 100 MB on broker 1 "
        "after 44 s, 100 MB on broker 2 after 44 s; less on 2 more.",
    ]
