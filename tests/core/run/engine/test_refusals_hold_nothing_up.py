"""What a cluster refuses in mid-run rests for a while, and all else of the run goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from run_help import (
    MB,
    Faulty,
    Run,
    Start,
    ask,
    cluster,
    delete,
    own,
    plan_of,
    spend,
    submitted,
    throttles,
)

from core.cluster.configs import LEADER_LIST, Resource
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.run.journal.move_state import Outcome, Phase
from core.run.journal.throttle_values import entries
from core.run.reporting.config_changes import changes
from core.run.reporting.views import MoveStatus, RunStatus

T, U = Resource.topic("t"), Resource.topic("u")
TARGETS = {("t", 0): (1, 2, 3), ("u", 0): (4, 6)}
RETENTION = "retention.ms"


def refusing(resource: Resource, *names: str) -> Callable[..., Any]:
    """Answer changes of this resource, and of these configs of it, with a policy's refusal."""

    def refuse(real: Callable[..., Any], changes: Any) -> Any:
        no = [c for c in changes if c.resource == resource and (not names or c.name in names)]
        rest = [change for change in changes if change not in no]
        return (real(rest) if rest else {}) | {c.resource: Fault("POLICY_VIOLATION") for c in no}

    return refuse


def retention(client: SimulatedCluster, topic: Resource) -> Any:
    return client.describe_configs([topic])[topic][RETENTION].value  # type: ignore[index]


def begun(start: Start, faulty: Faulty) -> Run:
    plan = plan_of(faulty.client, TARGETS)
    run = start(faulty.client, plan, rate=8 * MB, through=faulty, allow={"rf-change"})
    run.until(submitted)
    return run


def other_move_is_given_back(run: Run) -> None:
    """Cancel the move that nothing is refused of: it must be undone and its throttles taken."""
    ask(run, "cancel", moves=[1])
    run.until(lambda _: run.runner.state.moves[1].phase is Phase.CANCELLED, seconds=60)
    run.until(lambda _: own(run.client, U, LEADER_LIST) is None, seconds=30)
    assert run.runner.state.moves[0].phase is Phase.SUBMITTED
    assert "POLICY_VIOLATION" in run.view().why


def test_pairs_that_cannot_be_put_back_hold_nothing_else_up(start: Start) -> None:
    faulty = Faulty(cluster({"t": [(1, 2)], "u": [(4, 5)]}, size_bytes=3000 * MB))
    before = throttles(faulty.client)
    run = begun(start, faulty)
    spend(run, 4)
    delete(run.client, T, LEADER_LIST)
    faulty.replaced["alter_configs"] = refusing(T)
    run.until(lambda _: "POLICY_VIOLATION" in run.runner.state.waiting, seconds=60)
    other_move_is_given_back(run)
    faulty.replaced.clear()
    spend(run, 10)
    assert entries(own(run.client, T, LEADER_LIST)) == {"0:1", "0:2", "0:3"}
    run.cancel()
    run.to_the_end(120)
    assert throttles(run.client) == before


def test_a_pair_that_cannot_be_taken_out_holds_nothing_else_up(start: Start) -> None:
    written = {TopicPartition("t", 0): 2.0 * MB}
    layout = {"t": [(1, 2)], "u": [(4, 5)]}
    faulty = Faulty(cluster(layout, size_bytes=3000 * MB, in_bytes_per_s=written))
    before = throttles(faulty.client)
    run = begun(start, faulty)
    run.client.stop_broker(2)
    spend(run, 60)
    faulty.replaced["alter_configs"] = refusing(T)
    run.client.start_broker(2)
    run.until(lambda _: "POLICY_VIOLATION" in run.runner.state.waiting, seconds=60)
    other_move_is_given_back(run)
    assert "0:1" in entries(own(run.client, T, LEADER_LIST))
    faulty.replaced.clear()
    run.until(lambda _: "0:1" not in entries(own(run.client, T, LEADER_LIST)), seconds=30)
    run.cancel()
    run.to_the_end(120)
    assert throttles(run.client) == before


@pytest.mark.parametrize("leave", [False, True], ids=["asked again", "left"])
def test_retention_that_cannot_be_put_back_holds_nothing_else_up(start: Start, leave: bool) -> None:
    prior = {name: {RETENTION: "172800000"} for name in "tu"}
    faulty = Faulty(cluster({"t": [(1, 2)], "u": [(4, 5)]}, topic_configs=prior))
    client = faulty.client
    before = throttles(client)
    plan = plan_of(client, {("t", 0): (3, 2), ("u", 0): (6, 5)})
    run = start(client, plan, through=faulty, batches=((0,), (1,)), retention_ms=3_600_000)
    run.until(submitted)
    faulty.replaced["alter_configs"] = refusing(T, RETENTION)
    run.until(lambda _: [m.state for m in run.view().moves] == [MoveStatus.DONE] * 2, seconds=120)
    run.until(lambda _: throttles(client) == before, seconds=30)
    assert retention(client, U) == "172800000"
    assert retention(client, T) == "3600000"
    run.until(lambda _: "a cancel leaves it" in run.view().why, seconds=30)
    assert run.view().state is RunStatus.WAITING
    assert run.view().why.startswith("the retention of t cannot be put back: POLICY_VIOLATION")
    if leave:
        run.cancel()
        assert run.to_the_end(60) is Outcome.INCOMPLETE
        assert run.view().why.endswith("it is left")
        assert retention(client, T) == "3600000"
    else:
        faulty.replaced.clear()
        assert run.to_the_end(60) is Outcome.DONE
        assert retention(client, T) == "172800000"


def test_retention_that_must_not_be_lowered_is_said_and_gone_without(start: Start) -> None:
    prior = {name: {RETENTION: "172800000"} for name in "tu"}
    faulty = Faulty(cluster({"t": [(1, 2)], "u": [(4, 5)]}, topic_configs=prior))
    client = faulty.client
    plan = plan_of(client, {("t", 0): (3, 2), ("u", 0): (6, 5)})
    faulty.replaced["alter_configs"] = refusing(T, RETENTION)
    run = start(client, plan, through=faulty, retention_ms=3_600_000)
    run.until(submitted, seconds=600)
    assert retention(client, T) == "172800000"
    assert retention(client, U) == "3600000"
    said = [event.text for event in run.view().events]
    assert "retention of t stays as it is: POLICY_VIOLATION" in said
    assert run.to_the_end(120) is Outcome.DONE
    assert retention(client, T) == retention(client, U) == "172800000"
    changed = changes(run.journal.records(), run.runner.state)
    assert [one.name for one in changed if one.config == RETENTION] == ["u"]


def test_retention_that_cannot_be_lowered_yet_is_asked_again(start: Start) -> None:
    faulty = Faulty(cluster({"t": [(1, 2)]}))
    client = faulty.client
    run = start(client, plan_of(client, {("t", 0): (3, 2)}), through=faulty, retention_ms=3_600_000)
    asked = []

    def busy(real: Callable[..., Any], changes: Any) -> Any:
        asked.append(changes)
        return {c.resource: Fault("REQUEST_TIMED_OUT") for c in changes}

    faulty.replaced["alter_configs"] = busy
    run.until(lambda _: len(asked) > 2, seconds=60)
    assert "it is asked again" in run.view().why
    faulty.replaced.clear()
    assert run.to_the_end(900) is Outcome.DONE
