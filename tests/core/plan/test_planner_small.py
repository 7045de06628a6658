"""Small clusters, whose partitions fit badly: what single moves cannot even out, swaps do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bench.skewed import Shape, skewed

from core.plan.planner.outcome import is_reached
from core.plan.planner.planner import suggest
from core.plan.planner.wanted import Wanted

SHAPES = [(6, 150, 3, 3), (8, 200, 2, 1), (9, 300, 3, 3), (12, 400, 3, 3)]


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("kind", ["new", "skew"])
@pytest.mark.parametrize(("brokers", "partitions", "replicas", "racks"), SHAPES)
def test_every_measure_ends_within_the_band(
    brokers: int, partitions: int, replicas: int, racks: int, kind: str, seed: int
) -> None:
    shape = Shape(brokers, partitions, kind, replicas=replicas, racks=racks, seed=seed)
    found = suggest(*skewed(shape), Wanted())
    assert is_reached(found, Wanted()), found.notes


@pytest.mark.parametrize("seed", range(1, 11))
def test_leaders_alone_get_even_where_some_choice_of_them_is(seed: int) -> None:
    """The replicas are those of an even plan, and all are led by the lowest of their brokers."""
    state, load = skewed(Shape(6, 150, "skew", seed=seed))
    even = suggest(state, load, Wanted())
    assert is_reached(even, Wanted())
    held = [sorted(even.plan.target(state, state.tp(row))) for row in range(state.partition_count)]
    replicas = np.array(held, np.int32)
    led = replace(state, replica_broker=replicas.ravel(), leader=replicas[:, 0].copy())
    wanted = Wanted(leaders_only=True)
    found = suggest(led, load, wanted)
    assert is_reached(found, wanted)
    assert not found.moves
