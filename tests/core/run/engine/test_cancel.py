"""A run that is cancelled: whole partitions, the order they had, and no throttle."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import (
    MB,
    Run,
    Start,
    ask,
    cluster,
    set_config,
    spend,
    submitted,
    throttles,
)

from core.cluster.configs import LEADER_LIST, Resource
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind
from core.run.steps import Cancel, Poll, Submit


@pytest.mark.parametrize("after", range(0, 40, 3))
def test_cancel_at_any_step_leaves_moves_done_or_undone_and_throttles_as_found(
    start: Start, after: int
) -> None:
    client = cluster({"t": [(3, 2, 1), (1, 2, 3)], "u": [(1, 2, 3)]}, size_bytes=8 * MB)
    set_config(client, Resource.topic("t"), LEADER_LIST, "9:1")
    wanted = {("t", 0): (4, 2, 1), ("t", 1): (5, 3, 2), ("u", 0): (3, 1, 2)}
    run = start(client, wanted, batch_size=2)
    for _ in range(after):
        if run.state.ended is None:
            run.runner.advance()
    done_before = sum(m.phase is Phase.DONE for m in run.state.moves)
    run.cancel()
    outcome = run.to_the_end()
    moves = run.state.moves
    for m in moves:
        expected = m.move.after if m.phase is Phase.DONE else m.move.before
        assert run.replicas()[str(m.move.tp)] == expected
    assert not client.fetch_reassignments()
    assert throttles(client) == run.found
    everything = all(m.phase is Phase.DONE for m in moves)
    assert outcome is (Outcome.DONE if everything else Outcome.CANCELLED)
    assert sum(m.phase is Phase.DONE for m in moves) >= done_before


def test_move_off_a_dead_broker_to_a_destination_that_dies_too_can_be_cancelled(
    start: Start,
) -> None:
    client = cluster(
        {"t": [(1, 2)]}, topic_configs={"t": {"min.insync.replicas": "2"}}, size_bytes=90 * MB
    )
    client.stop_broker(2)
    client.advance(30)
    run = start(client, {("t", 0): (1, 3)}, allow=frozenset({"out-of-sync"}))
    run.until(lambda step: isinstance(step, Submit))
    client.stop_broker(3)
    client.advance(30)
    run.cancel()
    run.until(lambda step: run.state.moves[0].phase is Phase.CANCELLED)
    assert run.replicas() == {"t-0": (1, 2)}
    client.start_broker(2)
    client.start_broker(3)
    assert run.to_the_end() is Outcome.CANCELLED


def test_a_cancel_that_would_be_unclean_is_refused_and_the_move_goes_on(start: Start) -> None:
    run = start(
        cluster(
            {"t": [(1, 2)]}, topic_configs={"t": {"min.insync.replicas": "2"}}, size_bytes=30 * MB
        ),
        {("t", 0): (1, 3)},
    )
    run.until(lambda step: isinstance(step, Poll))
    run.client.stop_broker(2)
    run.cancel()
    run.until(lambda step: isinstance(step, Poll) and "cannot be cancelled" in step.waiting)
    assert TopicPartition("t", 0) in run.client.fetch_reassignments()
    run.client.start_broker(2)
    run.to_the_end()
    assert run.replicas()["t-0"] in ((1, 2), (1, 3))


def test_unclean_cancel_lets_the_move_go_on_at_the_runs_rate_despite_a_floor_pause(
    start: Start,
) -> None:
    """Too few of the first replicas are in sync: it goes on, and at the run's rate."""
    configs = {"t": {"min.insync.replicas": "2"}}
    run = start(
        cluster({"t": [(1, 2)]}, size_bytes=100 * MB, topic_configs=configs),
        {("t", 0): (1, 3)},
        rate=5 * MB,
    )
    run.until(lambda step: isinstance(step, Poll))
    ask(run, "pause", floor=True)
    spend(run, 5)
    run.client.stop_broker(2)
    spend(run, 10)
    ask(run, "cancel")
    spend(run, 120)
    assert run.replicas() == {"t-0": (1, 3)}
    run.client.start_broker(2)
    run.to_the_end()
    assert throttles(run.client) == run.found


def test_move_that_cannot_be_cancelled_is_reported_as_held_at_the_floor_rate(
    start: Start,
) -> None:
    configs = {"t": {"min.insync.replicas": "2"}}
    run = start(
        cluster({"t": [(1, 2), (1, 2)]}, size_bytes=100 * MB, topic_configs=configs),
        {("t", 0): (1, 3), ("t", 1): (1, 3)},
        rate=5 * MB,
    )
    run.until(lambda step: isinstance(step, Poll))
    ask(run, "pause", floor=True)
    run.client.stop_broker(2)
    spend(run, 10)
    ask(run, "cancel", moves=[0])
    spend(run, 10)
    assert "it is held on the floor, `resume` it" in run.state.waiting


TP = TopicPartition("t", 0)


def overridden(start: Start) -> Run:
    """Return a run whose move somebody has overridden twice, so that only a cancel ends it."""
    run = start(size_bytes=600 * MB)
    run.until(submitted)
    spend(run, 3)
    run.client.alter_reassignments({TP: (4, 2)})
    run.client.alter_reassignments({TP: (3, 2)})
    return run


