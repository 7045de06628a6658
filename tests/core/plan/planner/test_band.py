"""Where a plan aims: a little inside the band, where all get there; what is inside is left."""

from __future__ import annotations

import numpy as np
import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of

from core.cluster.state import ClusterState
from core.load.load import Load
from core.plan.planner.plan_request import Limits, PlanRequest
from core.plan.planner.plan_result import PlanResult
from core.plan.planner.planner import suggest_plan


def furthest(found: PlanResult) -> float:
    return float(np.abs(found.after[found.counts][:, found.active] - 1).max())


def two(on_first: int, on_second: int) -> tuple[ClusterState, Load]:
    """Return partitions alike on two brokers."""
    held = {f"t-{n}": [1 if n < on_first else 2] for n in range(on_first + on_second)}
    state = cluster(held, brokers=(1, 2), size_bytes=MB)
    return state, load_of(state, 1e6)


@pytest.mark.parametrize("band", [0.05, 0.10, 0.20])
@pytest.mark.parametrize("kind", ["new", "skew"])
def test_nobody_ends_on_the_very_edge_of_the_band(kind: str, band: float) -> None:
    """The next change of load would take it out again."""
    found = suggest_plan(*skewed(Shape(12, 2_000, kind)), PlanRequest(band=band))
    assert 0.5 * band < furthest(found) <= 0.9 * band


def test_leaders_alone_aim_inside_too() -> None:
    state = cluster({f"t-{n}": [1, 2] if n < 70 else [2, 1] for n in range(100)}, size_bytes=MB)
    found = suggest_plan(state, load_of(state, 1e6), PlanRequest())
    assert (found.moves, found.leader_moves) == (0, 16)  # to 54, not to 55


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
def test_as_much_is_copied_as_that_needs(first: int, second: int, copied: int) -> None:
    found = suggest_plan(*two(first, second), PlanRequest())
    assert found.moves == copied
    assert found.within(0.10)


def test_a_limit_that_suffices_for_the_edge_suffices() -> None:
    found = suggest_plan(*two(70, 30), PlanRequest(limits=Limits(max_bytes=15 * MB)))
    assert found.bytes == 15 * MB
    assert found.within(0.10)
    assert not any("--max-bytes" in note for note in found.notes)
