"""A plan on a cluster that has changed: what is kept, what is done, what is lost and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from clusters import MB, cluster, placed, tp
from hypothesis import given
from hypothesis import strategies as st
from plan_strategies import assignments, states

from core.cluster.access.hidden_topics import HiddenTopics
from core.cluster.metadata import LogDir, Topic
from core.cluster.state import ClusterState
from core.plan.checks.moves import check_base
from core.plan.plan import ANY, Move, Plan, current_target
from core.plan.rebase import RebasedPlan, rebase

BASE, TARGET = (1, 2, 3), (4, 2, 3)


def rebased(now: tuple[int, ...], target: tuple[int, ...] = TARGET, **more: Any) -> RebasedPlan:
    """Return what becomes of one move from 1,2,3 when its partition has `now` by now."""
    state = cluster({"t-0": now}, **{"brokers": range(1, 8), **more})
    return rebase(state, Plan.of([Move(tp("t-0"), BASE, target, "old")]))


@pytest.mark.parametrize(
    ("now", "target", "kept"),
    [
        # as it was
        ((1, 2, 3), TARGET, ((1, 2, 3), TARGET)),
        ((1, 2, 3), (2, 1, 3), ((1, 2, 3), (2, 1, 3))),
        # re-ordered by somebody: new brokers take the places of old ones
        ((2, 1, 3), TARGET, ((2, 1, 3), (2, 4, 3))),
        ((3, 2, 1), (4, 5, 3), ((3, 2, 1), (3, 5, 4))),
        # a part of it was done by somebody
        ((4, 2, 3), (4, 5, 3), ((4, 2, 3), (4, 5, 3))),
        ((1, 2, 3, 4), (1, 2, 3, 4, 5), ((1, 2, 3, 4), (1, 2, 3, 4, 5))),
        ((1, 2), (1,), ((1, 2), (1,))),
        ((2, 3, 4), TARGET, ((2, 3, 4), TARGET)),
    ],
)
def test_moves_that_still_apply_are_kept_on_the_new_base(
    now: tuple[int, ...], target: tuple[int, ...], kept: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    rebased_plan = rebased(now, target)
    assert [(move.before, move.after) for move in rebased_plan.plan] == [kept]
    assert (rebased_plan.done, rebased_plan.lost) == ((), ())
    assert rebased_plan.moved == (() if now == BASE else (tp("t-0"),))
    assert rebased_plan.changes is (now != BASE)


@pytest.mark.parametrize(
    ("now", "more"),
    [(TARGET, {}), ((4, 2, 3, 1), {"adding": {"t-0": [4]}, "removing": {"t-0": [1]}})],
)
def test_moves_done_or_in_flight_are_dropped_from_the_plan(now: tuple[int, ...], more: Any) -> None:
    rebased_plan = rebased(now, **more)
    assert (len(rebased_plan.plan), rebased_plan.done, rebased_plan.lost) == (0, (tp("t-0"),), ())
    assert rebased_plan.words == "1 done"


@pytest.mark.parametrize(
    ("now", "target", "more", "why"),
    [
        ((1, 2, 5), TARGET, {}, "has 1,2,5 by now, not 1,2,3"),
        ((5, 6, 7), TARGET, {}, "has 5,6,7 by now, not 1,2,3"),
        ((3, 1, 2), (2, 1, 3), {}, "was put in another order by somebody else: 3,1,2"),
        ((2, 1, 3), (1, 2, 3, 4), {}, "was put in another order by somebody else: 2,1,3"),
        (
            (5, 1, 2, 3),
            TARGET,
            {"adding": {"t-0": [5]}, "removing": {"t-0": [1]}},
            "is on its way to 5,2,3, as somebody else has asked",
        ),
        (BASE, TARGET, {"dead": [4]}, "would go to broker 4, which is down"),
        (
            BASE,
            TARGET,
            {"brokers": [1, 2, 3]},
            "would go to broker 4, which the cluster does not have any more",
        ),
        (
            BASE,
            TARGET,
            {"topics": [Topic("t", "new")]},
            "is another topic's by now: the one of the plan was deleted, and made anew",
        ),
    ],
)
def test_moves_that_no_longer_apply_are_lost_with_the_reason(
    now: tuple[int, ...], target: tuple[int, ...], more: Any, why: str
) -> None:
    rebased_plan = rebased(now, target, **more)
    assert (len(rebased_plan.plan), rebased_plan.done) == (0, ())
    assert [str(lost) for lost in rebased_plan.lost] == [f"t-0 {why}"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("t-9", "is not there any more"),
        ("u-0", "is not there any more: its topic has been deleted"),
    ],
)
def test_moves_of_missing_partitions_are_lost_and_other_moves_are_kept(name: str, why: str) -> None:
    state = cluster({"t-0": BASE}, brokers=range(1, 8))
    plan = Plan.of([Move(tp("t-0"), BASE, TARGET), Move(tp(name), BASE, TARGET)])
    rebased_plan = rebase(state, plan)
    assert [move.tp for move in rebased_plan.plan] == [tp("t-0")]
    assert [(lost.tp, lost.why) for lost in rebased_plan.lost] == [(tp(name), why)]
    assert rebased_plan.words == "1 kept, 1 lost"


def test_topic_that_may_be_hidden_is_not_reported_as_deleted() -> None:
    state = replace(cluster({"t-0": BASE}, brokers=range(1, 8)), hidden=HiddenTopics(topics=1))
    (lost,) = rebase(state, Plan.of([Move(tp("u-0"), BASE, TARGET)])).lost
    assert "this user may not describe it" in lost.why


def test_target_log_dirs_stay_with_their_brokers_in_the_rebased_move() -> None:
    move = Move(tp("t-0"), BASE, (4, 5, 3), log_dirs=("/a", "/b", "any"))
    state = cluster({"t-0": (3, 2, 1)}, brokers=range(1, 8))
    (kept,) = rebase(state, Plan.of([move])).plan
    assert (kept.after, kept.log_dirs) == ((3, 5, 4), ("any", "/b", "/a"))
    state = cluster({"t-0": (4, 2, 3)}, brokers=range(1, 8))
    (kept,) = rebase(state, Plan.of([move])).plan
    assert (kept.after, kept.log_dirs) == ((4, 5, 3), ("any", "/b", "any"))


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/b", "would go to log dir /b of broker 4, which is offline"),
        ("/c", "would go to log dir /c of broker 4, which it does not have"),
        ("/a", None),
    ],
)
def test_move_into_an_offline_or_missing_log_dir_is_lost(path: str, why: str | None) -> None:
    dirs = (LogDir("/a", 10**12, 10**12), LogDir("/b", error="offline"))
    state = cluster({"t-0": BASE}, brokers=range(1, 8), log_dirs=dirs)
    move = Move(tp("t-0"), BASE, TARGET, log_dirs=(path, "any", "any"))
    rebased_plan = rebase(state, Plan.of([move]))
    assert [lost.why for lost in rebased_plan.lost] == ([why] if why else [])
    assert len(rebased_plan.plan) == (0 if why else 1)


def test_replica_found_in_a_different_log_dir_is_rebased_from_there() -> None:
    dirs = tuple(LogDir(path, 10**12, 10**12) for path in ("/data", "/b"))
    state = cluster({"t-0": BASE}, size_bytes=MB, log_dirs=dirs)  # in /data on each
    to, since = ("/b", ANY, ANY), ("/a", ANY, ANY)
    plan = Plan.of([Move(tp("t-0"), BASE, BASE, log_dirs=to, log_dirs_before=since)])
    assert [finding.id for finding in check_base(state, plan)] == ["stale"]
    rebased_plan = rebase(state, plan)
    assert [move.log_dirs_before for move in rebased_plan.plan] == [("/data", ANY, ANY)]
    assert rebased_plan.moved == (tp("t-0"),)
    assert not check_base(state, rebased_plan.plan)


# -- laws ------------------------------------------------------------------------------------------


@st.composite
def _planned(draw: st.DrawFn) -> tuple[ClusterState, Plan]:
    state = draw(states)
    plan = Plan(state.cluster_id, notes=("why",))
    for _ in range(draw(st.integers(1, 6))):
        partition = state.tp(draw(st.integers(0, state.partition_count - 1)))
        plan = plan.with_target(state, partition, draw(assignments))
    return state, plan


def _after(state: ClusterState, plan: Plan) -> ClusterState:
    """Return the cluster once a plan is done."""
    return cluster(placed(state, plan), brokers=state.broker_ids.tolist())


@given(_planned())
def test_rebase_onto_an_unchanged_cluster_returns_the_plan_itself(
    planned: tuple[ClusterState, Plan],
) -> None:
    state, plan = planned
    assert rebase(state, plan) == RebasedPlan(plan)


@given(_planned())
def test_rebase_of_a_finished_plan_leaves_no_moves(planned: tuple[ClusterState, Plan]) -> None:
    state, plan = planned
    rebased_plan = rebase(_after(state, plan), plan)
    assert not rebased_plan.plan.moves
    assert rebased_plan.done == tuple(move.tp for move in plan)
    assert rebased_plan.lost == ()


@given(_planned(), st.data())
def test_every_move_is_kept_done_or_lost_and_kept_moves_start_from_the_cluster(
    planned: tuple[ClusterState, Plan], data: st.DataObject
) -> None:
    state, plan = planned
    others = Plan()
    for _ in range(data.draw(st.integers(0, 6))):
        partition = state.tp(data.draw(st.integers(0, state.partition_count - 1)))
        others = others.with_target(state, partition, data.draw(assignments))
    now = _after(state, others)
    result = rebase(now, plan)
    fates = [*(move.tp for move in result.plan), *result.done, *(lost.tp for lost in result.lost)]
    assert sorted(fates) == [move.tp for move in plan]
    for move in result.plan:
        assert move.before == current_target(now, move.tp) != move.after
        assert len(set(move.after)) == len(move.after)
        assert set(move.adding) <= set(plan.by_partition[move.tp].after)
    assert rebase(now, result.plan) == RebasedPlan(result.plan)


def test_pending_log_dir_change_is_kept_and_a_finished_one_counts_as_done():
    state = cluster({"t-0": [1, 2]}, size_bytes=1)  # everything is in /data
    due = Move(tp("t-0"), (1, 2), (1, 2), None, ("/d2", ANY), ("/data", ANY))
    has = Move(tp("t-0"), (1, 2), (1, 2), None, ("/data", ANY), ("/d2", ANY))
    assert rebase(state, Plan.of([due])).plan.moves == (due,)
    assert rebase(state, Plan.of([has])).done == (tp("t-0"),)
    (turned,) = rebase(cluster({"t-0": [2, 1]}, size_bytes=1), Plan.of([due])).plan
    assert (turned.after, turned.dir_moves, turned.base_log_dirs) == (
        (2, 1),
        {1: "/d2"},
        {1: "/data"},
    )
