"""No broker is to carry more than it can once a plan is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from clusters import MB, cluster, load_of, tp

from core.cluster.state import ClusterState
from core.plan.checks.catalogue import Finding, Severity
from core.plan.checks.check_plan import check_plan
from core.plan.checks.drop import check_drop
from core.plan.effect import compute_effect
from core.plan.plan import Move, Plan

BEFORE = {"t-0": [0, 1], "t-1": [1, 2], "t-2": [3, 1]}
RATES = {"t-0": 5.0 * MB, "t-1": 3.0 * MB, "t-2": 1.0 * MB}


def with_capacity(into: float | None = None, out: float | None = None) -> ClusterState:
    return cluster(BEFORE, brokers=range(4), size_bytes=MB, can_take_in=into, can_send=out)


def found(
    state: ClusterState,
    targets: Mapping[str, Sequence[int]],
    rates: Mapping[str, float] = RATES,
) -> list[Finding]:
    plan = Plan.of(Move(tp(name), tuple(BEFORE[name]), tuple(t)) for name, t in targets.items())
    return [
        finding
        for finding in check_plan(state, load_of(state, rates), plan)
        if finding.id == "capacity"
    ]


def test_a_broker_that_gets_more_than_it_can_take_in_is_named() -> None:
    (only,) = found(with_capacity(into=7.0 * MB), {"t-0": [0, 2]})
    assert only.severity is Severity.UNSAFE
    assert only.sentence == "Broker 2 ends at 8.0 MB/s in; it can take in 7.0 MB/s."
    assert not found(with_capacity(into=8.0 * MB), {"t-0": [0, 2]})


def test_a_broker_that_gets_more_than_it_can_send_is_named() -> None:
    # Its consumers read what is produced, and each of its followers once more.
    (only,) = found(with_capacity(out=11.0 * MB), {"t-0": [3, 1]})
    assert only.sentence == "Broker 3 ends at 12 MB/s out; it can send 11 MB/s."
    assert not found(with_capacity(out=12.0 * MB), {"t-0": [3, 1]})


def test_every_overloaded_broker_and_side_is_reported() -> None:
    state = with_capacity(into=0.5 * MB, out=0.5 * MB)
    sentences = [finding.sentence for finding in found(state, {"t-0": [3, 2]})]
    assert [words.partition(";")[0] for words in sentences] == [
        "Broker 2 ends at 8.0 MB/s in",
        "Broker 3 ends at 6.0 MB/s in",
        "Broker 3 ends at 12 MB/s out",
    ]


@pytest.mark.parametrize(
    ("targets", "into", "rates"),
    [
        pytest.param({"t-2": [3, 0]}, 7.0 * MB, RATES, id="one that is over it gets less"),
        pytest.param({"t-0": [1, 0]}, 1.0 * MB, RATES, id="leaders change, and nothing is copied"),
        pytest.param({"t-0": [0, 2]}, None, RATES, id="no capacity is known"),
        pytest.param({"t-0": [0, 2]}, 1.0, {}, id="no load is known"),
        pytest.param({"t-0": [0, 2]}, 4.0 * MB, {"t-1": 3.0 * MB}, id="nor that of what moves"),
    ],
)
def test_capacity_is_reported_only_where_a_plan_is_known_to_worsen_it(
    targets: Mapping[str, Sequence[int]], into: float | None, rates: Mapping[str, float]
) -> None:
    assert not found(with_capacity(into=into), targets, rates)


def test_drop_that_exceeds_the_capacity_of_a_broker_is_reported() -> None:
    state = with_capacity(into=7.0 * MB)
    load, plan = load_of(state, RATES), Plan(state.cluster_id)
    worst = check_drop(state, load, plan, tp("t-0"), 1, 2)
    assert worst is not None
    assert worst.id == "capacity"
    easy = check_drop(state, load, plan, tp("t-2"), 1, 0)
    assert easy is None or easy.id != "capacity"


def test_follower_fetches_count_for_partitions_with_unknown_consumer_reads() -> None:
    state = with_capacity(out=6.0 * MB)
    load = load_of(state, RATES)
    load = replace(load, out_bytes_per_s=np.array([np.nan, 0.0, np.nan]))
    # Broker 3 sends 1 MB/s to the follower of t-2 as it is.
    for name, most in (("t-0", 6.0), ("t-1", 4.0)):
        plan = Plan.of([Move(tp(name), tuple(BEFORE[name]), (3, BEFORE[name][1]))])
        sent = compute_effect(state, load, plan)
        assert sent.after.out_bytes_per_s[3] == most * MB
        assert sent.before.out_bytes_per_s.tolist() == [5 * MB, 3 * MB, 0.0, MB]
        assert sent.after.out_bytes_per_s.sum() == 9 * MB
        (finding,) = check_plan(with_capacity(out=(most - 0.5) * MB), load, plan)[:1]
        assert finding.sentence.startswith(f"Broker 3 ends at {most:.1f} MB/s out")
