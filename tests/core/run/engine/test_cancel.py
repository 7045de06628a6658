"""A run that is cancelled: whole partitions, the order they had, and no throttle."""

from __future__ import annotations

import pytest
from run_help import (
    MB,
    Start,
    ask,
    cluster,
    plan_of,
    set_config,
    spend,
    throttles,
)

from core.cluster.configs import LEADER_LIST, Resource
from core.cluster.metadata import TopicPartition
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind
from core.run.steps import Poll, Submit


@pytest.mark.parametrize("after", range(0, 40, 3))
def test_a_cancel_at_any_step_leaves_whole_partitions_and_no_throttle(
    start: Start, after: int
) -> None:
    client = cluster({"t": [(3, 2, 1), (1, 2, 3)], "u": [(1, 2, 3)]}, size_bytes=8 * MB)
    set_config(client, Resource.topic("t"), LEADER_LIST, "9:1")
    before = throttles(client)
    wanted = {("t", 0): (4, 2, 1), ("t", 1): (5, 3, 2), ("u", 0): (3, 1, 2)}
    run = start(client, plan_of(client, wanted), batch_size=2)
    for _ in range(after):
        if run.runner.state.ended is None:
            run.runner.advance()
    done_before = sum(m.phase is Phase.DONE for m in run.runner.state.moves)
    run.cancel()
    outcome = run.to_the_end()
    moves = run.runner.state.moves
    for m in moves:
        expected = m.move.after if m.phase is Phase.DONE else m.move.before
        assert run.replicas()[str(m.move.tp)] == expected
    assert not client.fetch_reassignments()
    assert throttles(client) == before
    everything = all(m.phase is Phase.DONE for m in moves)
    assert outcome is (Outcome.DONE if everything else Outcome.CANCELLED)
    assert sum(m.phase is Phase.DONE for m in moves) >= done_before


def test_a_cancel_puts_the_original_order_back(start: Start) -> None:
    """Kafka leaves [2,1,3] of [3,2,1] → [4,2,1] cancelled; the journal knows better."""
    client = cluster({"t": [(3, 2, 1)]})
    run = start(client, plan_of(client, {("t", 0): (4, 2, 1)}))
    run.until(lambda step: isinstance(step, Poll))
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    assert run.replicas() == {"t-0": (3, 2, 1)}
    assert Kind.REORDERED in {record.kind for record in run.journal.records()}


def test_a_move_off_a_dead_broker_to_one_that_dies_too_can_be_cancelled(start: Start) -> None:
    client = cluster(
        {"t": [(1, 2)]}, topic_configs={"t": {"min.insync.replicas": "2"}}, size_bytes=90 * MB
    )
    client.stop_broker(2)
    client.advance(30)
    run = start(client, plan_of(client, {("t", 0): (1, 3)}), allow=frozenset({"out-of-sync"}))
    run.until(lambda step: isinstance(step, Submit))
    client.stop_broker(3)
    client.advance(30)
    run.cancel()
    run.until(lambda step: run.runner.state.moves[0].phase is Phase.CANCELLED)
    assert run.replicas() == {"t-0": (1, 2)}
    client.start_broker(2)
    client.start_broker(3)
    assert run.to_the_end() is Outcome.CANCELLED


def test_a_cancel_that_would_be_unclean_is_refused_and_the_move_goes_on(start: Start) -> None:
    client = cluster(
        {"t": [(1, 2)]}, topic_configs={"t": {"min.insync.replicas": "2"}}, size_bytes=30 * MB
    )
    run = start(client, plan_of(client, {("t", 0): (1, 3)}))
    run.until(lambda step: isinstance(step, Poll))
    client.stop_broker(2)
    run.cancel()
    run.until(lambda step: isinstance(step, Poll) and "cannot be cancelled" in step.waiting)
    assert TopicPartition("t", 0) in client.fetch_reassignments()
    client.start_broker(2)
    run.to_the_end()
    assert run.replicas()["t-0"] in ((1, 2), (1, 3))


def test_a_cancel_that_is_not_clean_is_not_held_on_the_floor(start: Start) -> None:
    """Too few of the first replicas are in sync: it goes on, and at the run's rate."""
    configs = {"t": {"min.insync.replicas": "2"}}
    client = cluster({"t": [(1, 2)]}, size_bytes=100 * MB, topic_configs=configs)
    before = throttles(client)
    run = start(client, plan_of(client, {("t", 0): (1, 3)}), rate=5 * MB)
    run.until(lambda step: isinstance(step, Poll))
    ask(run, "pause", floor=True)
    spend(run, 5)
    client.stop_broker(2)
    spend(run, 10)
    ask(run, "cancel")
    spend(run, 120)
    assert run.replicas() == {"t-0": (1, 3)}
    client.start_broker(2)
    run.to_the_end()
    assert throttles(client) == before


def test_a_single_move_that_cannot_be_cancelled_says_that_it_is_held_on_the_floor(
    start: Start,
) -> None:
    configs = {"t": {"min.insync.replicas": "2"}}
    client = cluster({"t": [(1, 2), (1, 2)]}, size_bytes=100 * MB, topic_configs=configs)
    run = start(client, plan_of(client, {("t", 0): (1, 3), ("t", 1): (1, 3)}), rate=5 * MB)
    run.until(lambda step: isinstance(step, Poll))
    ask(run, "pause", floor=True)
    client.stop_broker(2)
    spend(run, 10)
    ask(run, "cancel", moves=[0])
    spend(run, 10)
    assert "it is held on the floor, `resume` it" in run.runner.state.waiting
