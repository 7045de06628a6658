"""Moves that others make, cancel or override while a run goes: waited for, and left to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_help import (
    MB,
    TWO,
    Run,
    Start,
    cluster,
    set_config,
    spend,
    submitted,
    throttles,
)

from core.cluster.balancers import BALANCER_TOPICS
from core.cluster.configs import FOLLOWER_LIST, FOLLOWER_RATE, Resource
from core.cluster.metadata import PartitionRow, TopicPartition
from core.cluster.state import ClusterState
from core.plan.plan import current_target
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.replay import fold
from core.run.reporting.views import MoveStatus, RunStatus
from core.run.steps import NoteEnded, Poll, Submit

T = Resource.topic("t")


def test_a_move_that_somebody_else_cancels_stops_the_run(start: Start) -> None:
    run = start(cluster({"t": [(1, 2)] * 3}), {("t", p): (1, 3) for p in range(3)}, batch_size=2)
    run.until(lambda step: isinstance(step, Poll))
    run.client.cancel_reassignments([TopicPartition("t", 0)])
    run.restores(Outcome.INCOMPLETE)
    assert [m.state for m in run.view().moves] == [
        MoveStatus.FAILED,
        MoveStatus.DONE,
        MoveStatus.CANCELLED,
    ]
    assert "t-0 was cancelled by somebody else" in run.view().why


def test_a_move_that_somebody_else_overrides_is_left_to_them(start: Start) -> None:
    run = start(cluster({"t": [(1, 2)]}), {("t", 0): (1, 3)})
    run.until(lambda step: isinstance(step, Poll))
    run.client.alter_reassignments({TopicPartition("t", 0): (1, 5)})
    run.until(lambda step: isinstance(step, NoteEnded))
    assert run.state.moves[0].phase is Phase.FAILED
    assert "changed by somebody else" in run.state.moves[0].why
    run.to_the_end()
    assert current_target(run.client.describe_cluster(), TopicPartition("t", 0)) == (1, 5)


def test_allowed_foreign_move_is_waited_for_and_holds_up_no_other_move(start: Start) -> None:
    sizes = {TopicPartition("t", 0): 900 * MB, TopicPartition("t", 1): 5 * MB}
    client = cluster({"t": TWO["t"]}, size_bytes=sizes)
    set_config(client, Resource.broker(5), FOLLOWER_RATE, "20000000")
    set_config(client, T, FOLLOWER_LIST, "0:5")
    client.alter_reassignments({TopicPartition("t", 0): (5, 2)})
    run = start(
        client,
        {("t", 0): (4, 2), ("t", 1): (2, 3)},
        allow=frozenset({"foreign-move"}),
        rate=50 * MB,
    )
    run.until(lambda step: isinstance(step, Poll) and "by somebody else" in step.waiting)
    assert [m.state for m in run.view().moves] == [MoveStatus.QUEUED, MoveStatus.DONE]
    lists = throttles(client)[T]
    assert lists[FOLLOWER_LIST].value == "0:5"
    assert run.view().state is RunStatus.WAITING
    run.restores(Outcome.DONE)
    assert run.replicas() == {"t-0": (4, 2), "t-1": (2, 3)}
    assert fold(run.journal.records()) == run.state


@pytest.mark.parametrize("ends", ["cancelled", "elsewhere"])
def test_foreign_move_begun_during_the_run_is_waited_for_and_never_overridden(
    start: Start, ends: str
) -> None:
    run = start(
        cluster({"t": [(1, 2), (1, 2)]}), {("t", p): (1, 3) for p in range(2)}, batch_size=1
    )
    run.until(lambda step: isinstance(step, Submit))
    theirs = TopicPartition("t", 1)
    run.client.stop_broker(6)
    run.client.alter_reassignments({theirs: (1, 6)})
    run.until(lambda step: isinstance(step, Poll) and "by somebody else" in step.waiting)
    since = run.client.elapsed_seconds
    run.until(lambda _: run.client.elapsed_seconds > since + 60)
    assert run.client.fetch_reassignments()[theirs].target == (1, 6)
    if ends == "cancelled":
        run.client.cancel_reassignments([theirs])
        assert run.to_the_end() is Outcome.DONE
        return
    run.client.start_broker(6)
    assert run.to_the_end() is Outcome.INCOMPLETE
    assert run.view().moves[1].why == "has other replicas than planned from"
    assert run.replicas()["t-1"] == (1, 6)


def test_endless_foreign_move_does_not_hold_up_a_partition_whose_foreign_move_ended(
    start: Start,
) -> None:
    run = start(count=3, size_bytes=50 * MB, rate=5 * MB, batch_size=1, allow=("foreign-move",))
    run.until(lambda step: isinstance(step, Submit))
    stuck, free = TopicPartition("t", 1), TopicPartition("t", 2)
    for broker, tp in ((6, stuck), (5, free)):
        run.client.stop_broker(broker)
        run.client.alter_reassignments({tp: (broker, 2)})
    spend(run, 60)
    run.client.cancel_reassignments([free])
    run.client.alter_reassignments({free: (1, 2)})
    spend(run, 120)
    assert run.replicas()["t-2"] == (3, 2)
    assert "t-1 is being moved by somebody else" in run.state.waiting


OTHER_TARGETS = {("t", 0): (3, 2), ("t", 1): (2, 3), ("u", 0): (1, 4)}


def with_more(*more: PartitionRow) -> Callable[..., ClusterState]:
    """Return what shows a cluster with these partitions, too."""

    def describe(real: Callable[[], ClusterState]) -> ClusterState:
        state = real()
        rows = [state.row(index) for index in range(state.partition_count)]
        return ClusterState.build(
            cluster_id=state.cluster_id,
            fetched_at=state.fetched_at,
            brokers=state.brokers,
            topics=state.topics,
            partitions=[*rows, *more],
            controller=state.controller,
        )

    return describe


def begun(start: Start, **options: Any) -> Run:
    return start(cluster({"t": [(1, 2), (2, 1)], "u": [(1, 2)]}), OTHER_TARGETS, **options)


@pytest.mark.parametrize("batch_size", [1, 200], ids=["between batches", "in flight"])
@pytest.mark.parametrize("dies", [False, True], ids=["", "dying then"])
def test_a_topic_that_gets_more_partitions_is_moved_as_planned(
    start: Start, batch_size: int, dies: bool
) -> None:
    run = begun(start, batch_size=batch_size)
    run.until(submitted)
    new = [PartitionRow("t", p, 1, (1, 2), (1, 2)) for p in (2, 3)]
    run.faulty.replaced["describe_cluster"] = with_more(*new)
    if dies:
        run.restart_process()
    run.restores(Outcome.DONE)
    assert run.replicas() == {f"{t}-{p}": after for (t, p), after in OTHER_TARGETS.items()}


def test_added_partition_that_somebody_else_moves_does_not_hold_up_the_run(
    start: Start,
) -> None:
    run = begun(start)
    run.until(submitted)
    run.faulty.replaced["describe_cluster"] = with_more(PartitionRow("t", 2, 5, (5, 6), (5, 6)))
    assert run.to_the_end() is Outcome.DONE


@pytest.mark.parametrize("topic", [*BALANCER_TOPICS, None])
def test_balancer_that_may_have_cancelled_a_move_is_named(start: Start, topic: str | None) -> None:
    run = begun(start, batch_size=1)
    run.until(submitted)
    if topic is not None:  # it was not when the plan was checked
        metrics = PartitionRow(topic, 0, 1, (1,), (1,))
        run.faulty.replaced["describe_cluster"] = with_more(metrics)
    run.client.cancel_reassignments([TopicPartition("t", 0)])
    run.restores(Outcome.FAILED)
    assert "by somebody else" in run.view().why
    sentence = f"{BALANCER_TOPICS.get(topic or '')} reports to this cluster"
    assert (sentence in run.view().why) is (topic is not None)


def test_cruise_control_move_of_a_queued_partition_is_left_and_fails_only_that_move(
    start: Start,
) -> None:
    run = start(
        cluster({"t": [(1, 2), (2, 1)], "u": [(1, 2)]}, size_bytes=40 * MB),
        OTHER_TARGETS,
        batch_size=1,
    )
    run.until(submitted)
    run.faulty.replaced["describe_cluster"] = with_more(
        PartitionRow("__CruiseControlMetrics", 0, 1, (1,), (1,))
    )
    run.client.alter_reassignments({TopicPartition("u", 0): (6, 2)})
    run.to_the_end()
    phases = {str(m.move.tp): m.phase for m in run.state.moves}
    assert phases == {"t-0": Phase.DONE, "t-1": Phase.DONE, "u-0": Phase.FAILED}
    assert run.replicas()["u-0"] == (6, 2)
