"""What is refused before a run has written anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from run_help import (
    MB,
    TARGETS,
    TWO,
    Faulty,
    Start,
    cluster,
    plan_of,
)

from core import paths
from core.cluster.capacity import Capacity, with_broker_capacity
from core.cluster.client import with_state
from core.cluster.metadata import TopicPartition
from core.cluster.observer import fetch_cluster_state
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.state import ClusterState
from core.errors import DocumentError
from core.load.load import Load
from core.load.load_paths import live
from core.load.load_source import newest_load
from core.plan.estimate.estimate import estimate_at
from core.plan.estimate.estimate_json import format_estimate
from core.run.journal.move_state import Outcome

WRITES = {"alter_configs", "alter_reassignments", "cancel", "alter_log_dirs", "elect_leaders"}


def _dead(client: SimulatedCluster) -> None:
    client.stop_broker(4)


def _moving(client: SimulatedCluster) -> None:
    client.alter_reassignments({TopicPartition("t", 0): (5, 2)})


def _moved(client: SimulatedCluster) -> None:
    client.alter_reassignments({TopicPartition("t", 0): (2, 1)})


@pytest.mark.parametrize(
    ("meanwhile", "check"),
    [(_dead, "dead-broker"), (_moving, "foreign-move"), (_moved, "stale")],
    ids=["dead broker", "foreign move", "changed layout"],
)
def test_preflight_refuses_and_writes_nothing(
    start: Start, meanwhile: Callable[[SimulatedCluster], None], check: str
) -> None:
    client = cluster(TWO)
    plan = plan_of(client, TARGETS)
    meanwhile(client)
    run = start(client, plan)
    assert run.to_the_end() is Outcome.FAILED
    assert check in run.view().why
    assert not WRITES & set(run.faulty.calls)


def test_run_writes_nothing_to_a_cluster_other_than_its_own(start: Start) -> None:
    client, other = cluster(TWO), cluster(TWO, cluster_id="another-cluster-000000")
    faulty = Faulty(other)
    run = start(client, TARGETS, through=faulty)
    assert run.runner.run() is Outcome.FAILED
    assert "another-cluster-000000" in run.view().why
    assert not WRITES & set(faulty.calls)


def test_scheduled_run_writes_nothing_until_its_address_is_no_longer_another_clusters(
    start: Start,
) -> None:
    client = cluster(TWO)
    at = client.now + timedelta(hours=1)
    run = start(client, TARGETS, start_at=at)
    until = client.elapsed_seconds + 3600 + 20
    written: list[float] = []

    def another(real: Callable[..., ClusterState]) -> ClusterState:
        away = client.elapsed_seconds < until
        return replace(real(), cluster_id="another-cluster-000000") if away else real()

    def write(real: Callable[..., Any], *args: Any, **options: Any) -> Any:
        written.append(client.elapsed_seconds)
        return real(*args, **options)

    run.faulty.replaced = {"describe_cluster": another} | dict.fromkeys(WRITES, write)
    assert run.runner.run() is Outcome.DONE
    assert min(written) >= until
    assert any("another-cluster-000000" in event.text for event in run.view().events)


def test_damaged_load_snapshot_does_not_fail_a_run(start: Start) -> None:
    client = cluster(TWO)
    state, plan = fetch_cluster_state(client), plan_of(client, TARGETS)
    capacity = Capacity(100 * MB, 100 * MB)
    limited = with_state(client, lambda state: with_broker_capacity(state, capacity))
    asked = format_estimate(estimate_at(state, Load.unknown(state), plan, 5 * MB))
    damaged = live(paths.load_root(), state.cluster_id)
    damaged.parent.mkdir(parents=True)
    damaged.write_text("not Arrow")
    with pytest.raises(DocumentError):
        newest_load(state)
    run = start(client, plan, through=limited, estimate=asked)
    assert run.to_the_end() is Outcome.DONE
    assert run.state.estimate is not None
