"""Intents that are asked for together: what comes of them, and which contradict each other."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of, placed, tp

from core.cluster.state import ClusterState
from core.errors import UsageError
from core.load.load import Load
from core.plan.plan import Plan
from core.plan.planner.model.measures import Measure
from core.plan.planner.plan_request import FLAGS, Field, Limits, PlanRequest
from core.plan.planner.plan_result import is_reached
from core.plan.planner.planner import suggest_plan

GB = 1000 * MB


def six_old_brokers_and_two_new(replicas: int = 2) -> tuple[ClusterState, Load]:
    held = {f"{'ab'[n % 2]}-{n}": [1 + (n + k * 2) % 6 for k in range(replicas)] for n in range(60)}
    state = cluster(held, brokers=range(1, 9), size_bytes=GB)
    return state, load_of(state, MB)


def test_replicas_of_a_drained_broker_go_to_added_brokers_which_are_filled() -> None:
    state, load = six_old_brokers_and_two_new()
    wanted = PlanRequest(drain=(3,), fill=(7, 8))
    suggestion = suggest_plan(state, load, wanted)
    held = Counter(b for replicas in placed(state, suggestion.plan).values() for b in replicas)
    assert held[3] == 0
    assert {broker for move in suggestion.plan for broker in move.adding} == {7, 8}
    assert all(abs(held[broker] - 120 / 7) <= 0.1 * 120 / 7 + 1 for broker in (7, 8))
    assert is_reached(suggestion, wanted)


def test_drained_replicas_that_new_brokers_may_not_take_for_racks_go_elsewhere() -> None:
    racks = {1: "a", 2: "b", 3: "a", 4: "b", 5: "b"}
    state = cluster(
        {f"t-{n}": [1, 2] if n % 2 else [3, 4] for n in range(20)},
        brokers=range(1, 6),
        racks=racks,
        size_bytes=GB,
    )
    wanted = PlanRequest(drain=(1,), fill=(5,))
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    held = Counter(b for replicas in placed(state, suggestion.plan).values() for b in replicas)
    assert held == {3: 20, 2: 7, 4: 7, 5: 6}
    assert not suggestion.incomplete


def test_replicas_are_added_to_requested_topics_only_and_not_on_a_drained_broker() -> None:
    state, load = six_old_brokers_and_two_new()
    wanted = PlanRequest(replicas=3, topics="a", drain=(3,))
    suggestion = suggest_plan(state, load, wanted)
    for name, replicas in placed(state, suggestion.plan).items():
        if name.startswith("a"):
            assert len(replicas) == 3
            assert 3 not in replicas
        else:
            assert name not in {str(move.tp) for move in suggestion.plan}
    assert is_reached(suggestion, wanted)


def test_surplus_replicas_are_removed_from_the_drained_broker_and_nothing_is_copied() -> None:
    state = cluster(
        {"t-0": [3, 1, 2], "t-1": [1, 3, 2], "t-2": [2, 1, 3]}, brokers=[1, 2, 3], size_bytes=GB
    )
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(replicas=2, drain=(3,)))
    assert {frozenset(held) for held in placed(state, suggestion.plan).values()} == {
        frozenset({1, 2})
    }
    assert suggestion.bytes == 0
    assert not suggestion.incomplete


def test_leader_on_a_drained_broker_stays_while_no_other_replica_can_lead() -> None:
    state = cluster(
        {"t-0": [3, 1, 2]}, brokers=[1, 2, 3, 4], isr={"t-0": [3]}, size_bytes=GB, dead=[]
    )
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(replicas=2, drain=(3,)))
    assert not suggestion.plan.moves
    assert suggestion.incomplete


def test_racks_are_repaired_by_the_replicas_that_leave_a_drained_broker_anyway() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
    state = cluster({"t-0": [4, 1, 2]}, brokers=range(1, 7), racks=racks, size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(racks_only=True, drain=(1,)))
    (held,) = placed(state, suggestion.plan).values()
    assert 4 in held
    assert 1 not in held
    assert {racks[broker] for broker in held} == {"a", "b", "c"}
    assert suggestion.bytes == GB


def test_replicas_of_a_replaced_broker_go_to_its_replacement_while_another_is_filled() -> None:
    state, load = six_old_brokers_and_two_new()
    wanted = PlanRequest(replace=((3, 8),), fill=(7,))
    suggestion = suggest_plan(state, load, wanted)
    for name, replicas in placed(state, suggestion.plan).items():
        row = state.find(tp(name))
        assert row is not None
        assert (8 in replicas) == (3 in state.replicas(row))
        assert 3 not in replicas
    assert abs(suggestion.after[6, Measure.DISK] - 1) <= 0.10
    assert is_reached(suggestion, wanted)


def test_leaders_only_request_for_some_topics_changes_no_other_topics() -> None:
    state = cluster({f"{'ab'[n % 2]}-{n}": [1, 2, 3] for n in range(18)}, size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(leaders_only=True, topics="a"))
    assert {move.tp.topic for move in suggestion.plan} == {"a"}
    assert suggestion.bytes == 0


def test_limits_hold_for_all_combined_requests_together() -> None:
    state, load = skewed(Shape(12, 600, "new"))
    limits = Limits(max_moves=150)
    suggestion = suggest_plan(state, load, PlanRequest(drain=(2,), fill=(11,), limits=limits))
    assert sum(len(move.adding) for move in suggestion.plan) <= 150
    assert any(11 in move.adding for move in suggestion.plan)


def test_replica_from_a_broker_without_a_rack_joins_no_rack_that_holds_a_replica() -> None:
    racks = {2: "a", 3: "a", 4: "b"}
    state = cluster(
        {"t-0": [1, 2], "u-0": [4], "u-1": [4]}, brokers=[1, 2, 3, 4], racks=racks, size_bytes=GB
    )
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(drain=(1,)))
    assert set(placed(state, suggestion.plan)["t-0"]) == {2, 4}


def test_rack_conflicts_on_excluded_brokers_only_are_reported_and_left() -> None:
    state = cluster({"t-0": [1, 2]}, brokers=[1, 2, 3], racks={1: "a", 2: "a", 3: "b"})
    suggestion = suggest_plan(
        state, load_of(state, MB), PlanRequest(racks_only=True, exclude=(1, 2))
    )
    assert not suggestion.plan.moves
    assert any("on brokers that are to be left as they are" in note for note in suggestion.notes)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"leaders_only": True, "drain": (1,)}, "--leaders copies nothing, and --drain has to"),
        ({"leaders_only": True, "fill": (1,)}, "--leaders copies nothing, and --add has to copy."),
        ({"leaders_only": True, "replace": ((1, 2),)}, "--leaders copies nothing, and --replace"),
        ({"leaders_only": True, "racks_only": True}, "--leaders copies nothing, and --racks has"),
        ({"leaders_only": True, "replicas": 2}, "--leaders copies nothing, and --rf has to copy."),
        ({"drain": (1,), "fill": (1,)}, "Broker 1 is to be drained and to be filled."),
        ({"drain": (1,), "exclude": (1,)}, "Broker 1 is to be drained and to be left as it is."),
        ({"drain": (1,), "replace": ((1, 2),)}, "Broker 1 is to be drained and to be replaced."),
        (
            {"drain": (2,), "replace": ((1, 2),)},
            "Broker 2 is to be drained and to take another's place.",
        ),
        ({"fill": (1,), "exclude": (1,)}, "Broker 1 is to be filled and to be left as it is."),
        ({"fill": (1,), "replace": ((1, 2),)}, "Broker 1 is to be filled and to be replaced."),
        (
            {"replace": ((1, 2),), "exclude": (2,)},
            "Broker 2 is to take another's place and to be left as it is.",
        ),
        ({"replace": ((1, 1),)}, "Broker 1 is to take its own place."),
        ({"replace": ((1, 2), (1, 4))}, "Broker 1 is to be replaced by two others."),
        ({"replace": ((1, 2), (2, 4))}, "Broker 2 is to be replaced and to take another's place."),
        ({"drain": (1, 2, 4)}, "No broker that is up is left to take anything."),
        ({"replicas": 4}, "4 replicas on 3 brokers that are up: one each at most."),
        (
            {"replicas": 3, "drain": (1,)},
            "3 replicas on 2 brokers that are up without those of --drain: one each at most.",
        ),
        ({"leaders_only": True, "brokers": (1,)}, "--leaders copies nothing, and --brokers has"),
        ({"brokers": (1, 2), "fill": (4,)}, "--brokers and --add both say which brokers receive."),
        (
            {"brokers": (1, 2), "drain": (2,)},
            "Broker 2 is one of those that alone hold the topics and to be drained.",
        ),
        (
            {"brokers": (1, 2), "replace": ((2, 4),)},
            "Broker 2 is one of those that alone hold the topics and to be replaced.",
        ),
        (
            {"brokers": (1, 2), "exclude": (2,)},
            "Broker 2 is one of those that alone hold the topics and to be left as it is.",
        ),
        (
            {"brokers": (2,), "replace": ((1, 4),)},
            "Broker 4 is to take another's place, and is not of --brokers.",
        ),
        ({"brokers": (1, 3)}, "Broker 3 is down and cannot receive anything."),
        ({"brokers": (1, 9)}, "There is no broker 9."),
        (
            {"brokers": (1, 2), "replicas": 3},
            "3 replicas on 2 brokers of --brokers that are up: one each at most.",
        ),
        ({"racks_only": True, "ignore_racks": True}, "--racks repairs what --ignore-racks ignores"),
        ({"fill": (3,)}, "Broker 3 is down and cannot receive anything."),
        ({"replace": ((1, 3),)}, "Broker 3 is down and cannot receive anything."),
        ({"drain": (99,)}, "There is no broker 99."),
        ({"exclude": (1, 2, 4)}, "No broker that is up is left to give or take anything."),
        ({"keep": ".*"}, "No topic is left to plan for."),
        ({"topics": "("}, "--topics ( is not a regular expression"),
        ({"leaders_only": True, "disks": True}, "--leaders copies nothing, and --disks has to"),
        ({"leaders_only": True, "balance": True}, "--leaders copies nothing, and --balance has"),
        ({"balance": True, "drain": (1,)}, "--balance evens all brokers out, and --drain moves"),
    ],
)
def test_contradictory_requests_are_refused_with_one_sentence_that_names_them(
    fields: dict[str, object], words: str
) -> None:
    state = cluster({"t-0": [1, 2]}, brokers=[1, 2, 3, 4], dead=[3])
    with pytest.raises(UsageError, match=re.escape(words)) as excinfo:
        suggest_plan(state, Load.unknown(state), PlanRequest(**fields))  # type: ignore[arg-type]
    assert excinfo.value.next


def test_errors_call_request_fields_by_the_names_that_the_caller_passes() -> None:
    state = cluster({"t-0": [1, 2]}, brokers=[1, 2, 3])
    names = {**FLAGS, Field.LEADERS: "leaders only", Field.DRAIN: "drain"}
    with pytest.raises(UsageError, match="leaders only copies nothing, and drain has to copy"):
        suggest_plan(state, Load.unknown(state), PlanRequest(leaders_only=True, drain=(1,)), names)


# -- beside what is planned already --------------------------------------------------------------


def test_moves_already_planned_stay_and_the_rest_is_planned_around_them() -> None:
    state = cluster({f"t-{n}": [1] for n in range(9)}, brokers=[1, 2, 3], size_bytes=GB)
    kept = Plan()
    for n in range(3):
        kept = kept.with_move(state, tp(f"t-{n}"), 1, 2)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(kept=kept))
    assert not {move.tp for move in suggestion.plan} & {move.tp for move in kept}
    held = Counter(b for r in placed(state, Plan.of([*kept, *suggestion.plan])).values() for b in r)
    assert held == {1: 3, 2: 3, 3: 3}
    assert suggestion.bytes == 3 * GB


def test_sent_traffic_of_moves_already_planned_counts_their_planned_followers() -> None:
    """Not to as many as are wanted of the others: those have two, and it has one."""
    state = cluster({f"t-{n}": [1 + n] for n in range(4)}, brokers=[1, 2, 3, 4], size_bytes=GB)
    kept = Plan().with_target(state, tp("t-0"), (1, 2))
    wanted = PlanRequest(replicas=3, kept=kept)
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    ended = placed(state, Plan.of([*kept, *suggestion.plan]))
    assert [len(held) for held in ended.values()] == [2, 3, 3, 3]
    # In and out are 1 MB/s each: a leader sends that to its consumers, and to every follower.
    sent = {held[0]: len(held) for held in ended.values()}
    out = dict(zip(suggestion.brokers, suggestion.after[:, Measure.OUT].tolist(), strict=True))
    assert out == pytest.approx({broker: 4 * n / 11 for broker, n in sent.items()})


def test_disks_filled_by_moves_already_planned_count_as_full() -> None:
    state = cluster(
        {"t-0": [1], "t-1": [1]}, brokers=[1, 2], size_bytes=GB, disk_bytes=(10 * GB, 2 * GB)
    )
    kept = Plan().with_move(state, tp("t-0"), 1, 2)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(drain=(1,), kept=kept))
    assert not suggestion.plan.moves
    assert "t-1: no broker that could take them has that much disk" in suggestion.notes[0]


def test_move_already_planned_onto_a_drained_broker_is_reported() -> None:
    state = cluster({"t-0": [1], "t-1": [2]}, brokers=[1, 2, 3], size_bytes=GB)
    kept = Plan().with_move(state, tp("t-0"), 1, 2)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(drain=(2,), kept=kept))
    assert {str(move.tp) for move in suggestion.plan} == {"t-1"}
    assert suggestion.incomplete
    assert "t-0: what is planned already leaves replicas on brokers" in suggestion.notes[0]
