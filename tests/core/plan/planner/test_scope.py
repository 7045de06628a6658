"""Topics on some brokers only: nowhere else, even, few bytes, and racks kept or ignored."""

from __future__ import annotations

from collections import Counter

import pytest
from bench.kafka_generate import generated
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of, placed

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.checks.check_plan import check_plan
from core.plan.planner.model.measures import Measure
from core.plan.planner.plan_request import Limits, PlanRequest
from core.plan.planner.plan_result import is_reached
from core.plan.planner.planner import suggest_plan

GB = 1000 * MB
RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}


def two_topics() -> tuple[ClusterState, Load]:
    """Return topics a and b, 30 partitions each, in three racks of two brokers."""
    held = {
        f"{topic}-{n}": [1 + n % 6, 1 + (n + 1) % 6, 1 + (n + 2) % 6]
        for topic in "ab"
        for n in range(30)
    }
    state = cluster(held, brokers=range(1, 7), racks=RACKS, size_bytes=GB)
    return state, load_of(state, MB)


def test_requested_topics_end_on_the_requested_brokers_only_and_nothing_else_moves() -> None:
    state, load = two_topics()
    wanted = PlanRequest(topics="a", brokers=(1, 2, 3))
    suggestion = suggest_plan(state, load, wanted)
    for name, replicas in placed(state, suggestion.plan).items():
        if name.startswith("a"):
            assert set(replicas) == {1, 2, 3}
    assert {move.tp.topic for move in suggestion.plan} == {"a"}
    assert suggestion.bytes == 45 * GB, "each replica that was elsewhere is copied, and no other"
    assert is_reached(suggestion, wanted)
    again = suggest_plan(state, load, PlanRequest(topics="b", brokers=(1, 2, 3, 4, 5, 6)))
    assert again.bytes == 0


def test_probe_partitions_stay_unless_their_broker_is_drained() -> None:
    led = {f"t-{n}": [1] for n in range(4)} | {"u-0": [2], "u-1": [3]}
    probed = {f"__trimtab_probe-{n}": [n + 1] for n in range(3)}
    state = cluster(led | probed, brokers=[1, 2, 3], size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest())
    assert suggestion.plan
    assert {move.tp.topic for move in suggestion.plan} == {"t"}
    left = suggest_plan(state, load_of(state, MB), PlanRequest(drain=(3,)))
    assert {str(move.tp) for move in left.plan} >= {"u-1", "__trimtab_probe-2"}
    both = suggest_plan(state, load_of(state, MB), PlanRequest(drain=(3,), replicas=2))
    kept = {k: len(v) for k, v in placed(state, both.plan).items() if k.startswith("__trimtab")}
    assert kept == dict.fromkeys(probed, 1), "one replica each, by design"
    assert placed(state, both.plan)["__trimtab_probe-0"] == (1,)


def test_imbalance_caused_only_by_probe_partitions_is_reported() -> None:
    state = cluster(
        {"__trimtab_probe-0": [1], "t-0": [2], "t-1": [3]}, brokers=[1, 2, 3], size_bytes=GB
    )
    load = load_of(state, {"__trimtab_probe-0": 9 * MB, "t-0": MB, "t-1": MB})
    (note,) = (n for n in suggest_plan(state, load, PlanRequest()).notes if "probed" in n)
    assert note.startswith("What clients are probed on is ")
    assert note.endswith("no plan evens that out beside it; trimtab probe --remove.")


def test_load_of_other_topics_on_the_requested_brokers_counts() -> None:
    held = {f"big-{n}": [1] for n in range(10)} | {f"t-{n}": [4] for n in range(20)}
    state = cluster(held, brokers=[1, 2, 3, 4], size_bytes=GB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(topics="t", brokers=(1, 2, 3)))
    led = Counter(
        held[0] for name, held in placed(state, suggestion.plan).items() if name[0] == "t"
    )
    assert led == {2: 10, 3: 10}
    assert is_reached(suggestion, PlanRequest(topics="t", brokers=(1, 2, 3)))


def test_plan_copies_less_than_half_of_what_kafkas_rule_does_and_ends_even() -> None:
    state, load = skewed(Shape(12, 600, "skew", seed=3))
    brokers = tuple(range(9))
    suggestion = suggest_plan(state, load, PlanRequest(brokers=brokers))
    theirs = generated(state.with_brokers([b for b in state.brokers if b.id in brokers]), seed=1)
    held = [b for replicas in placed(state, suggestion.plan).values() for b in replicas]
    assert set(held) == set(brokers)
    copied = sum(
        int(state.partition_size_bytes[row]) * len({*theirs[row].tolist()} - {*state.replicas(row)})
        for row in range(state.partition_count)
    )
    assert suggestion.bytes < copied / 2
    assert abs(suggestion.after[list(brokers), Measure.DISK] - 1).max() <= 0.10 + 1e-9


