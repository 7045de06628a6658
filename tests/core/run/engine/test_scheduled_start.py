"""Runs that begin at a time that was asked for: what is asked of them before, and trouble then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from run_help import MB, Run, Start, ask, cluster, plan_of, spend, unreachable

from core.cluster.observer import fetch_cluster_state
from core.errors import AccessDeniedError
from core.load.load import Load
from core.plan.estimate.estimate import estimate_at
from core.plan.estimate.estimate_json import format_estimate
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.records import Kind
from core.run.reporting.notifier import Notifier
from core.run.reporting.views import RunStatus
from core.run.steps import Poll, Preflight
from core.settings import NotifyBy

FOUR = {"t": [(1, 2)] * 4}
TARGETS: dict[tuple[str, int], tuple[int, ...]] = {("t", p): (3, 2) for p in range(4)}
HOUR = timedelta(hours=1)


def later(start: Start, **options: Any) -> Run:
    """Return a run of t-0 to broker 3 and t-1 to broker 4 that begins in an hour."""
    client = cluster({"t": [(1, 2)] * 2})
    run = start(client, {("t", 0): (3, 2), ("t", 1): (4, 2)}, start_at=client.now + HOUR, **options)
    spend(run, 60)
    return run


def test_scheduled_start_is_waited_for_and_can_be_cancelled(start: Start) -> None:
    client = cluster(FOUR)
    at = client.now + timedelta(hours=2)
    run = start(client, TARGETS, start_at=at)
    spend(run, 3600)
    assert run.kinds == [Kind.CREATED, Kind.WAITING]
    assert run.to_the_end(seconds=7200) is Outcome.DONE
    assert client.now > at
    assert run.view().elapsed_seconds < 120, "an estimate knows nothing of the wait"
    other = start(client, {("t", 0): (1, 2)}, start_at=client.now + timedelta(1))
    assert isinstance(other.runner.advance(), Poll)
    other.cancel()
    assert other.to_the_end(seconds=10) is Outcome.CANCELLED


@pytest.mark.parametrize(
    ("kind", "payload", "ends", "there"),
    [
        ("skip", {"moves": [1]}, Outcome.DONE, (1, 2)),
        ("cancel", {"moves": [1]}, Outcome.INCOMPLETE, (1, 2)),
        ("retarget", {"move": 1, "after": [5, 2]}, Outcome.DONE, (5, 2)),
    ],
    ids=["skip", "cancel", "retarget"],
)
def test_move_skipped_cancelled_or_retargeted_before_the_start_cannot_fail_the_run(
    start: Start, kind: str, payload: dict[str, Any], ends: Outcome, there: tuple[int, ...]
) -> None:
    run = later(start)
    run.client.stop_broker(4)
    ask(run, kind, **payload)
    assert run.to_the_end(7200) is ends
    assert run.replicas() == {"t-0": (3, 2), "t-1": there}


@pytest.mark.parametrize("hours", [0, 10])
def test_run_estimate_uses_the_partition_sizes_at_its_start(start: Start, hours: int) -> None:
    """It grows sevenfold while it waits; what was asked for was estimated before that."""
    client = cluster({"t": [(1, 2)]}, size_bytes=300 * MB, in_bytes_per_s=50_000.0)
    state, plan = fetch_cluster_state(client), plan_of(client, {("t", 0): (3, 2)})
    load = replace(Load.unknown(state), in_bytes_per_s=np.array([50_000.0]))
    asked = format_estimate(estimate_at(state, load, plan, 5 * MB))
    at = client.now + timedelta(hours=hours) if hours else None
    run = start(client, plan, start_at=at, estimate=asked, produced={0: 50_000.0})
    run.until(lambda step: isinstance(step, Preflight), 11 * 3600)
    began, view, known = client.now, run.view(), run.state.estimate
    assert known is not None
    assert known["total_bytes"] == pytest.approx(300 * MB + hours * 3600 * 50_000, rel=0.01)
    assert known["rate_bytes_per_s"] == 5 * MB
    assert view.estimated_seconds == view.left_seconds == known["seconds"]
    assert (known["seconds"] > 2 * asked["seconds"]) is bool(hours)
    assert run.to_the_end() is Outcome.DONE
    took = (client.now - began).total_seconds()
    assert took == pytest.approx(known["seconds"], rel=0.15)


def test_a_broker_that_is_down_at_the_start_fails_a_run_that_needs_it(start: Start) -> None:
    run = later(start)
    run.client.stop_broker(4)
    assert run.to_the_end(7200) is Outcome.FAILED
    assert "Broker 4 is down" in run.state.ended_why


def test_scheduled_run_with_all_moves_retargeted_is_checked_before_it_begins(start: Start) -> None:
    run = later(start)
    ask(run, "retarget", move=0, after=[5, 2])
    ask(run, "retarget", move=1, after=[6, 2])
    begins = run.client.now
    run.until(lambda step: len(run.state.moves) == 4)
    assert run.client.now - begins > timedelta(minutes=58)
    assert not run.state.preflight
    assert run.to_the_end() is Outcome.DONE
    assert run.state.preflight
    assert run.replicas() == {"t-0": (5, 2), "t-1": (6, 2)}


@pytest.mark.parametrize("kind", ["skip", "cancel"])
def test_scheduled_run_with_all_moves_skipped_or_cancelled_ends_at_once(
    start: Start, kind: str
) -> None:
    run = later(start)
    for index in (0, 1):
        ask(run, kind, moves=[index])
    assert run.to_the_end(10) is (Outcome.DONE if kind == "skip" else Outcome.CANCELLED)
    assert Kind.PREFLIGHT not in run.kinds
    assert not {"alter_configs", "alter_reassignments"} & set(run.faulty.calls)


def test_scheduled_run_awaits_an_unreachable_cluster_and_notifies_once(
    start: Start,
) -> None:
    run = later(start)
    run.faulty.replaced["describe_cluster"] = unreachable
    seen: list[tuple[RunStatus, str]] = []
    reasons: list[str] = []

    class Telling(Notifier):
        def send(self, document: Mapping[str, Any]) -> None:
            reasons.append(document["why"])

    notifier = Telling(NotifyBy(command=("true",)))

    def poll_and_note(recorder: Any) -> None:
        notifier.look(recorder)
        seen.append((run.view().state, run.view().why))
        if len(reasons) == 1:
            run.faulty.replaced.clear()

    run.runner._on_look = poll_and_note
    assert run.runner.run() is Outcome.DONE
    assert seen[0][0] is RunStatus.SCHEDULED
    assert (RunStatus.WAITING, "The cluster does not answer") in seen
    assert reasons == ["The cluster does not answer"]


def test_scheduled_run_can_be_cancelled_while_its_cluster_does_not_answer(start: Start) -> None:
    run = later(start)
    run.faulty.replaced["describe_cluster"] = unreachable
    run.runner._on_look = lambda recorder: (
        run.cancel() if recorder.state.waiting.startswith("The cluster") else None
    )
    assert run.runner.run() is Outcome.CANCELLED


def test_scheduled_run_fails_when_access_is_denied_at_its_start(start: Start) -> None:
    run = later(start)

    def denied(*_: Any, **__: Any) -> Any:
        raise AccessDeniedError("It says no.")

    run.faulty.replaced["describe_cluster"] = denied
    assert run.runner.run() is Outcome.FAILED
    assert run.phases == [Phase.QUEUED] * 2
