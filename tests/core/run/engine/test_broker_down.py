"""Brokers that are down while a run goes: waited for, and limited when they return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from run_help import (
    MB,
    Start,
    cluster,
    set_config,
    throttles,
    unreachable,
)

from core.cluster.configs import LEADER_RATE, Resource
from core.cluster.kafka_errors import Fault
from core.cluster.state import ClusterState
from core.plan.copies import Side
from core.run.journal.move_state import Outcome
from core.run.journal.records import Kind
from core.run.reporting.views import MoveStatus, RunStatus
from core.run.steps import IntendRates, NoteEnded, Poll


def test_a_destination_that_dies_is_waited_for(start: Start) -> None:
    run = start(cluster({"t": [(1, 2)]}), {("t", 0): (1, 3)})
    run.until(lambda step: isinstance(step, Poll))
    run.client.stop_broker(3)
    run.until(lambda step: isinstance(step, Poll) and bool(step.waiting))
    run.until(lambda step: isinstance(step, Poll) and run.client.elapsed_seconds > 60)
    assert run.view().state is RunStatus.WAITING
    assert run.view().why == "broker 3 is down: t-0 waits for it"
    assert (run.view().moves[0].state, run.view().moves[0].why) == (MoveStatus.STUCK, "b3 is down")
    run.client.start_broker(3)
    assert run.to_the_end() is Outcome.DONE


def test_the_throttle_of_a_broker_that_died_is_put_back_when_it_returns(start: Start) -> None:
    run = start(cluster({"t": [(1, 2, 3)]}), {("t", 0): (1, 2, 4)})
    run.until(lambda step: isinstance(step, Poll))
    run.client.stop_broker(2)
    run.until(lambda step: isinstance(step, NoteEnded) or run.client.elapsed_seconds > 120)
    run.cancel()
    run.until(lambda step: isinstance(step, Poll) and "throttle" in step.waiting)
    run.client.start_broker(2)
    run.to_the_end()
    assert all(LEADER_RATE not in configs for configs in throttles(run.client).values())


@pytest.mark.parametrize("found", [None, "70000000", "3000000"], ids=["unset", "higher", "lower"])
@pytest.mark.parametrize("answers", ["at once", "late"])
def test_broker_that_was_down_gets_its_rate_on_return_and_the_prior_rate_at_the_end(
    start: Start, found: str | None, answers: str
) -> None:
    client = cluster({"t": [(1, 2, 3)]}, size_bytes=200 * MB)
    if found:
        set_config(client, Resource.broker(2), LEADER_RATE, found)
    before = throttles(client)
    client.stop_broker(2)
    run = start(client, {("t", 0): (1, 2, 4)}, allow=frozenset({"out-of-sync"}))
    run.until(lambda step: isinstance(step, Poll))
    client.start_broker(2)
    since = client.elapsed_seconds

    def late(real: Callable[..., Any], resources: Any, names: Any = None) -> Any:
        mute = answers == "late" and client.elapsed_seconds < since + 10
        b2 = Resource.broker(2)
        return real(resources, names) | (
            {b2: Fault("_TIMED_OUT")} if mute and b2 in resources else {}
        )

    def intended(real: Callable[..., Any], changes: Any) -> Any:
        assert Kind.RATE_INTENT in run.kinds
        return real(changes)

    run.faulty.replaced = {"describe_configs": late, "alter_configs": intended}
    if answers == "late":
        run.until(lambda _: "broker 2" in run.state.waiting)
        assert run.view().state is RunStatus.WAITING
    run.until(lambda step: isinstance(step, Poll) and client.elapsed_seconds > since + 16)
    assert throttles(client)[Resource.broker(2)][LEADER_RATE].value == (
        found if found == "3000000" else "5000000"
    )
    assert run.view().state is RunStatus.RUNNING
    run.faulty.replaced = {}
    assert run.to_the_end() is Outcome.DONE
    assert throttles(client) == before


def test_next_process_sets_the_rate_of_a_broker_that_returned(start: Start) -> None:
    client = cluster({"t": [(1, 2, 3)]}, size_bytes=200 * MB)
    before = throttles(client)
    client.stop_broker(2)
    run = start(client, {("t", 0): (1, 2, 4)}, allow=frozenset({"out-of-sync"}))
    run.until(lambda step: isinstance(step, Poll))
    client.start_broker(2)
    run.until(lambda step: isinstance(step, IntendRates))
    assert LEADER_RATE not in throttles(client)[Resource.broker(2)]
    run.restart_process()
    run.until(lambda step: isinstance(step, Poll))
    assert throttles(client)[Resource.broker(2)][LEADER_RATE].value == "5000000"
    run.cancel()
    assert run.to_the_end() is Outcome.CANCELLED
    assert throttles(client) == before


def test_cancel_ends_a_run_whose_broker_never_returns_and_reports_the_throttle_left(
    start: Start,
) -> None:
    """A cancel once no move is left ends the run, and what is left is said."""
    run = start(cluster({"t": [(1, 2, 3)]}), {("t", 0): (1, 4, 3)})
    run.until(lambda step: isinstance(step, Poll))
    run.client.stop_broker(2)
    run.until(lambda step: isinstance(step, Poll) and "a cancel leaves it" in step.waiting)
    run.cancel()
    assert run.to_the_end(60) is Outcome.INCOMPLETE
    assert run.view().why == "broker 2 is down: its throttle is left"
    assert run.view().moves[0].state is MoveStatus.DONE
    left = run.view().leftovers
    assert left is not None
    (rate,) = left.rates
    assert (rate.broker, rate.side, rate.rate_bytes_per_s) == (2, Side.LEADER, 5 * MB)
    run.restart_process()
    assert run.state.ended is Outcome.INCOMPLETE


def test_a_cluster_that_does_not_answer_is_waited_for(start: Start) -> None:
    run = start(cluster({"t": [(1, 2)]}), {("t", 0): (1, 3)})
    run.until(lambda step: isinstance(step, Poll))
    since = run.client.elapsed_seconds
    run.faulty.replaced["fetch_reassignments"] = lambda real: (
        unreachable() if run.client.elapsed_seconds < since + 20 else real()
    )
    assert run.runner.run() is Outcome.DONE
    assert any(event.text == "The cluster does not answer" for event in run.view().events)


WRITES = ("alter_reassignments", "alter_configs", "cancel", "alter_log_dirs", "elect_leaders")


def test_run_changes_nothing_until_its_address_is_no_longer_that_of_a_different_cluster(
    start: Start,
) -> None:
    run = start(cluster({"t": [(1, 2)], "u": [(1, 2)]}), {("t", 0): (1, 3), ("u", 0): (1, 3)})
    run.until(lambda step: isinstance(step, Poll))
    since, until = run.client.elapsed_seconds, run.client.elapsed_seconds + 20
    written: list[str] = []

    def another(real: Callable[..., ClusterState]) -> ClusterState:
        away = run.client.elapsed_seconds < until
        return replace(real(), cluster_id="another") if away else real()

    def writes(name: str) -> Callable[..., Any]:
        def write(real: Callable[..., Any], *args: Any, **options: Any) -> Any:
            if run.client.elapsed_seconds > since + 2:  # what was under way as it was seen last
                written.extend([name] * (run.client.elapsed_seconds < until))
            return real(*args, **options)

        return write

    run.faulty.replaced = {"describe_cluster": another} | {name: writes(name) for name in WRITES}
    assert run.runner.run() is Outcome.DONE
    assert run.client.elapsed_seconds >= until
    assert written == []
    assert any("another" in event.text for event in run.view().events)
