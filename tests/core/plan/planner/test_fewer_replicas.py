"""Fewer replicas (`--rf`): which go is chosen so that brokers end even, and nothing is copied."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of, placed
from hypothesis import given, settings
from hypothesis import strategies as st

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.plan import Plan
from core.plan.planner.model.measures import REPLICA_MEASURES
from core.plan.planner.model.placement import Placement
from core.plan.planner.model.problem import build_problem
from core.plan.planner.plan_request import Limits, PlanRequest
from core.plan.planner.planner import suggest_plan
from core.plan.planner.search.mandatory_moves import set_replica_count

# As it is left by moving eight partitions that brokers 1 to 8 held in turn to four of these.
GATHERED = {
    "t-0": [5, 4, 6],
    "t-1": [7, 5, 4],
    "t-2": [6, 7, 5],
    "t-3": [4, 5, 6],
    "t-4": [5, 6, 7],
    "t-5": [6, 7, 4],
    "t-6": [7, 5, 4],
    "t-7": [4, 7, 6],
}


def replicas_each(state: ClusterState, plan: Plan) -> dict[int, int]:
    held = Counter(broker for row in placed(state, plan).values() for broker in row)
    return {broker: held[broker] for broker in state.broker_ids.tolist()}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("brokers", [(), (4, 5, 6, 7)])
def test_brokers_end_even_without_a_copy_or_another_leader(
    brokers: tuple[int, ...], seed: int
) -> None:
    sizes = np.random.default_rng(seed).integers(200_000, 203_000, len(GATHERED)).tolist()
    by_name = dict(zip(GATHERED, map(int, sizes), strict=True))
    state = cluster(GATHERED, brokers=range(4, 8), size_bytes=by_name)

    suggestion = suggest_plan(state, Load.unknown(state), PlanRequest(brokers=brokers, replicas=2))

    assert not suggestion.incomplete
    assert (suggestion.bytes, suggestion.moves, suggestion.leader_moves) == (0, 0, 0)
    assert replicas_each(state, suggestion.plan) == dict.fromkeys(range(4, 8), 4)


def test_nonempty_brokers_of_a_large_cluster_end_with_nearly_equal_shares() -> None:
    state, load = skewed(Shape(12, 2_000, "new", replicas=3))
    empty = {broker for broker, held in replicas_each(state, Plan()).items() if not held}
    assert empty

    suggestion = suggest_plan(state, load, PlanRequest(replicas=2))

    assert (suggestion.bytes, suggestion.leader_moves) == (0, 0)
    held = [n for broker, n in replicas_each(state, suggestion.plan).items() if broker not in empty]
    assert max(held) - min(held) < 0.02 * np.mean(held)
    hosted = [m for m in REPLICA_MEASURES if suggestion.active[m]]
    shares = suggestion.after[~np.isin(state.broker_ids, [*empty])][:, hosted]
    assert (np.ptp(shares, axis=0) < 0.05).all()


def test_small_topic_is_spread_as_well_where_all_other_topics_are_uneven() -> None:
    others = {f"u-{n}": [4, 5, 6] for n in range(40)}
    state = cluster(GATHERED | others, brokers=range(4, 8), size_bytes=200_000)
    suggestion = suggest_plan(state, Load.unknown(state), PlanRequest(replicas=2, topics="t"))
    assert not suggestion.bytes
    each = replicas_each(state, suggestion.plan)
    # Broker 7 holds nothing else: it keeps all that it can.
    assert each[7] == sum(7 in held for held in GATHERED.values())
    assert max(each[b] for b in (4, 5, 6)) - min(each[b] for b in (4, 5, 6)) <= 1


placements = st.lists(
    st.permutations(range(1, 7)).map(lambda ids: ids[:4]), min_size=1, max_size=12
)


@given(placements, st.sampled_from([1, 2, 3]), st.integers(0, 99))
@settings(max_examples=60)
def test_only_followers_are_removed_and_no_single_other_choice_is_more_even(
    drawn: list[list[int]], replicas: int, seed: int
) -> None:
    state, sizes = _cluster(drawn, seed)

    suggestion = suggest_plan(state, Load.unknown(state), PlanRequest(replicas=replicas))

    after = placed(state, suggestion.plan)
    held = placed(state, Plan())
    assert all(after[name][0] == row[0] for name, row in held.items())
    assert all({*after[name]} < {*row} for name, row in held.items())
    assert not suggestion.bytes
    uneven = _uneven(after, sizes)
    for name, row in held.items():
        for going in after[name][1:]:
            for returning in {*row} - {*after[name]}:
                other = tuple(returning if b == going else b for b in after[name])
                assert _uneven({**after, name: other}, sizes) > uneven - 1e-6


@given(placements, st.lists(st.sampled_from(["a", "b", None]), min_size=6, max_size=6))
@settings(max_examples=60)
def test_racks_are_spread_at_least_as_well_as_by_choosing_each_partition_separately(
    drawn: list[list[int]], racks: list[str | None]
) -> None:
    named = {broker: rack for broker, rack in enumerate(racks, 1) if rack is not None}
    state, _ = _cluster(drawn, 0, racks=named)

    alone = Placement(build_problem(state, Load.unknown(state), target_replicas=2))
    assert not set_replica_count(alone, 2, Limits())
    suggestion = suggest_plan(state, Load.unknown(state), PlanRequest(replicas=2))

    ids = state.broker_ids
    chosen = placed(state, suggestion.plan).values()
    for row, held in zip(alone.at[:, :2].tolist(), chosen, strict=True):
        usual = [named.get(int(ids[at])) for at in row]
        assert _doubled([named.get(b) for b in held]) <= _doubled(usual)


def _doubled(racks: list[str | None]) -> int:
    return max((racks.count(rack) for rack in racks if rack is not None), default=1)


def _cluster(
    rows: list[list[int]], seed: int, racks: dict[int, str] | None = None
) -> tuple[ClusterState, dict[str, int]]:
    names = {f"t-{n}": row for n, row in enumerate(rows)}
    drawn = np.random.default_rng(seed).integers(1, 50, len(names)) * MB
    sizes = dict(zip(names, map(int, drawn), strict=True))
    return cluster(names, brokers=range(1, 7), racks=racks, size_bytes=sizes), sizes


def _uneven(held_by: dict[str, tuple[int, ...]], sizes: dict[str, int]) -> float:
    """Return how far brokers are from their fair shares of disk and of replicas, squared."""
    unevenness = 0.0
    for weights in (sizes, dict.fromkeys(sizes, 1)):
        loads = np.zeros(6)
        for name, held in held_by.items():
            loads[np.array(held) - 1] += weights[name]
        unevenness += float(((loads / loads.mean() - 1) ** 2).sum())
    return unevenness


def test_replica_in_a_rack_of_its_own_is_kept_though_brokers_stay_uneven() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    rows = {f"t-{n}": [1, 2, 3] for n in range(6)}
    state = cluster(rows, brokers=[1, 2, 3], racks=racks, size_bytes=MB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(replicas=2))
    assert all(move.after == (1, 3) for move in suggestion.plan)


def test_nonpreferred_leader_stays_when_the_replica_count_is_reduced() -> None:
    rows = {f"t-{n}": [1, 2, 3] for n in range(6)}
    state = cluster(rows, leaders=dict.fromkeys(rows, 3), brokers=[1, 2, 3], size_bytes=MB)
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(replicas=2))
    assert [move.after for move in suggestion.plan] == [(1, 3)] * 6


def test_replica_on_a_broker_without_a_rack_is_kept_over_one_in_a_used_rack() -> None:
    rows = {f"t-{n}": [1, 3, 2] for n in range(6)}
    racks = {1: "a", 2: "a", 4: "b"}
    state = cluster(rows, brokers=[1, 2, 3, 4], racks=racks, size_bytes=MB)
    for wanted in (PlanRequest(replicas=2), PlanRequest(replicas=2, racks_only=True)):
        suggestion = suggest_plan(state, load_of(state, MB), wanted)
        assert not suggestion.bytes
        assert [move.after for move in suggestion.plan] == [(1, 3)] * 6