def test_racks_are_kept_unless_the_request_ignores_them() -> None:
    state, load = two_topics()
    wanted = PlanRequest(topics="a", brokers=(1, 2, 4))
    suggestion = suggest_plan(state, load, wanted)
    racks = {frozenset(RACKS[b] for b in held) for held in placed(state, suggestion.plan).values()}
    assert racks == {frozenset("abc")}
    assert not is_reached(suggestion, wanted)
    assert any("or ask for --ignore-racks" in note for note in suggestion.notes)

    wanted = PlanRequest(topics="a", brokers=(1, 2, 4), ignore_racks=True)
    suggestion = suggest_plan(state, load, wanted)
    assert is_reached(suggestion, wanted)
    for name, replicas in placed(state, suggestion.plan).items():
        assert set(replicas) == {1, 2, 4} or name.startswith("b")
    assert "rack-spread" in {finding.id for finding in check_plan(state, load, suggestion.plan)}


def test_broker_of_a_rack_with_fewer_brokers_gets_a_larger_share() -> None:
    held = {f"t-{n}": [3, 6] for n in range(20)}
    racks = {1: "a", 2: "b", 4: "a", 3: "a", 6: "b"}
    state = cluster(held, brokers=[1, 2, 3, 4, 6], racks=racks, size_bytes=GB)
    wanted = PlanRequest(brokers=(1, 2, 4))
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    counts = Counter(b for replicas in placed(state, suggestion.plan).values() for b in replicas)
    assert counts == {1: 10, 2: 20, 4: 10}
    assert suggestion.bytes == 40 * GB
    assert suggestion.within(0.10)


def test_replicas_are_added_on_the_requested_brokers_only() -> None:
    state, load = two_topics()
    wanted = PlanRequest(topics="a", brokers=(1, 2, 3, 4), replicas=4)
    suggestion = suggest_plan(state, load, wanted)
    for name, replicas in placed(state, suggestion.plan).items():
        assert set(replicas) == {1, 2, 3, 4} or name.startswith("b")
    assert not suggestion.incomplete


def test_broker_shares_are_computed_for_the_requested_replica_count() -> None:
    """A third of three replicas in each of three racks is on the one broker that rack a has."""
    racks = {1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    held = {f"t-{n}": [(2, 4), (3, 5), (1,)][n % 3] for n in range(30)}
    state = cluster(held, brokers=racks, racks=racks, size_bytes=GB)
    for brokers in ((), (1, 2, 3, 4, 5)):
        wanted = PlanRequest(replicas=3, brokers=brokers)
        suggestion = suggest_plan(state, load_of(state, MB), wanted)
        counts = Counter(
            b for replicas in placed(state, suggestion.plan).values() for b in replicas
        )
        assert counts[1] == 30
        assert is_reached(suggestion, wanted)
        assert any("Broker 1 has to carry 167% of the mean" in note for note in suggestion.notes)
        assert suggestion.after[0, Measure.DISK] == pytest.approx(1)


def test_large_partition_is_judged_by_shares_of_the_requested_replica_count() -> None:
    """7 GB of 18 are 117 % of a broker's share of one replica each, and 39 % of that of three."""
    held = {f"t-{n}": [1 + n % 3] for n in range(12)}
    state = cluster(held, brokers=[1, 2, 3], size_bytes=dict.fromkeys(held, GB) | {"t-0": 7 * GB})
    wanted = PlanRequest(replicas=3, brokers=(1, 2, 3))
    suggestion = suggest_plan(state, load_of(state, MB), wanted)
    assert is_reached(suggestion, wanted)
    assert not [note for note in suggestion.notes if "alone is" in note]


def test_limit_on_bytes_bounds_gathering_and_evening_out_together() -> None:
    state, load = two_topics()
    wanted = PlanRequest(topics="a", brokers=(1, 2, 3), limits=Limits(max_bytes=20 * GB))
    suggestion = suggest_plan(state, load, wanted)
    assert suggestion.bytes == 20 * GB
    assert not is_reached(suggestion, wanted)
    assert any("--max-bytes allows no more, all of it needs 45 GB" in n for n in suggestion.notes)


def test_excluded_broker_keeps_its_replicas_of_the_requested_topics() -> None:
    state, load = two_topics()
    suggestion = suggest_plan(state, load, PlanRequest(topics="a", brokers=(1, 2, 3), exclude=(4,)))
    assert all(4 not in {*move.adding, *move.removing} for move in suggestion.plan)
    held = {
        b for name, r in placed(state, suggestion.plan).items() if name.startswith("a") for b in r
    }
    assert held == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("held", "moves"), [([3, 4, 3, 4, 3], 0), ([3, 2, 3, 4, 3], 1), ([3, 2, 4, 4, 4], 1)]
)
def test_no_more_replicas_move_than_the_optimum_needs(held: list[int], moves: int) -> None:
    """The cases of kafka-utils: equal replicas, and what must move for brokers as even as can
    be."""
    brokers = [broker for broker, count in enumerate(held) for _ in range(count)]
    state = cluster(
        {f"t-{n}": [broker] for n, broker in enumerate(brokers)}, brokers=range(5), size_bytes=GB
    )
    assert suggest_plan(state, load_of(state, MB), PlanRequest()).moves == moves
