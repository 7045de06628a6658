"""A cluster that is another one by the time: topics grow, Cruise Control is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_help import MB, Faulty, Run, Start, cluster, plan_of, submitted, throttles

from core.cluster.balancers import BALANCER_TOPICS
from core.cluster.metadata import PartitionRow, TopicPartition
from core.cluster.state import ClusterState
from core.run.journal.move_state import Outcome, Phase

TARGETS = {("t", 0): (3, 2), ("t", 1): (2, 3), ("u", 0): (1, 4)}


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


def begun(start: Start, **options: Any) -> tuple[Run, Faulty]:
    client = cluster({"t": [(1, 2), (2, 1)], "u": [(1, 2)]})
    faulty = Faulty(client)
    return start(client, plan_of(client, TARGETS), through=faulty, **options), faulty


@pytest.mark.parametrize("batch_size", [1, 200], ids=["between batches", "in flight"])
@pytest.mark.parametrize("dies", [False, True], ids=["", "dying then"])
def test_a_topic_that_gets_more_partitions_is_moved_as_planned(
    start: Start, batch_size: int, dies: bool
) -> None:
    run, faulty = begun(start, batch_size=batch_size)
    before = throttles(run.client)
    run.until(submitted)
    new = [PartitionRow("t", p, 1, (1, 2), (1, 2)) for p in (2, 3)]
    faulty.replaced["describe_cluster"] = with_more(*new)
    if dies:
        run.again()
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {f"{t}-{p}": after for (t, p), after in TARGETS.items()}
    assert throttles(run.client) == before


def test_a_partition_that_was_added_and_is_moved_by_somebody_else_holds_nothing_up(
    start: Start,
) -> None:
    run, faulty = begun(start)
    run.until(submitted)
    faulty.replaced["describe_cluster"] = with_more(PartitionRow("t", 2, 5, (5, 6), (5, 6)))
    assert run.to_the_end() is Outcome.DONE


@pytest.mark.parametrize("topic", [*BALANCER_TOPICS, None])
def test_who_may_have_cancelled_a_move_is_said(start: Start, topic: str | None) -> None:
    run, faulty = begun(start, batch_size=1)
    before = throttles(run.client)
    run.until(submitted)
    if topic is not None:  # it was not when the plan was checked
        metrics = PartitionRow(topic, 0, 1, (1,), (1,))
        faulty.replaced["describe_cluster"] = with_more(metrics)
    run.client.cancel_reassignments([TopicPartition("t", 0)])
    assert run.to_the_end() is Outcome.FAILED
    assert "by somebody else" in run.view().why
    said = f"{BALANCER_TOPICS.get(topic or '')} reports to this cluster"
    assert (said in run.view().why) is (topic is not None)
    assert throttles(run.client) == before


def test_a_move_that_cruise_control_begins_on_a_queued_partition_is_waited_for(
    start: Start,
) -> None:
    client = cluster({"t": [(1, 2), (2, 1)], "u": [(1, 2)]}, size_bytes=40 * MB)
    faulty = Faulty(client)
    run = start(client, plan_of(client, TARGETS), through=faulty, batch_size=1)
    run.until(submitted)
    faulty.replaced["describe_cluster"] = with_more(
        PartitionRow("__CruiseControlMetrics", 0, 1, (1,), (1,))
    )
    client.alter_reassignments({TopicPartition("u", 0): (6, 2)})
    run.to_the_end()
    phases = {str(m.move.tp): m.phase for m in run.runner.state.moves}
    assert phases == {"t-0": Phase.DONE, "t-1": Phase.DONE, "u-0": Phase.FAILED}
    assert run.replicas()["u-0"] == (6, 2)
