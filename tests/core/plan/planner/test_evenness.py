"""Six measures of every broker, before and after any plan, as the planner itself counts them."""

from __future__ import annotations

import numpy as np
import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of, tp

from core.errors import UsageError
from core.plan.plan import Plan
from core.plan.planner.evenness import evenness
from core.plan.planner.model.measures import SHOWN, Measure
from core.plan.planner.plan_request import Limits, PlanRequest, parse_broker_ids, parse_broker_pairs
from core.plan.planner.planner import suggest_plan


@pytest.mark.parametrize(
    "plan_request", [PlanRequest(), PlanRequest(leaders_only=True), PlanRequest(drain=(3,))]
)
def test_evenness_of_a_suggested_plan_equals_what_the_planner_reports(
    plan_request: PlanRequest,
) -> None:
    state, load = skewed(Shape(12, 500, "skew", seed=2))
    suggestion = suggest_plan(state, load, plan_request)

    even = evenness(state, load, suggestion.plan, leaving=plan_request.drain)

    columns = list(SHOWN)
    assert even.brokers == suggestion.brokers
    np.testing.assert_allclose(even.before[:, columns], suggestion.before[:, columns])
    np.testing.assert_allclose(even.after[:, columns], suggestion.after[:, columns], atol=1e-9)


def test_manual_move_changes_evenness_and_removing_the_move_restores_it() -> None:
    state = cluster({"t-0": [1, 2], "t-1": [1, 2], "t-2": [1, 3]}, brokers=[1, 2, 3], size_bytes=MB)
    load = load_of(state, 1e6)
    plan = Plan().with_move(state, tp("t-0"), 1, 3)

    even = evenness(state, load, plan)
    assert even.before[:, Measure.REPLICAS].tolist() == [1.5, 1.0, 0.5]
    assert even.after[:, Measure.REPLICAS].tolist() == [1.0, 1.0, 1.0]
    assert even.furthest(even.before) == (0, Measure.LEADERS)

    dropped = evenness(state, load, plan.without(tp("t-0")))
    np.testing.assert_array_equal(dropped.after, dropped.before)


def test_broker_furthest_outside_the_band_after_the_plan_comes_first() -> None:
    state, load = skewed(Shape(12, 500, "skew", seed=2))
    even = evenness(state, load, suggest_plan(state, load, PlanRequest(leaders_only=True)).plan)
    first = even.by_need()[0]
    assert not even.is_within(even.after)
    assert even.off(even.after)[first].max() == even.off(even.after).max()


def test_no_measure_is_furthest_off_where_every_broker_leaves_or_is_excluded() -> None:
    state = cluster({"t-0": [1, 2]}, size_bytes=MB)
    even = evenness(state, load_of(state, MB), Plan(), leaving=(2,), excluded=(1,))
    assert even.furthest(even.before) is None


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *((parse_broker_ids, text) for text in ("seven", "²", "1_0", "-3", "3,,4")),
        *((parse_broker_pairs, text) for text in ("3", "3:x", "3:-4")),
    ],
)
def test_unreadable_broker_ids_and_pairs_are_refused_in_one_sentence(
    read: object, text: str
) -> None:
    with pytest.raises(UsageError, match="not"):
        read(text, "--x")  # type: ignore[operator]


def test_rack_shares_are_computed_from_the_replicas_after_the_plan() -> None:
    racks = {1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    state = cluster({f"t-{n}": [1 + n % 5] for n in range(20)}, racks=racks, size_bytes=100 * MB)
    load = load_of(state, MB)
    for wanted in (PlanRequest(replicas=3), PlanRequest(replicas=3, limits=Limits(max_moves=9))):
        suggestion = suggest_plan(state, load, wanted)
        even = evenness(state, load, suggestion.plan)
        assert np.allclose(even.before, suggestion.before)
        assert np.allclose(even.after, suggestion.after)
