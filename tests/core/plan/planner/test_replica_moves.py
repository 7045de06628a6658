"""Many replicas moved at once are what they are moved one by one, and no look misses what helps."""

from __future__ import annotations

import numpy as np
import pytest
from bench.skewed import Shape, skewed
from clusters import MB, cluster, load_of, tp

from core.plan.checks.check_plan import check_plan
from core.plan.plan import Move, Plan
from core.plan.planner import planner
from core.plan.planner.model.measures import NOBODY, REPLICA_MEASURES, Measure
from core.plan.planner.model.placement import Placement
from core.plan.planner.model.problem import build_problem
from core.plan.planner.model.racks import barred
from core.plan.planner.plan_request import Limits, PlanRequest
from core.plan.planner.planner import suggest_plan
from core.plan.planner.search import replica_moves
from core.plan.planner.search.leader_changes import balance_leaders
from core.plan.planner.search.replica_moves import ReplicaMoves


def placement(shape: Shape) -> Placement:
    state, load = skewed(shape)
    return Placement(build_problem(state, load))


def test_moving_replicas_together_gives_the_same_placement_as_one_by_one() -> None:
    together, one_by_one = (placement(Shape(6, 300, "skew")) for _ in range(2))
    rows = np.sort(together.held(0))[:20]
    to = np.array([3 if n % 2 else 4 for n in range(len(rows))])
    to[(together.at[rows] == to[:, None]).any(axis=1)] = 5
    fine = ~(together.at[rows] == to[:, None]).any(axis=1)
    rows, to = rows[fine], to[fine]

    together.move_all(rows, 0, to)
    for partition, broker in zip(rows.tolist(), to.tolist(), strict=True):
        one_by_one.move(partition, 0, broker)

    assert len(rows) > 5
    assert (together.at == one_by_one.at).all()
    assert (together.may_lead == one_by_one.may_lead).all()
    np.testing.assert_allclose(together.loads, one_by_one.loads)
    assert (together.part_in == one_by_one.part_in).all()
    assert together.moved == one_by_one.moved
    assert together.moved_bytes == pytest.approx(one_by_one.moved_bytes)
    for broker in range(6):
        assert {*together.held(broker)} == {*one_by_one.held(broker)}


def test_placement_loads_after_a_pass_equal_a_recount_of_its_replicas() -> None:
    on = placement(Shape(12, 2_000, "skew"))
    assert ReplicaMoves(on, REPLICA_MEASURES, Limits()).carry_out() == on.moved > 0
    carried = on.loads.copy()
    on.recount()
    np.testing.assert_allclose(carried, on.loads, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_move_to_a_broker_with_a_replica_no_rack_or_a_too_full_rack_is_barred(seed: int) -> None:
    random = np.random.default_rng(seed)
    racks = np.array([0, 0, 0, 1, 1, 2, 2, NOBODY], np.int32)
    rows = [[0, *(1 + random.permutation(7))[:2].tolist()] for _ in range(50)]
    to = np.arange(1, 8)

    is_barred = barred(np.array(rows, np.int32), 0, to, racks)

    for row, at in enumerate(rows):
        others = [racks[broker] for broker in at[1:]]
        for column, broker in enumerate(to.tolist()):
            fuller = others.count(racks[broker]) >= 1 + others.count(0)
            assert is_barred[row, column] == (broker in at or racks[broker] == NOBODY or fuller)


@pytest.mark.parametrize("seed", range(3))
def test_move_from_a_broker_without_a_rack_is_barred_where_checks_would_refuse_it(
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    racks = dict(zip(range(1, 9), "aaabbcc", strict=False))
    rows = [[0, *random.permutation(range(1, 8))[: random.integers(4)].tolist()] for _ in range(9)]
    held = {f"t-{n}": row for n, row in enumerate(rows)}
    state = cluster(held, brokers=range(9), racks=racks, size_bytes=MB)
    given = build_problem(state, load := load_of(state))
    to = np.arange(1, 9)

    is_barred = barred(given.replicas, 0, to, given.racks)

    for n, row in enumerate(rows):
        for column, broker in enumerate(to.tolist()):
            move = Move(tp(f"t-{n}"), tuple(row), (broker, *row[1:]))
            ids = {finding.id for finding in check_plan(state, load, Plan.of([move]))}
            assert is_barred[n, column] == (
                not ids.isdisjoint({"same-broker-twice", "rack-spread"})
            )


def test_brokers_with_more_replicas_than_are_compared_at_once_end_as_even(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state, load = skewed(Shape(12, 2_000, "new"))
    whole = suggest_plan(state, load, PlanRequest())
    monkeypatch.setattr(replica_moves, "MAX_COMPARED", 100)
    parts = suggest_plan(state, load, PlanRequest())
    assert parts.within(0.10)
    assert parts.bytes <= 1.03 * whole.bytes


def test_leaders_are_balanced_only_after_copies_where_copies_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who leads changes nothing of how full disks are; looking takes long in large clusters."""
    after: list[bool] = []

    def counted(on: Placement, *rest: object) -> int:
        after.append(bool(on.moved))
        return balance_leaders(on, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(planner, "balance_leaders", counted)
    state, load = skewed(Shape(12, 2_000, "new"))
    assert suggest_plan(state, load, PlanRequest()).within(0.10)
    assert after
    assert all(after)


@pytest.mark.parametrize("brokers", [(1, 2), (2, 1)], ids=["from-the-last", "from-the-first"])
def test_two_replicas_are_swapped_where_any_single_move_is_too_much(
    brokers: tuple[int, int],
) -> None:
    less, more = brokers
    megabytes = {"t-0": (less, 4), "t-1": (less, 3), "t-2": (more, 6), "t-3": (more, 5)}
    state = cluster(
        {name: [broker] for name, (broker, _) in megabytes.items()},
        brokers=[1, 2],
        size_bytes={name: size * MB for name, (_, size) in megabytes.items()},
    )
    suggestion = suggest_plan(state, load_of(state, MB), PlanRequest(band=0.05))
    assert {tuple(move.after) for move in suggestion.plan.moves} == {(1,), (2,)}
    np.testing.assert_allclose(suggestion.after[:, Measure.DISK], [1.0, 1.0])
