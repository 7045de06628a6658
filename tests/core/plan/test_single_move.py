"""One suggested move: it helps the broker it is for, and nothing speaks against it."""

from __future__ import annotations

import numpy as np
import pytest
from clusters import MB, cluster, load_of
from hypothesis import given, settings
from hypothesis import strategies as st

from core.cluster.state import ClusterState
from core.load.load import Load
from core.load.view.heat import Metric
from core.plan.checks.catalogue import Severity
from core.plan.checks.check_plan import check_plan
from core.plan.plan import Plan
from core.plan.single_move import plan_totals, suggest_move

RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}


def hot() -> tuple[ClusterState, Load]:
    """Broker 1 leads three of four partitions; 3 has nothing and is in the same rack."""
    state = cluster(
        {"t-0": [1, 2], "t-1": [1, 4], "t-2": [1, 2], "t-3": [2, 1]},
        brokers=[1, 2, 3, 4],
        racks=RACKS,
        size_bytes=10**9,
    )
    return state, load_of(state, {"t-0": 9 * MB, "t-1": 4 * MB, "t-2": 3 * MB, "t-3": 4 * MB})


def test_the_move_that_evens_out_most_is_suggested() -> None:
    state, load = hot()
    suggestion = suggest_move(state, load, Plan(), metric=Metric.IN, broker=1)
    assert suggestion is not None
    assert (str(suggestion.tp), suggestion.source, suggestion.destination) == ("t-0", 1, 3)
    assert (suggestion.before, suggestion.after) == (16 * MB, 7 * MB)
    assert suggestion.skew_before == pytest.approx(3.2)
    assert suggestion.bytes == 10**9


def test_a_broker_at_its_fair_share_gets_no_suggestion() -> None:
    state, load = hot()
    assert suggest_move(state, load, Plan(), metric=Metric.IN, broker=3) is None
    assert suggest_move(state, Load.unknown(state), Plan(), metric=Metric.IN, broker=1) is None
    assert suggest_move(state, load, Plan(), metric=Metric.IN, broker=99) is None


def test_suggestion_comes_only_from_the_requested_topic() -> None:
    state, load = hot()
    suggestion = suggest_move(state, load, Plan(), metric=Metric.IN, broker=1, topic="nope")
    assert suggestion is None


def test_suggestion_takes_moves_already_planned_into_account() -> None:
    state = cluster({f"t-{n}": [1, 2] for n in range(4)}, brokers=[1, 2, 3, 4])
    load = load_of(state, MB)
    first = suggest_move(state, load, Plan(), metric=Metric.IN, broker=1)
    assert first is not None
    second = suggest_move(state, load, first.plan, metric=Metric.IN, broker=1)
    assert second is not None
    assert second.before == first.after
    assert second.tp != first.tp
    assert second.destination != first.destination


def test_leaders_are_evened_without_moving_data() -> None:
    state, load = hot()
    suggestion = suggest_move(state, load, Plan(), metric=Metric.LEADERS, broker=1)
    assert suggestion is not None
    assert suggestion.only_leader
    assert suggestion.bytes == 0
    assert not any(move.moves_data for move in suggestion.plan)
    assert suggestion.after == suggestion.before - 1


def test_an_unsafe_move_is_not_suggested() -> None:
    state = cluster(
        {"t-0": [1, 2], "t-1": [1, 2]}, brokers=[1, 2, 4], racks=RACKS, size_bytes=10**9
    )
    # The only free broker shares the follower's rack.
    assert suggest_move(state, load_of(state, MB), Plan(), metric=Metric.IN, broker=1) is None


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.permutations([1, 2, 3, 4, 5]), st.floats(0, 50)), min_size=1, max_size=15
    ),
    st.sampled_from([Metric.IN, Metric.OUT, Metric.REPLICAS, Metric.LEADERS]),
    st.integers(1, 5),
)
def test_suggestion_relieves_its_broker_keeps_the_totals_and_is_never_unsafe(
    partitions: list[tuple[list[int], float]], metric: Metric, broker: int
) -> None:
    replicas = {f"t-{n}": order[:2] for n, (order, _) in enumerate(partitions)}
    state = cluster(replicas, brokers=[1, 2, 3, 4, 5], size_bytes=1000)
    load = load_of(state, {f"t-{n}": rate * MB for n, (_, rate) in enumerate(partitions)})
    suggestion = suggest_move(state, load, Plan(), metric=metric, broker=broker)
    if suggestion is None:
        return
    assert suggestion.after < suggestion.before
    assert suggestion.skew_after <= suggestion.skew_before + 1e-9
    then = plan_totals(state, load, suggestion.plan, metric)
    now = plan_totals(state, load, Plan(), metric)
    assert np.nansum(then) == pytest.approx(np.nansum(now))
    findings = check_plan(state, load, suggestion.plan)
    assert all(finding.severity < Severity.UNSAFE for finding in findings)
