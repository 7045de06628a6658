"""Ceilings: no plan has a broker carry more than it can take in, send, or is to have replicas."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of, placed

from core.cluster.state import ClusterState
from core.errors import UsageError
from core.plan.checks.check_plan import check_plan
from core.plan.planner.model.measures import Measure, ceilings
from core.plan.planner.plan_request import Limits, PlanRequest
from core.plan.planner.plan_result import PlanResult, is_reached
from core.plan.planner.planner import suggest_plan

GB = 1000 * MB


def uneven(can_take_in: float) -> ClusterState:
    """Return brokers 0 to 3, and 190 partitions of two replicas, on the first three of them."""
    names = {f"t-{n}": [0, 1] if n % 2 else [1, 2] for n in range(190)}
    return cluster(names, brokers=range(4), size_bytes=GB, can_take_in=can_take_in)


def taken_in(suggestion: PlanResult, state: ClusterState) -> Counter[int]:
    """Return what each broker takes in after a plan, of 1 MB/s for each replica."""
    held = Counter(b for replicas in placed(state, suggestion.plan).values() for b in replicas)
    return Counter({broker: count * MB for broker, count in held.items()})


def test_no_broker_ends_above_its_inbound_capacity_though_the_band_would_allow_it() -> None:
    state = uneven(100 * MB)
    wanted = PlanRequest()
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    assert max(taken_in(suggestion, state).values()) <= 100 * MB
    assert is_reached(suggestion, wanted)
    assert not [
        f for f in check_plan(state, load_of(state, MB), suggestion.plan) if f.id == "capacity"
    ]


def test_headroom_stays_free_where_brokers_together_have_enough_capacity() -> None:
    state = uneven(110 * MB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest())
    assert max(taken_in(suggestion, state).values()) <= 99 * MB


def test_broker_ending_above_its_capacity_is_reported_and_the_goal_not_reached() -> None:
    state = uneven(90 * MB)
    wanted = PlanRequest()
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    assert any(
        note.startswith("Broker ") and "MB/s in; it can take in 90 MB/s" in note
        for note in suggestion.notes
    )
    assert not is_reached(suggestion, wanted)


def test_replicas_to_drain_stay_where_no_broker_has_capacity_for_them() -> None:
    held = {f"t-{n}": [1 + n % 3] for n in range(9)}
    state = cluster(held, size_bytes=GB, can_take_in=3.5 * MB)
    wanted = PlanRequest(drain=(1,))
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    assert not suggestion.plan.moves
    assert not is_reached(suggestion, wanted)
    assert (
        "3 replicas (3.0 GB) stay where they are, t-0, t-3 and t-6: no broker that could take them "
        "can take in or send so much more; add brokers, or lower what is produced."
    ) in suggestion.notes


@pytest.mark.parametrize("plan_request", [PlanRequest(drain=(1,)), PlanRequest(replace=((1, 4),))])
def test_replicas_leaving_a_broker_push_no_other_broker_above_its_capacity(
    plan_request: PlanRequest,
) -> None:
    held = {f"t-{n}": [1 + n % 3] for n in range(12)}
    can = dict.fromkeys((1, 2, 3), 8 * MB) | {4: 2.5 * MB}
    state = cluster(held, brokers=range(1, 5), size_bytes=GB, can_take_in=can)
    suggestion = suggest_plan(state, load_of(state, MB), plan_request)
    carried = taken_in(suggestion, state)
    assert carried[4] == 2 * MB
    assert carried[1] == (0 if plan_request.drain else 2 * MB)


def test_a_broker_above_its_capacity_does_not_hinder_the_drain_of_another() -> None:
    held = {"t-0": [1], "u-0": [2]}
    state = cluster(held, brokers=[1, 2, 3], size_bytes=GB, can_take_in=20 * MB)
    wanted = PlanRequest(drain=(1,))
    load = load_of(state, {"t-0": MB, "u-0": 30.0 * MB})
    assert is_reached(suggest_plan(state, load, wanted), wanted)


def test_leaders_send_nothing_to_followers_that_a_limit_keeps_from_being_created() -> None:
    held, wanted = {f"t-{n}": [1, 2] for n in range(10)}, PlanRequest(replicas=3)
    wanted = replace(wanted, limits=Limits(max_moves=2))
    tight, fine = (
        cluster(held, brokers=[1, 2, 3], size_bytes=GB, can_send=can * MB) for can in (21, 22)
    )
    suggestion = suggest_plan(tight, load_of(tight, MB), wanted)
    assert suggestion.moves == 2
    assert "Broker 1 ends at 22 MB/s out; it can send 21 MB/s: add brokers, or carry less." in (
        suggestion.notes
    )
    notes = suggest_plan(fine, load_of(fine, MB), wanted).notes
    assert not any(" ends at " in note for note in notes)


def test_leadership_goes_to_no_broker_that_cannot_send_what_leaders_send() -> None:
    state = cluster({f"t-{n}": [1, 2] for n in range(6)}, size_bytes=GB, can_send={2: 5e6})
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(leaders_only=True))
    # A leader sends to its consumers, and to its follower.
    assert suggestion.leader_moves == 2


def test_remaining_replica_leads_after_a_drain_where_the_new_broker_cannot_send_enough() -> None:
    sends = {1: 10e6, 2: 10e6, 3: 1e6}
    state = cluster({"t-0": [1, 2]}, brokers=[1, 2, 3], size_bytes=GB, can_send=sends)
    (move,) = suggest_plan(state, load_of(state, MB), PlanRequest(drain=(1,))).plan
    assert move.after == (2, 3)


@pytest.mark.parametrize(
    "plan_request",
    [PlanRequest(), PlanRequest(drain=(1,)), PlanRequest(replicas=2), PlanRequest(fill=(4,))],
)
def test_no_broker_takes_more_replicas_than_it_may_have(plan_request: PlanRequest) -> None:
    state = cluster({f"t-{n}": [1 + n % 3] for n in range(12)}, brokers=range(1, 5), size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), replace(plan_request, max_replicas=3))
    held = Counter(b for replicas in placed(state, suggestion.plan).values() for b in replicas)
    came = {b for move in suggestion.plan for b in move.adding}
    assert came
    assert all(held[broker] <= 3 for broker in came)


def test_brokers_above_the_max_replicas_limit_give_replicas_away() -> None:
    held = {f"t-{n}": [1] for n in range(12)} | {f"u-{n}": [2 + n % 2] for n in range(18)}
    state = cluster(held, brokers=[1, 2, 3], size_bytes=GB)
    wanted = PlanRequest(max_replicas=10, band=0.5)
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    assert is_reached(suggestion, wanted)
    assert (suggestion.moves, suggestion.reasons[next(iter(suggestion.plan)).tp].broker) == (2, 1)
    with pytest.raises(UsageError) as refused:
        suggest_plan(state, load_of(state, MB), replace(wanted, max_replicas=9))
    assert refused.value.title == "30 replicas do not fit on 3 brokers with 9 each."
    assert "10 or more with --max-replicas" in refused.value.next


def test_note_about_staying_replicas_names_the_max_replicas_limit() -> None:
    state = cluster({f"t-{n}": [1 + n % 3] for n in range(9)}, size_bytes=GB)
    wanted = PlanRequest(drain=(1,), max_replicas=4)
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    assert suggestion.moves == 2
    assert (
        "1 replica (1.0 GB) stays where it is, t-6: --max-replicas allows no broker that could "
        "take them more; raise it."
    ) in suggestion.notes


def test_no_headroom_is_kept_where_brokers_together_do_not_have_it() -> None:
    capacity = np.full((2, len(Measure)), np.inf)
    capacity[:, Measure.IN], capacity[:, Measure.OUT] = 100.0, 100.0
    total = np.zeros(len(Measure))
    total[Measure.IN], total[Measure.OUT] = 190.0, 180.0
    limits = ceilings(capacity, total, np.ones(2, np.bool_))
    assert limits[:, Measure.IN].tolist() == [100.0, 100.0]
    assert limits[:, Measure.OUT].tolist() == [90.0, 90.0]
    assert np.isinf(limits[:, Measure.DISK]).all()


def test_brokers_become_even_under_tight_capacities_with_hardly_more_copied_bytes() -> None:
    state, load = skewed(Shape(12, 2_000, "skew"))
    free = suggest_plan(state, load, PlanRequest())
    mean = float(np.nansum(load.in_bytes_per_s)) * 3 / 12
    can = 1.17 * mean  # 5 % above the mean with the headroom
    tight = state.with_brokers([replace(b, in_capacity_bytes_per_s=can) for b in state.brokers])
    suggestion = suggest_plan(tight, load, PlanRequest())
    assert is_reached(suggestion, PlanRequest())
    assert suggestion.after[:, Measure.IN].max() <= 1.17 * 0.9 + 1e-6
    assert suggestion.bytes <= 1.2 * free.bytes
