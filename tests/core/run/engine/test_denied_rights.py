"""A run whose user may not do what it needs: it waits, or ends and leaves nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from run_help import (
    TARGETS,
    TWO,
    Faulty,
    Start,
    cluster,
    plan_of,
    set_config,
    throttles,
)

from core.cluster.configs import LEADER_LIST, Resource
from core.cluster.kafka_errors import Fault
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import AccessDeniedError
from core.run.external.leftovers import fetch_leftovers
from core.run.external.throttles import fetch_throttles
from core.run.journal.move_state import Outcome
from core.run.reporting.views import Leftovers
from core.run.steps import Poll


@pytest.mark.parametrize("call", ["alter_configs", "alter_reassignments"])
def test_a_cluster_that_says_no_ends_the_run_and_nothing_is_left(start: Start, call: str) -> None:
    client = cluster(TWO)
    before = throttles(client)
    faulty = Faulty(client)
    said: list[str] = []

    def deny(real: Callable[..., Any], *args: Any) -> Any:
        if not said:
            said.append("no")
            raise AccessDeniedError("The cluster says no: CLUSTER_AUTHORIZATION_FAILED.")
        return real(*args)

    faulty.replaced[call] = deny
    run = start(client, plan_of(client, TARGETS), through=faulty)
    assert run.runner.run() is Outcome.FAILED
    assert "The cluster says no" in run.view().why
    assert run.replicas() == {"t-0": (1, 2), "t-1": (2, 1), "u-0": (1, 2, 3)}
    assert throttles(client) == before


@pytest.mark.parametrize(
    ("all_topics", "why"),
    [
        (True, "The cluster says no: TOPIC_AUTHORIZATION_FAILED."),
        (False, "reading the throttle of topic t failed: TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_a_run_that_may_not_see_whether_topics_are_throttled_moves_nothing(
    start: Start, *, all_topics: bool, why: str
) -> None:
    client = cluster(TWO)
    before, faulty, hidden = throttles(client), Faulty(client), Resource.topic("t")

    def deny(real: Callable[..., Any], asked: Collection[Resource], *names: Any) -> Any:
        if all_topics and hidden in asked:
            raise AccessDeniedError("The cluster says no: TOPIC_AUTHORIZATION_FAILED.")
        fault = Fault("TOPIC_AUTHORIZATION_FAILED")
        return {r: fault if r == hidden else a for r, a in real(asked, *names).items()}

    faulty.replaced["describe_configs"] = deny
    run = start(client, plan_of(client, TARGETS), through=faulty)
    assert run.runner.run() is Outcome.FAILED
    assert run.view().why == why
    assert run.replicas() == {"t-0": (1, 2), "t-1": (2, 1), "u-0": (1, 2, 3)}
    assert throttles(client) == before


def _deny(client: SimulatedCluster, until: float) -> Callable[..., Any]:
    def deny(real: Callable[..., Any], *args: Any) -> Any:
        if client.elapsed_seconds < until:
            raise AccessDeniedError("The cluster says no: CLUSTER_AUTHORIZATION_FAILED.")
        return real(*args)

    return deny


@pytest.mark.parametrize("call", ["fetch_reassignments", "describe_cluster", "alter_configs"])
def test_a_run_whose_rights_went_waits_for_them(start: Start, call: str) -> None:
    """Ended, it would leave moves in flight under throttles that nobody puts back."""
    client = cluster(TWO)
    before = throttles(client)
    faulty = Faulty(client)
    run = start(client, plan_of(client, TARGETS), through=faulty)
    run.until(lambda step: isinstance(step, Poll))
    faulty.replaced[call] = _deny(client, client.elapsed_seconds + 3600)
    assert run.runner.run() is Outcome.DONE
    assert client.elapsed_seconds > 3600
    assert throttles(client) == before
    (said,) = {e.text for e in run.view().events if e.text.startswith("The cluster says no")}
    assert said == (
        "The cluster says no: CLUSTER_AUTHORIZATION_FAILED: give the run's user its rights "
        "back and it goes on (a cancel leaves what it may not put back)"
    )


@pytest.mark.parametrize("call", ["alter_reassignments", "alter_configs"])
def test_a_batch_waits_for_rights_that_went_after_the_first_one(start: Start, call: str) -> None:
    client = cluster({"t": [(1, 2)] * 3})
    before = throttles(client)
    faulty = Faulty(client)
    targets = {("t", p): (3, 2) for p in range(3)}
    run = start(client, plan_of(client, targets), through=faulty, batch_size=1)
    run.until(lambda step: isinstance(step, Poll))
    faulty.replaced[call] = _deny(client, client.elapsed_seconds + 600)
    assert run.runner.run() is Outcome.DONE
    assert client.elapsed_seconds > 600
    assert throttles(client) == before
    assert any("rights back" in event.text for event in run.view().events)
    assert len(run.journal.records()) < 100, "what is waited for is said once"


def test_a_run_whose_rights_went_for_good_ends_when_it_is_cancelled(start: Start) -> None:
    client = cluster(TWO)
    faulty = Faulty(client)
    run = start(client, plan_of(client, TARGETS), through=faulty)
    run.until(lambda step: isinstance(step, Poll))
    denied = _deny(client, 10**9)

    def asked(real: Callable[..., Any], *args: Any) -> Any:
        if client.elapsed_seconds > 600 and not run.journal.requests():
            run.cancel()
        return denied(real, *args)

    faulty.replaced["fetch_reassignments"] = asked
    assert run.runner.run() is Outcome.INCOMPLETE
    assert client.elapsed_seconds > 600
    assert "may be left" in run.view().why
    assert run.view().leftovers


def test_a_run_that_is_being_cancelled_waits_for_rights_that_are_gone_for_a_moment(
    start: Start,
) -> None:
    client = cluster(TWO)
    before = throttles(client)
    faulty = Faulty(client)
    run = start(client, plan_of(client, TARGETS), through=faulty)
    run.until(lambda step: isinstance(step, Poll))
    run.cancel()
    run.until(lambda step: run.runner.state.cancel_requested)
    faulty.replaced["fetch_reassignments"] = _deny(client, client.elapsed_seconds + 60)
    assert run.runner.run() is Outcome.CANCELLED
    assert client.elapsed_seconds > 60
    assert throttles(client) == before
    assert run.replicas() == {"t-0": (1, 2), "t-1": (2, 1), "u-0": (3, 1, 2)}


def test_throttles_that_may_not_be_read_are_not_taken_for_none() -> None:
    client = cluster(TWO)
    faulty = Faulty(client)
    secret = Resource.topic("t")
    set_config(client, secret, LEADER_LIST, "0:1")
    refused = {secret: Fault("TOPIC_AUTHORIZATION_FAILED", "no")}
    faulty.replaced["describe_configs"] = lambda real, resources, names: (
        real(resources, names) | {r: f for r, f in refused.items() if r in resources}
    )
    through: Any = faulty
    assert fetch_throttles(through, client.describe_cluster(), []) == ((), refused)


def test_what_is_left_where_nobody_may_look_is_not_taken_for_nothing() -> None:
    client = cluster(TWO)
    faulty: Any = Faulty(client)
    refused = Fault("TOPIC_AUTHORIZATION_FAILED", "no")
    gone = Fault("UNKNOWN_TOPIC_OR_PARTITION")
    faulty.replaced["describe_configs"] = lambda real, resources, names: {
        r: refused if r.name == "t" else gone for r in resources
    }
    left = Leftovers(lists=(("t", "leader", ("0:1",)), ("u", "leader", ("0:1",))))
    assert fetch_leftovers(faulty, left).lists == (("t", "leader", ("0:1",)),)
