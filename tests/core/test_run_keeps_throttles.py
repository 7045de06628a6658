"""Throttles of a run that change under it, while they are set, raised, kept and put back."""

from __future__ import annotations

from typing import Any

import pytest
from run_help import Faulty, Run, Start, cluster, plan_of, throttles

from core.cluster.client import (
    ConfigChange,
    ConfigOp,
    Fault,
    Resource,
)
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import TopicPartition
from core.run.journal import Kind
from core.run.steps import IntendThrottles, Step, Submit

T, B3 = Resource.topic("t"), Resource.broker(3)


def submitted(step: Step) -> bool:
    return isinstance(step, Submit)


def own(client: SimulatedCluster, resource: Resource, name: str) -> str | None:
    found = throttles(client)[resource].get(name)
    return found.value or None if found else None


def delete(client: SimulatedCluster, resource: Resource, *names: str) -> None:
    changes = [ConfigChange(resource, name, ConfigOp.DELETE) for name in names]
    assert client.alter_configs(changes) == {resource: None}


def spend(run: Run, seconds: float) -> None:
    end = run.client.elapsed_seconds + seconds
    while run.client.elapsed_seconds < end and run.runner.history.ended is None:
        run.runner.advance()


def ask(run: Run, kind: str, **payload: Any) -> None:
    run.journal.ask(run.client.now, kind, {**payload, "who": "ann", "host": "here"})


def count(run: Run, kind: Kind) -> int:
    return sum(record.kind is kind for record in run.journal.records())


def refuse_to_set(real: Any, changes: Any) -> Any:
    """Answer as a cluster whose policy allows nothing but taking throttles away."""
    adding = {c.resource for c in changes if c.op in (ConfigOp.SET, ConfigOp.APPEND)}
    answers = real([c for c in changes if c.resource not in adding])
    return answers | {resource: Fault("POLICY_VIOLATION") for resource in adding}


# -- between what is intended and what is set -----------------------------------------------------


@pytest.mark.parametrize("befalls", ["skipped", "cancelled", "deleted", "moved by somebody else"])
@pytest.mark.parametrize("refused", [False, True], ids=["", "and setting is refused"])
def test_a_move_that_ends_before_its_throttles_are_set_leaves_none(
    start: Start, befalls: str, refused: bool
) -> None:
    client = cluster({"t": [(1, 2)], "u": [(1, 2)]})
    before = throttles(client)
    faulty = Faulty(client)
    targets = {("t", 0): (3, 2), ("u", 0): (4, 2)}
    run = start(client, plan_of(client, targets), through=faulty)
    run.until(lambda step: isinstance(step, IntendThrottles))
    if befalls == "skipped":
        ask(run, "skip", moves=[1])
    elif befalls == "cancelled":
        ask(run, "cancel", moves=[1])
    elif befalls == "deleted":
        client.delete_topic("u")
        before.pop(Resource.topic("u"))
    else:
        client.alter_reassignments({TopicPartition("u", 0): (5, 2)})
        client.clock.sleep(60)
    if refused:
        faulty.replaced["alter_configs"] = refuse_to_set
    run.to_the_end()
    assert throttles(client) == before