@pytest.mark.parametrize("dies", [False, True], ids=["its answer is lost", "its process dies"])
def test_original_replicas_are_restored_though_the_cancel_loses_its_answer_or_process(
    start: Start, dies: bool
) -> None:
    run = overridden(start)

    def lost(real: Any, tps: Any) -> dict[TopicPartition, Fault]:
        real(tps)
        if dies:
            raise KeyboardInterrupt
        return {tp: Fault("REQUEST_TIMED_OUT") for tp in tps}

    run.faulty.replaced = {"cancel_reassignments": lost}
    run.cancel()
    if dies:
        with pytest.raises(KeyboardInterrupt):
            run.to_the_end(600)
        run.faulty.replaced = {}
        run.restart_process()
        assert Kind.CANCEL_SENT not in run.kinds
    assert run.to_the_end(600) is Outcome.CANCELLED
    assert run.replicas() == {"t-0": (1, 2)}


def test_stale_description_of_a_partition_does_not_count_as_its_order_restored(
    start: Start,
) -> None:
    run = start(cluster({"t": [(2, 1)]}, size_bytes=600 * MB), {("t", 0): (3, 1)})
    old = run.client.describe_cluster()
    run.until(submitted)
    spend(run, 3)
    run.cancel()
    run.until(lambda step: isinstance(step, Cancel))
    fresh_at = run.client.elapsed_seconds + 1

    def lagging(real: Any) -> Any:
        return old if run.client.elapsed_seconds < fresh_at else real()

    run.faulty.replaced = {"describe_cluster": lagging}
    assert run.to_the_end(600) is Outcome.CANCELLED
    assert run.replicas() == {"t-0": (2, 1)}


def test_cancelled_run_reports_a_move_that_was_changed_by_somebody_else(start: Start) -> None:
    run = start(size_bytes=60 * MB)
    run.until(submitted)
    run.client.alter_reassignments({TP: (5, 6)})
    run.cancel()
    assert run.to_the_end(600) is Outcome.INCOMPLETE
    assert run.state.ended_why == "t-0: was changed by somebody else"


T = TopicPartition("t", 0)
TARGETS = {("t", 0): (3, 4, 1), ("u", 0): (5, 3), ("v", 0): (6, 3)}


def three() -> SimulatedCluster:
    sizes = {T: 900 * MB, TopicPartition("u", 0): 40 * MB, TopicPartition("v", 0): 40 * MB}
    return cluster({"t": [(1, 2, 3)], "u": [(1, 3)], "v": [(1, 3)]}, size_bytes=sizes)


def of_three_moves(start: Start, client: SimulatedCluster) -> Run:
    run = start(client, TARGETS, batch_size=2)
    run.until(submitted)
    spend(run, 3)
    return run


def not_taken(real: Any, targets: Any, fault: str) -> Any:
    rest = {tp: target for tp, target in targets.items() if target is not None and tp != T}
    return (real(rest) if rest else {}) | {tp: Fault(fault) for tp in targets if tp == T}


def test_refused_restore_of_the_replica_order_fails_only_its_own_move(start: Start) -> None:
    run = of_three_moves(start, three())
    name = "INVALID_REPLICA_ASSIGNMENT"
    run.faulty.replaced["alter_reassignments"] = lambda real, targets: not_taken(
        real, targets, name
    )
    ask(run, "cancel", moves=[0])
    run.restores(Outcome.INCOMPLETE, 600)
    assert run.phases == [Phase.FAILED, Phase.DONE, Phase.DONE]
    why = "t-0: cancelled, but its order as before was refused: INVALID_REPLICA_ASSIGNMENT"
    assert run.state.ended_why == why


@pytest.mark.parametrize("call", ["alter_reassignments", "cancel_reassignments"])
def test_unfinished_cancel_of_one_move_does_not_hold_the_throttles_of_other_moves(
    start: Start, call: str
) -> None:
    run = of_three_moves(start, three())

    def busy(real: Any, targets: Any) -> Any:
        if call == "alter_reassignments":
            return not_taken(real, targets, "REQUEST_TIMED_OUT")
        return {tp: Fault("REQUEST_TIMED_OUT") for tp in targets}

    run.faulty.replaced[call] = busy
    ask(run, "cancel", moves=[0])
    run.until(lambda _: run.state.moves[1].phase is Phase.DONE, seconds=120)
    run.until(lambda _: "u" not in {topic for topic, _ in run.state.throttles.lists}, seconds=20)
    asked, written = run.faulty.calls.count(call), len(run.journal.records())
    spend(run, 60)
    assert "(REQUEST_TIMED_OUT): it is asked again" in run.state.waiting
    assert asked + 9 <= run.faulty.calls.count(call) <= asked + 18, "at leisure"
    assert len(run.journal.records()) <= written + 4, "asked again without filling the journal"
    run.faulty.replaced.clear()
    assert run.to_the_end(600) is Outcome.INCOMPLETE
    assert run.replicas()["t-0"] == (1, 2, 3)
    assert Kind.REORDERED in run.kinds
