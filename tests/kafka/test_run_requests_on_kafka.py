"""What a run on real brokers is asked for, and what others do to it; all ends as found."""

from __future__ import annotations

import json

import pytest
from test_run_on_kafka import LASTING_MEGABYTES, Cluster, cluster
from waiting import eventually

from core.cluster.configs import (
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    ConfigChange,
    ConfigOp,
    Resource,
)
from core.errors import ExitCode

__all__ = ["cluster"]  # the fixture


def rate(cluster: Cluster, broker: int, name: str) -> str:
    value = cluster.throttles().get(Resource.broker(broker), {}).get(name)
    return "" if value is None else value.value or ""


def begin(cluster: Cluster, targets: dict[tuple[str, int], tuple[int, ...]]) -> str:
    start = ("--throttle", "1MB/s", "--yes", "--json", "--detach", "--allow", "rack-spread")
    applied = cluster.trimtab("apply", cluster.plan(targets), *start)
    assert applied.returncode == ExitCode.DONE, applied.stderr
    run = str(json.loads(applied.stdout)["run"])
    eventually(lambda: bool(cluster.client.fetch_reassignments()))
    return run


def test_a_run_is_paused_resumed_sped_up_and_rolled_back(cluster: Cluster) -> None:
    cluster.topic("ask-a", [(2, 1)], LASTING_MEGABYTES)
    cluster.topic("ask-order", [(1, 2)], 1)
    before = cluster.throttles()
    run = begin(cluster, {("ask-a", 0): (3, 1), ("ask-order", 0): (2, 1)})
    assert cluster.trimtab("runs", "pause", run, "--floor").returncode == ExitCode.DONE
    eventually(lambda: rate(cluster, 3, FOLLOWER_RATE) == "1")
    assert rate(cluster, 2, LEADER_RATE) == "1000000"
    assert cluster.show(run)["state"] == "paused"
    assert cluster.trimtab("runs", "resume", run).returncode == ExitCode.DONE
    eventually(lambda: int(rate(cluster, 3, FOLLOWER_RATE) or 0) > 1)
    assert cluster.trimtab("runs", "throttle", run, "2MB/s").returncode == ExitCode.DONE
    # It rises bit by bit; how, the simulated cluster shows in no time.
    eventually(lambda: int(rate(cluster, 2, LEADER_RATE) or 0) > 1_000_000)
    assert cluster.show(run)["rate_bytes_per_s"] == 2_000_000
    assert cluster.trimtab("runs", "rollback", run, "--yes").returncode in (
        ExitCode.DONE,
        ExitCode.INCOMPLETE,
    )
    assert cluster.follow("runs", "attach", run).returncode == ExitCode.INCOMPLETE
    eventually(lambda: cluster.replicas("ask-a", 0) == (2, 1))
    eventually(lambda: cluster.replicas("ask-order", 0) == (1, 2))
    eventually(lambda: cluster.throttles() == before)
    assert not cluster.client.fetch_reassignments()


@pytest.mark.scenario
def test_throttles_that_somebody_deletes_under_a_run_are_put_back(cluster: Cluster) -> None:
    cluster.topic("ask-b", [(1, 2)], LASTING_MEGABYTES)
    before = cluster.throttles()
    run = begin(cluster, {("ask-b", 0): (1, 3)})
    eventually(lambda: rate(cluster, 3, FOLLOWER_RATE) == "1000000")
    topic = Resource.topic("ask-b")
    changes = [  # the follower side still limits the copy: without both it is over in a moment
        ConfigChange(Resource.broker(1), LEADER_RATE, ConfigOp.DELETE),
        ConfigChange(topic, LEADER_LIST, ConfigOp.DELETE),
    ]
    assert set(cluster.client.alter_configs(changes).values()) == {None}
    eventually(lambda: any(event["kind"] == "disturbed" for event in cluster.show(run)["story"]))
    eventually(lambda: rate(cluster, 1, LEADER_RATE) == "1000000")
    eventually(
        lambda: (
            set((cluster.throttles()[topic][LEADER_LIST].value or "").split(","))
            == {"0:1", "0:2", "0:3"}
        )
    )
    assert cluster.trimtab("runs", "cancel", run, "--yes").returncode == ExitCode.DONE
    assert cluster.follow("runs", "attach", run).returncode == ExitCode.INCOMPLETE
    eventually(lambda: cluster.replicas("ask-b", 0) == (1, 2))
    eventually(lambda: cluster.throttles() == before)
