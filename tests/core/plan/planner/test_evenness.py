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
def test_a_suggested_plan_is_told_as_the_planner_tells_it(plan_request: PlanRequest) -> None:
    state, load = skewed(Shape(12, 500, "skew", seed=2))
    suggestion = suggest_plan(state, load, plan_request)

    even = evenness(state, load, suggestion.plan, leaving=plan_request.drain)

    columns = list(SHOWN)
    assert even.brokers == suggestion.brokers
    np.testing.assert_allclose(even.before[:, columns], suggestion.before[:, columns])
    np.testing.assert_allclose(even.after[:, columns], suggestion.after[:, columns], atol=1e-9)


def test_a_plan_by_hand_changes_what_it_touches_and_a_dropped_move_changes_it_back() -> None:
    state = cluster({"t-0": [1, 2], "t-1": [1, 2], "t-2": [1, 3]}, brokers=[1, 2, 3], size_bytes=MB)
    load = load_of(state, 1e6)
    plan = Plan().with_move(state, tp("t-0"), 1, 3)

    even = evenness(state, load, plan)
    assert even.before[:, Measure.REPLICAS].tolist() == [1.5, 1.0, 0.5]
    assert even.after[:, Measure.REPLICAS].tolist() == [1.0, 1.0, 1.0]
    assert even.furthest(even.before) == (0, Measure.LEADERS)

    dropped = evenness(state, load, plan.without(tp("t-0")))
    np.testing.assert_array_equal(dropped.after, dropped.before)


def test_what_the_plan_leaves_outside_the_band_comes_first() -> None:
    state, load = skewed(Shape(12, 500, "skew", seed=2))
    even = evenness(state, load, suggest_plan(state, load, PlanRequest(leaders_only=True)).plan)
    first = even.by_need()[0]
    assert not even.is_within(even.after)
    assert even.off(even.after)[first].max() == even.off(even.after).max()


def test_where_no_broker_counts_none_is_furthest_off() -> None:
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
def test_wishes_that_cannot_be_read_are_one_sentence(read: object, text: str) -> None:
    with pytest.raises(UsageError, match="not"):
        read(text, "--x")  # type: ignore[operator]


def test_shares_of_racks_are_those_of_the_replicas_that_there_are_in_the_end() -> None:
    racks = {1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    state = cluster({f"t-{n}": [1 + n % 5] for n in range(20)}, racks=racks, size_bytes=100 * MB)
    load = load_of(state, MB)
    for wanted in (PlanRequest(replicas=3), PlanRequest(replicas=3, limits=Limits(max_moves=9))):
        suggestion = suggest_plan(state, load, wanted)
        even = evenness(state, load, suggestion.plan)
        assert np.allclose(even.before, suggestion.before)
        assert np.allclose(even.after, suggestion.after)
