"""What a run may still be asked once it goes back, has stopped, or moves have been replaced."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import MB, Run, Start, cluster, plan_of, spend, submitted

from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import UsageError
from core.run.control import request
from core.run.journal.move_state import Outcome, Phase, Role
from core.run.steps import NoteEnded, Step


def ended(step: Step) -> bool:
    return isinstance(step, NoteEnded)


def ask(run: Run, kind: str, **payload: Any) -> None:
    history = run.runner.state
    request(history.cluster_id, history.run_id, kind, payload)


def rolled_back(start: Start) -> Run:
    """Return a run of which a move back is in flight, and another is queued."""
    client = cluster({"t": [(1, 2)] * 3}, size_bytes=60 * MB)
    plan = plan_of(client, {("t", p): (1, 3) for p in range(3)})
    run = start(client, plan, batch_size=1)
    run.until(lambda step: run.runner.state.moves[1].phase is Phase.DONE)
    ask(run, "rollback")
    run.until(lambda step: submitted(step) and run.runner.state.rolling_back)
    return run


def test_a_run_that_goes_back_is_paused_slowed_and_resumed(start: Start) -> None:
    run = rolled_back(start)
    ask(run, "throttle", rate_bytes_per_s=1 * MB)
    ask(run, "pause")
    spend(run, 300)
    first, second = (m for m in run.runner.state.moves if m.role is Role.ROLLBACK)
    assert (first.phase, second.phase) == (Phase.DONE, Phase.QUEUED)
    assert run.runner.state.rate_bytes_per_s == 1 * MB
    ask(run, "resume")
    assert run.to_the_end() is Outcome.CANCELLED
    assert set(run.replicas().values()) == {(1, 2)}


def test_a_move_back_that_failed_is_tried_again_and_no_other(start: Start) -> None:
    run = rolled_back(start)
    with pytest.raises(UsageError, match="being rolled back"):
        ask(run, "retry", moves=[2])
    index = run.runner.state.in_flight[0]
    run.client.cancel_reassignments([run.runner.state.moves[index].move.tp])
    run.until(ended)
    assert run.runner.state.stopped
    ask(run, "retry", moves=[index])
    run.until(submitted)
    run.to_the_end()
    assert run.runner.state.moves[index].phase is Phase.DONE


def test_a_move_that_stopped_the_run_goes_elsewhere_when_asked(start: Start) -> None:
    client = cluster({"t": [(1, 2)]}, size_bytes=600 * MB)
    run = start(client, plan_of(client, {("t", 0): (1, 3)}))
    run.until(submitted)
    spend(run, 3)
    client.cancel_reassignments([TopicPartition("t", 0)])
    run.until(ended)
    assert run.runner.state.stopped
    ask(run, "retarget", move=0, after=[1, 4])
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {"t-0": (1, 4)}


def two_batches(start: Start, client: SimulatedCluster) -> Run:
    plan = plan_of(client, {("t", p): (3, 2) for p in range(2)})
    run = start(client, plan, batch_size=1)
    run.until(submitted)
    return run


def test_a_move_that_another_stands_in_for_is_not_tried_again(start: Start) -> None:
    run = two_batches(start, cluster({"t": [(1, 2)] * 2}, size_bytes=60 * MB))
    ask(run, "retarget", move=1, after=[4, 2])
    run.until(lambda step: len(run.runner.state.moves) == 3)
    with pytest.raises(UsageError, match="another move stands in for it"):
        ask(run, "retry", moves=[1])
    assert run.to_the_end() is Outcome.DONE


def test_a_queued_move_whose_retargeting_is_refused_goes_where_it_was_to_go(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 2}, size_bytes=60 * MB)
    run = two_batches(start, client)
    client.stop_broker(6)
    client.advance(5)
    ask(run, "retarget", move=1, after=[6, 2])
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {"t-0": (3, 2), "t-1": (3, 2)}
    assert any("t-1 does not go elsewhere" in event.text for event in run.view().events)
