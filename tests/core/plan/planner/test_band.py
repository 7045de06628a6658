"""Where a plan aims: a little inside the band, where all get there; what is inside is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.planner.evenness import evenness
from core.plan.planner.plan_request import Limits, PlanRequest
from core.plan.planner.plan_result import PlanResult, is_reached
from core.plan.planner.planner import suggest_plan


def furthest(suggestion: PlanResult) -> float:
    return float(np.abs(suggestion.after[suggestion.counts][:, suggestion.active] - 1).max())


def two(on_first: int, on_second: int) -> tuple[ClusterState, Load]:
    """Return partitions alike on two brokers."""
    held = {f"t-{n}": [1 if n < on_first else 2] for n in range(on_first + on_second)}
    state = cluster(held, brokers=(1, 2), size_bytes=MB)
    return state, load_of(state, 1e6)


@pytest.mark.parametrize("band", [0.05, 0.10, 0.20])
@pytest.mark.parametrize("kind", ["new", "skew"])
def test_no_broker_ends_at_the_very_edge_of_the_band(kind: str, band: float) -> None:
    """The next change of load would take it out again."""
    suggestion = suggest_plan(*skewed(Shape(12, 2_000, kind)), PlanRequest(band=band))
    assert 0.5 * band < furthest(suggestion) <= 0.9 * band


def test_plan_of_leader_changes_alone_also_aims_inside_the_band() -> None:
    state = cluster({f"t-{n}": [1, 2] if n < 70 else [2, 1] for n in range(100)}, size_bytes=MB)
    suggestion = suggest_plan(state, load_of(state, 1e6), PlanRequest())
    assert (suggestion.moves, suggestion.leader_moves) == (0, 16)  # to 54, not to 55


@pytest.mark.parametrize(
    ("first", "second", "copied"),
    [
        (219, 181, 0),  # at 109.5 % nothing has to be done
        (56, 44, 2),  # to 54: 108 %
        (70, 30, 16),
        (11, 0, 5),  # 6 and 5 is as even as it gets: 109 %, inside the band
        (10, 1, 4),
    ],
)
def test_plan_copies_only_as_much_as_it_needs_to_end_inside_the_band(
    first: int, second: int, copied: int
) -> None:
    suggestion = suggest_plan(*two(first, second), PlanRequest())
    assert suggestion.moves == copied
    assert suggestion.within(0.10)


def test_byte_limit_that_suffices_for_the_edge_of_the_band_is_enough() -> None:
    suggestion = suggest_plan(*two(70, 30), PlanRequest(limits=Limits(max_bytes=15 * MB)))
    assert suggestion.bytes == 15 * MB
    assert suggestion.within(0.10)
    assert not any("--max-bytes" in note for note in suggestion.notes)


SHAPES = [(6, 150, 3, 3), (8, 200, 2, 1), (9, 300, 3, 3), (12, 400, 3, 3)]


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("kind", ["new", "skew"])
@pytest.mark.parametrize(("brokers", "partitions", "replicas", "racks"), SHAPES)
def test_every_measure_ends_within_the_band(
    brokers: int, partitions: int, replicas: int, racks: int, kind: str, seed: int
) -> None:
    shape = Shape(brokers, partitions, kind, replicas=replicas, racks=racks, seed=seed)
    suggestion = suggest_plan(*skewed(shape), PlanRequest())
    assert is_reached(suggestion, PlanRequest()), suggestion.notes


@pytest.mark.parametrize("seed", range(1, 11))
def test_leaders_only_plan_evens_leaders_where_some_choice_of_leaders_is_even(seed: int) -> None:
    """The replicas are those of an even plan, and all are led by the lowest of their brokers."""
    state, load = skewed(Shape(6, 150, "skew", seed=seed))
    even = suggest_plan(state, load, PlanRequest())
    assert is_reached(even, PlanRequest())
    held = [sorted(even.plan.target(state, state.tp(row))) for row in range(state.partition_count)]
    replicas = np.array(held, np.int32)
    led = replace(state, replica_broker=replicas.ravel(), leader=replicas[:, 0].copy())
    wanted = PlanRequest(leaders_only=True)
    suggestion = suggest_plan(led, load, wanted)
    assert is_reached(suggestion, wanted)
    assert not suggestion.moves


@pytest.mark.parametrize("ahead", [(3, 6), (0, 1), (2, 5, 7)])
def test_planner_finds_a_balance_that_only_an_exchange_of_several_replicas_reaches(
    ahead: Sequence[int],
) -> None:
    """Of equal rates and unequal sizes half of either kind belongs on each of two brokers."""
    empty = {f"empty-{n}": [1 + n % 2, 2 - n % 2] for n in range(4)}
    held = {f"t-{n}": [2] for n in range(8)} | empty
    sizes = dict.fromkeys(empty, 0)
    sizes |= {f"t-{n}": (45 if n in ahead else 15) * MB for n in range(8)}
    state = cluster(held, brokers=(1, 2), size_bytes=sizes)
    load = load_of(state, {name: 1e6 * name.startswith("t-") for name in held})
    load = replace(load, out_bytes_per_s=np.zeros(state.partition_count))
    suggestion = suggest_plan(state, load, PlanRequest())
    assert {move.tp.topic for move in suggestion.plan} == {"t"}
    even = evenness(state, load, suggestion.plan)
    best = 0.0 if len(ahead) == 2 else 1 / 7  # of 14 parts 6 and 8
    assert even.off(even.after).max() <= best + 1e-6
