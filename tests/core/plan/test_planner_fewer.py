"""Fewer replicas (`--rf`): which go is chosen so that brokers end even, and nothing is copied."""

from __future__ import annotations

import numpy as np
import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of
from hypothesis import given, settings
from hypothesis import strategies as st

from core.cluster.state import ClusterState, TopicPartition
from core.load.snapshot import Load
from core.plan.plan import Plan
from core.plan.planner.planner import suggest
from core.plan.planner.wanted import Wanted

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
    held = [plan.target(state, state.tp(row)) for row in range(state.partition_count)]
    ids, counts = np.unique(np.concatenate(held), return_counts=True)
    return dict(zip(ids.tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("brokers", [(), (4, 5, 6, 7)])
def test_brokers_end_even_without_a_copy_or_another_leader(
    brokers: tuple[int, ...], seed: int
) -> None:
    sizes = np.random.default_rng(seed).integers(200_000, 203_000, len(GATHERED)).tolist()
    by_name = dict(zip(GATHERED, map(int, sizes), strict=True))
    state = cluster(GATHERED, brokers=range(4, 8), size_bytes=by_name)

    found = suggest(state, Load.unknown(state), Wanted(brokers=brokers, replicas=2))

    assert not found.undone
    assert (found.bytes, found.moves, found.leader_moves) == (0, 0, 0)
    assert replicas_each(state, found.plan) == dict.fromkeys(range(4, 8), 4)


def test_a_large_cluster_ends_inside_the_band() -> None:
    state, load = skewed(Shape(12, 2_000, "new", replicas=3))
    found = suggest(state, load, Wanted(replicas=2))
    assert found.bytes == 0
    held = replicas_each(state, found.plan).values()
    assert max(held) - min(held) < 0.05 * np.mean([*held])


placements = st.lists(
    st.permutations(range(1, 7)).map(lambda ids: ids[:4]), min_size=1, max_size=12
)


@given(placements, st.sampled_from([1, 2, 3]), st.integers(0, 99))
@settings(max_examples=60)
def test_only_followers_go_and_no_other_choice_of_one_would_be_much_more_even(
    placed: list[list[int]], replicas: int, seed: int
) -> None:
    names = {f"t-{n}": row for n, row in enumerate(placed)}
    sizes = np.random.default_rng(seed).integers(1, 50, len(names)) * MB
    by_name = dict(zip(names, map(int, sizes), strict=True))
    state = cluster(names, brokers=range(1, 7), size_bytes=by_name)

    found = suggest(state, Load.unknown(state), Wanted(replicas=replicas))

    after = {
        name: found.plan.target(state, tp) for name, tp in zip(names, _tps(state), strict=True)
    }
    assert all(after[name][0] == row[0] for name, row in names.items())
    assert all({*after[name]} < {*row} for name, row in names.items())
    assert not found.bytes
    uneven = _uneven(after, by_name)
    for name, row in names.items():
        for kept in after[name][1:]:
            for dropped in {*row} - {*after[name]}:
                other = tuple(dropped if b == kept else b for b in after[name])
                assert _uneven({**after, name: other}, by_name) > 0.99 * uneven - 1e-6


def _tps(state: ClusterState) -> list[TopicPartition]:
    return [state.tp(row) for row in range(state.partition_count)]


def _uneven(placed: dict[str, tuple[int, ...]], sizes: dict[str, int]) -> float:
    """Return how far brokers are from their fair shares of disk and of replicas, squared."""
    found = 0.0
    for weights in (sizes, dict.fromkeys(sizes, 1)):
        loads = np.zeros(6)
        for name, held in placed.items():
            loads[np.array(held) - 1] += weights[name]
        found += float(((loads / loads.mean() - 1) ** 2).sum())
    return found


def test_a_rack_of_its_own_is_kept_though_brokers_stay_uneven() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    rows = {f"t-{n}": [1, 2, 3] for n in range(6)}
    state = cluster(rows, brokers=[1, 2, 3], racks=racks, size_bytes=MB)
    found = suggest(state, load_of(state, MB), Wanted(replicas=2))
    assert all(move.after == (1, 3) for move in found.plan)


def test_who_leads_stays_though_it_is_not_preferred() -> None:
    rows = {f"t-{n}": [1, 2, 3] for n in range(6)}
    state = cluster(rows, leaders=dict.fromkeys(rows, 3), brokers=[1, 2, 3], size_bytes=MB)
    found = suggest(state, load_of(state, MB), Wanted(replicas=2))
    assert [move.after for move in found.plan] == [(1, 3)] * 6
