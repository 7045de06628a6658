"""A cancel whose answer is lost, or of which brokers tell late: partitions end as they were."""

from __future__ import annotations

from typing import Any

from run_help import MB, Faulty, Run, Start, cluster, plan_of, spend, submitted

from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.run.journal.move_state import Outcome
from core.run.journal.records import Kind
from core.run.steps import Cancel

TP = TopicPartition("t", 0)


def overridden(start: Start) -> tuple[Run, Faulty]:
    """Return a run whose move somebody has overridden twice, so that only a cancel ends it."""
    client = cluster({"t": [(1, 2)]}, size_bytes=600 * MB)
    through = Faulty(client)
    run = start(client, plan_of(client, {("t", 0): (3, 2)}), through=through)
    run.until(submitted)
    spend(run, 3)
    client.alter_reassignments({TP: (4, 2)})
    client.alter_reassignments({TP: (3, 2)})
    return run, through


def test_the_replicas_of_before_are_put_back_though_the_cancels_answer_is_lost(
    start: Start,
) -> None:
    run, through = overridden(start)

    def lost(real: Any, tps: Any) -> dict[TopicPartition, Fault]:
        real(tps)
        return {tp: Fault("REQUEST_TIMED_OUT") for tp in tps}

    through.replaced = {"cancel_reassignments": lost}
    run.cancel()
    assert run.to_the_end(600) is Outcome.CANCELLED
    assert run.replicas() == {"t-0": (1, 2)}


def test_the_replicas_of_before_are_put_back_by_the_process_after_one_that_died_cancelling(
    start: Start,
) -> None:
    run, through = overridden(start)

    def dies(real: Any, tps: Any) -> None:
        real(tps)
        raise KeyboardInterrupt

    through.replaced = {"cancel_reassignments": dies}
    run.cancel()
    try:
        run.to_the_end(600)
    except KeyboardInterrupt:
        through.replaced = {}
    run.again()
    assert Kind.CANCEL_SENT not in [record.kind for record in run.journal.records()]
    assert run.to_the_end(600) is Outcome.CANCELLED
    assert run.replicas() == {"t-0": (1, 2)}


def test_an_old_sight_of_a_partition_does_not_pass_for_its_order_put_back(start: Start) -> None:
    client = cluster({"t": [(2, 1)]}, size_bytes=600 * MB)
    through = Faulty(client)
    run = start(client, plan_of(client, {("t", 0): (3, 1)}), through=through)
    old = client.describe_cluster()
    run.until(submitted)
    spend(run, 3)
    run.cancel()
    run.until(lambda step: isinstance(step, Cancel))
    fresh_at = client.elapsed_seconds + 1

    def lagging(real: Any) -> Any:
        return old if client.elapsed_seconds < fresh_at else real()

    through.replaced = {"describe_cluster": lagging}
    assert run.to_the_end(600) is Outcome.CANCELLED
    assert run.replicas() == {"t-0": (2, 1)}


def test_a_cancelled_run_with_a_move_that_others_took_elsewhere_says_so(start: Start) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=60 * MB)
    run = start(client, plan_of(client, {("t", 0): (3, 2)}))
    run.until(submitted)
    client.alter_reassignments({TP: (5, 6)})
    run.cancel()
    assert run.to_the_end(600) is Outcome.INCOMPLETE
    assert run.runner.state.ended_why == "t-0: was changed by somebody else"
