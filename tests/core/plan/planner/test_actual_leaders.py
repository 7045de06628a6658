"""Plans where other replicas lead than the preferred ones, after a restart perhaps."""

from __future__ import annotations

from typing import Any

import pytest
from clusters import MB, cluster, load_of

from core.cluster.state import ClusterState
from core.plan.checks.check_plan import check_plan
from core.plan.planner.plan_request import PlanRequest
from core.plan.planner.plan_result import is_reached
from core.plan.planner.planner import suggest_plan

GB = 1000 * MB
IN_TURNS = {f"t-{n}": [1 + (n + k) % 3 for k in range(3)] for n in range(18)}


def one_leads_all(broker: int, **more: Any) -> ClusterState:
    """Return brokers 1 to 3 that hold all there is and are preferred alike, and one leads all."""
    return cluster(IN_TURNS, leaders=dict.fromkeys(IN_TURNS, broker), size_bytes=GB, **more)


@pytest.mark.parametrize("plan_request", [PlanRequest(), PlanRequest(leaders_only=True)])
def test_broker_overloaded_by_nonpreferred_leaders_is_reported_with_the_remedy(
    plan_request: PlanRequest,
) -> None:
    state = one_leads_all(1)
    suggestion = suggest_plan(state, load_of(state, MB), plan_request)
    assert not suggestion.plan.moves, "an election does it, and no plan"
    assert suggestion.notes[0] == (
        "12 partitions are led by others than their preferred replicas, so that broker 1 has 300% "
        "of its share of leaders: trimtab elect gives them back."
    )
    assert not is_reached(suggestion, plan_request)


def test_nonpreferred_leaders_that_unbalance_no_broker_are_not_reported() -> None:
    led = {name: held[1] for name, held in IN_TURNS.items()}
    state = cluster(IN_TURNS, leaders=led, size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest())
    assert not any("trimtab elect" in note for note in suggestion.notes)
    assert is_reached(suggestion, PlanRequest())


def test_broker_above_its_send_capacity_until_leaders_are_elected_is_reported() -> None:
    state = one_leads_all(1, can_send=50 * MB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest())
    assert (
        "Broker 1 ends at 54 MB/s out; it can send 50 MB/s: trimtab elect gives leaders back first."
    ) in suggestion.notes


@pytest.mark.parametrize("gone", [{"dead": [3]}, {"isr": {name: [1, 2] for name in IN_TURNS}}])
def test_no_election_is_advised_where_the_preferred_replica_cannot_lead(
    gone: dict[str, Any],
) -> None:
    led = {name: next(b for b in held if b != 3) for name, held in IN_TURNS.items()}
    state = cluster(IN_TURNS, leaders=led, size_bytes=GB, can_send=30 * MB, **gone)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest())
    assert not any("trimtab elect" in note for note in suggestion.notes)


def test_broker_overloaded_by_leadership_of_leaving_replicas_is_reported() -> None:
    held = {f"t-{n}": [1, 2] for n in range(12)}
    racks = {1: "a", 2: "a", 3: "b"}
    led = dict.fromkeys(held, 2)
    state = cluster(held, racks=racks, brokers=[1, 2, 3], leaders=led, can_send=20 * MB)
    wanted = PlanRequest(racks_only=True)
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    above = [
        f for f in check_plan(state, load_of(state, MB), suggestion.plan) if f.id == "capacity"
    ]
    assert [finding.sentence for finding in above] == [
        "Broker 1 ends at 24 MB/s out; it can send 20 MB/s."
    ]
    assert any(note.startswith("Broker 1 ends at 24 MB/s out;") for note in suggestion.notes)
    assert not is_reached(suggestion, wanted)


@pytest.mark.parametrize("racks", [None, {1: "a", 2: "b", 3: "c"}])
def test_replica_that_leads_stays_when_the_replica_count_is_reduced(
    racks: dict[int, str] | None,
) -> None:
    held = {f"t-{n}": [1, 2, 3] for n in range(6)}
    led = {name: 2 + n % 2 for n, name in enumerate(held)}
    state = cluster(held, leaders=led, racks=racks, size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(replicas=2))
    assert {str(move.tp): set(move.after) for move in suggestion.plan} == {
        name: {1, leader} for name, leader in led.items()
    }


def test_nonleading_replica_moves_where_replicas_share_a_rack() -> None:
    racks = {1: "a", 2: "a", 3: "a", 4: "b"}
    state = cluster({"t-0": [1, 2, 3]}, brokers=range(1, 5), racks=racks, leaders={"t-0": 3})
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(racks_only=True))
    (move,) = suggestion.plan
    assert move.after == (1, 4, 3)


def test_a_broker_out_of_scope_that_comes_to_lead_too_much_is_named() -> None:
    held = {f"t-{n}": [1, 2] for n in range(12)}
    led = dict.fromkeys(held, 2)
    state = cluster(held, brokers=[1, 2, 3], leaders=led, can_send={1: 20 * MB})
    wanted = PlanRequest(drain=(2,), brokers=(3,))
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    assert any(
        note.startswith("Broker 1 ends at 24 MB/s out; it can send 20 MB/s: it comes to lead")
        for note in suggestion.notes
    )
    assert not is_reached(suggestion, wanted)


def test_excluded_broker_overloaded_by_regaining_preferred_leadership_is_reported() -> None:
    """It is over by its preferred replicas alone; up to now another led the one that is moved."""
    state = cluster(
        {"big-0": [2, 0], "own-0": [2], "far-0": [4, 3]},
        brokers=range(5),
        racks={0: "a", 1: "a", 2: "a", 3: "a", 4: "b"},
        leaders={"big-0": 0},
        size_bytes=GB,
        can_send=2.0 * MB,
    )
    load = load_of(state, {"big-0": 1.7 * MB, "own-0": 0.3 * MB, "far-0": 0.1 * MB})
    suggestion = suggest_plan(state, load, PlanRequest(band=0.02, exclude=(2,)))
    capacity = [f.sentence for f in check_plan(state, load, suggestion.plan) if f.id == "capacity"]
    assert capacity == ["Broker 2 ends at 3.7 MB/s out; it can send 2.0 MB/s."]
    assert suggestion.notes[0] == (
        "Broker 2 ends at 3.7 MB/s out; it can send 2.0 MB/s: "
        "it comes to lead what others give up; plan with it, too."
    )


def test_broker_that_surely_gains_load_is_reported_even_if_it_may_give_up_as_much() -> None:
    held = {"unknown-0": [4, 3], "known-0": [3, 4], "busy-0": [5]}
    led = {"unknown-0": 3, "known-0": 4}
    state = cluster(held, leaders=led, size_bytes=GB, can_send={3: MB})
    load = load_of(state, {"known-0": 5 * MB, "busy-0": 100 * MB})
    suggestion = suggest_plan(state, load, PlanRequest(drain=(4,)))
    capacity = [f.sentence for f in check_plan(state, load, suggestion.plan) if f.id == "capacity"]
    assert capacity == ["Broker 3 ends at 10 MB/s out; it can send 1.0 MB/s."]
    assert any(note.startswith("Broker 3 ends") for note in suggestion.notes), suggestion.notes
