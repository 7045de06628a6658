"""Small clusters, whose partitions fit badly: what single moves cannot even out, swaps do.

Where these do not either, several changes at once may; and nothing moves that helps nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of

from core.plan.planner.evenness import evenness
from core.plan.planner.plan_request import PlanRequest
from core.plan.planner.plan_result import is_reached
from core.plan.planner.planner import suggest_plan

SHAPES = [(6, 150, 3, 3), (8, 200, 2, 1), (9, 300, 3, 3), (12, 400, 3, 3)]


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("kind", ["new", "skew"])
@pytest.mark.parametrize(("brokers", "partitions", "replicas", "racks"), SHAPES)
def test_every_measure_ends_within_the_band(
    brokers: int, partitions: int, replicas: int, racks: int, kind: str, seed: int
) -> None:
    shape = Shape(brokers, partitions, kind, replicas=replicas, racks=racks, seed=seed)
    found = suggest_plan(*skewed(shape), PlanRequest())
    assert is_reached(found, PlanRequest()), found.notes


@pytest.mark.parametrize("seed", range(1, 11))
def test_leaders_alone_get_even_where_some_choice_of_them_is(seed: int) -> None:
    """The replicas are those of an even plan, and all are led by the lowest of their brokers."""
    state, load = skewed(Shape(6, 150, "skew", seed=seed))
    even = suggest_plan(state, load, PlanRequest())
    assert is_reached(even, PlanRequest())
    held = [sorted(even.plan.target(state, state.tp(row))) for row in range(state.partition_count)]
    replicas = np.array(held, np.int32)
    led = replace(state, replica_broker=replicas.ravel(), leader=replicas[:, 0].copy())
    wanted = PlanRequest(leaders_only=True)
    found = suggest_plan(led, load, wanted)
    assert is_reached(found, wanted)
    assert not found.moves


@pytest.mark.parametrize("ahead", [(3, 6), (0, 1), (2, 5, 7)])
def test_a_planner_finds_what_only_an_exchange_of_several_leads_to(ahead: Sequence[int]) -> None:
    """Of equal rates and unequal sizes half of either kind belongs on each of two brokers."""
    empty = {f"empty-{n}": [1 + n % 2, 2 - n % 2] for n in range(4)}
    held = {f"t-{n}": [2] for n in range(8)} | empty
    sizes = dict.fromkeys(empty, 0)
    sizes |= {f"t-{n}": (45 if n in ahead else 15) * MB for n in range(8)}
    state = cluster(held, brokers=(1, 2), size_bytes=sizes)
    load = load_of(state, {name: 1e6 * name.startswith("t-") for name in held})
    load = replace(load, out_bytes_per_s=np.zeros(state.partition_count))
    found = suggest_plan(state, load, PlanRequest())
    assert {move.tp.topic for move in found.plan} == {"t"}
    even = evenness(state, load, found.plan)
    best = 0.0 if len(ahead) == 2 else 1 / 7  # of 14 parts 6 and 8
    assert even.off(even.after).max() <= best + 1e-6
