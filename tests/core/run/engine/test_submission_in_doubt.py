"""Submissions without an answer, and what comes between them and the next try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_help import MB, Faulty, Run, Start, cluster, plan_of, spend, submitted

from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.errors import AccessDeniedError
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind
from core.run.steps import NoteEnded

TP = TopicPartition("t", 0)


def until_lost(start: Start, count: int = 1, **options: Any) -> tuple[Run, Faulty]:
    """Return a run whose submission is lost without an answer."""
    client = cluster({"t": [(1, 2)] * count}, size_bytes=60 * MB)
    through = Faulty(client)
    targets = {("t", p): (3, 2) for p in range(count)}
    run = start(client, plan_of(client, targets), through=through, **options)
    put_off = dict.fromkeys((TopicPartition("t", p) for p in range(count)), Fault("TIMED_OUT"))
    through.replaced["alter_reassignments"] = lambda real, targets: put_off
    run.until(submitted)
    through.replaced.clear()
    return run, through


def test_what_was_lost_is_not_submitted_again_once_the_run_is_stopped(start: Start) -> None:
    client = cluster({"t": [(1, 2)] * 2}, size_bytes=600 * MB)
    through = Faulty(client)
    run = start(client, plan_of(client, {("t", p): (3, 2) for p in range(2)}), through=through)

    def half(real: Callable[..., Any], targets: Any) -> Any:
        other = TopicPartition("t", 1)
        return {
            **real({tp: targets[tp] for tp in targets if tp != other}),
            other: Fault("TIMED_OUT"),
        }

    through.replaced["alter_reassignments"] = half
    run.until(submitted)
    client.cancel_reassignments([TP])
    client.alter_reassignments({TP: (5, 6)})
    run.until(lambda step: isinstance(step, NoteEnded))
    assert run.runner.state.stopped
    through.replaced.clear()
    through.calls.clear()
    assert run.to_the_end() is Outcome.FAILED
    assert "alter_reassignments" not in through.calls
    lost = run.runner.state.moves[1]
    assert lost.phase is Phase.CANCELLED
    assert lost.why == "not started: t-0 was changed by somebody else"


def test_what_was_lost_is_not_submitted_again_while_its_destination_is_down(start: Start) -> None:
    run, through = until_lost(start)
    run.client.stop_broker(3)
    through.calls.clear()
    spend(run, 60)
    assert "alter_reassignments" not in through.calls
    assert run.runner.state.waiting == "broker 3 is down: no further batch starts"
    run.client.start_broker(3)
    assert run.to_the_end() is Outcome.DONE


def denied(real: Callable[..., Any], targets: Any) -> Any:
    raise AccessDeniedError("May not alter the cluster.")


def refused(real: Callable[..., Any], targets: Any) -> Any:
    return dict.fromkeys(targets, Fault("POLICY_VIOLATION"))


@pytest.mark.parametrize("answer", [denied, refused])
def test_a_second_try_that_is_refused_does_not_hide_a_first_that_acts_late(
    start: Start, answer: Callable[..., Any]
) -> None:
    run, through = until_lost(start)
    through.replaced["alter_reassignments"] = answer
    run.until(submitted)
    assert run.runner.state.moves[0].phase is Phase.SUBMITTING
    spend(run, 5)
    run.client.alter_reassignments({TP: (3, 2)})
    assert run.to_the_end() is Outcome.DONE
    assert run.replicas() == {"t-0": (3, 2)}


@pytest.mark.parametrize("answer", [denied, refused])
def test_a_second_try_that_is_refused_ends_a_move_that_the_cluster_does_not_show(
    start: Start, answer: Callable[..., Any]
) -> None:
    run, through = until_lost(start)
    through.replaced["alter_reassignments"] = answer
    assert run.to_the_end(120) is Outcome.FAILED
    assert [r.kind for r in run.journal.records()].count(Kind.SUBMITTING) == 2
    assert run.runner.state.moves[0].phase is Phase.FAILED
