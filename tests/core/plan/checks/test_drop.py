"""What speaks against dropping a replica: for all brokers at once what the checks of a plan say."""

from __future__ import annotations

import pytest
from bench.skewed import Shape, skewed
from effort import effort

from core.plan.checks.catalogue import Severity
from core.plan.checks.check_plan import check_plan
from core.plan.checks.drop import check_drop, check_drops
from core.plan.plan import Plan


@pytest.mark.parametrize("planned", [0, 40])
def test_a_drop_is_judged_as_the_plan_with_it_would_be(planned: int) -> None:
    state, load = skewed(Shape(12, 200, "skew"))
    plan = Plan()
    for row in range(planned):
        tp, held = state.tp(row), state.replicas(row)
        away = next(b for b in state.broker_ids.tolist() if b not in held)
        plan = plan.with_move(state, tp, held[0], away)
    before = check_plan(state, load, plan)
    sources = {state.tp(row): plan.target(state, state.tp(row))[0] for row in (3, 50, 199)}
    found = check_drops(state, load, plan, sources)
    for tp, source in sources.items():
        for to in state.broker_ids.tolist():
            if to == source:
                continue
            said = found[tp].get(to)
            assert said == check_drop(state, load, plan, tp, source, to)
            if to in plan.target(state, tp):
                assert said is not None
                assert said.severity is Severity.ILLEGAL
                continue
            checked = check_plan(state, load, plan.with_move(state, tp, source, to))
            if said is not None:
                assert said.id in {one.id for one in checked}
            else:
                unsafe = {
                    f.id for f in checked if f.severity > Severity.UNWISE and tp in f.partitions
                }
                assert unsafe <= {f.id for f in before if tp in f.partitions}


def test_replicas_are_lifted_off_a_large_cluster_at_once() -> None:
    state, load = skewed(Shape(60, 20_000, "skew"))
    sources = {state.tp(row): state.replicas(row)[0] for row in range(0, 20_000, 5_000)}
    # Once for each of 60 brokers and 4 replicas it would be some 50.
    assert effort(lambda: check_drops(state, load, Plan(), sources)) < 8
