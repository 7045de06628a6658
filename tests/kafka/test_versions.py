"""Other versions of Kafka than the sandbox's own keep the contract, and carry a run out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import RealCluster, contract_cluster
from contract import (
    BrokerDownContract,
    ClientContract,
    ContractCluster,
    described,
    held,
    replicas,
    until,
)
from on_kafka import client_with, trimtab, verify

from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.errors import ExitCode

OLDEST, NEWEST = "3.9.2", "4.4.0"
TOPIC = "version.moved"


def of_kafka(*versions: str) -> pytest.MarkDecorator:
    """Have a test, or all of a class, be played on brokers of these versions."""
    return pytest.mark.parametrize("of_version", versions, indirect=True, scope="module")


@pytest.fixture(scope="module")
def of_version(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Four brokers of that version, in racks a, b, a, b."""
    name = f"kafka-{request.param}-{os.getpid()}"
    sandbox = Sandbox.up(name, (1, 2, 3, 4), 2, kafka=request.param)
    yield sandbox
    sandbox.down()


@pytest.fixture(scope="module")
def cluster(of_version: Sandbox) -> Iterator[RealCluster]:
    with contract_cluster(of_version, of_version.settings) as made:
        yield made


@of_kafka(NEWEST)
class TestNewest(ClientContract):
    pass


@of_kafka(NEWEST)
class TestNewestWithABrokerDown(BrokerDownContract):
    pass


@of_kafka(OLDEST)
class TestOldest(ClientContract):
    def test_original_replicas_resubmitted_in_flight_end_only_by_cancelling(
        self, cluster: ContractCluster
    ) -> None:
        """Brokers of 3.9 end it at once, as all replicas of the target are in sync."""
        tp = TopicPartition("contract.returned", 0)
        with held(cluster, tp.topic):
            assert cluster.client.alter_reassignments({tp: (2, 4)}) == {tp: None}
            assert cluster.client.alter_reassignments({tp: (1, 3)}) == {tp: None}
            assert cluster.client.fetch_reassignments() == {}
        until(cluster, lambda: replicas(cluster, tp) == (1, 3))


@of_kafka(OLDEST)
class TestOldestWithABrokerDown(BrokerDownContract):
    def test_a_stopped_broker_is_still_known_with_its_rack(self, down: ContractCluster) -> None:
        """Those of 3.9 tell of brokers that are up (KIP-1073): others are known by replicas."""
        broker = down.client.describe_cluster().broker_by_id[4]
        assert (broker.alive, broker.rack) == (False, None)

    def test_reassignment_completes_without_waiting_for_a_replica_that_is_down(
        self, down: ContractCluster
    ) -> None:
        """On 3.9 it does, with the copy in sync."""
        tp = TopicPartition("contract.beside", 0)
        assert down.client.alter_reassignments({tp: (1, 4, 3)}) == {tp: None}
        until(down, lambda: 3 in described(down, tp).isr)
        assert down.client.fetch_reassignments()[tp].adding == (3,)
        assert down.client.cancel_reassignments([tp]) == {tp: None}
        until(down, lambda: sorted(replicas(down, tp)) == [1, 2, 4])


@of_kafka(OLDEST, NEWEST)
def test_throttled_run_is_completed_according_to_kafkas_own_tool(
    of_version: Sandbox, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    target = {"topic": TOPIC, "partition": 0, "replicas": [3, 2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [target]}))
    with client_with(of_version, {TOPIC: [(1, 2)]}, bytes_each=5_000_000):
        words = ("apply", plan, "--throttle", "20MB/s", "--yes", "--json")
        done = trimtab(of_version.bootstrap, *words)
        assert done.returncode == ExitCode.DONE, done.stderr
        ended = json.loads(done.stdout.splitlines()[-1])
        assert (ended["event"], ended["outcome"]) == ("ended", "done")
        assert ended["moved_bytes"] >= 5_000_000
        assert f"Reassignment of partition {TOPIC}-0 is completed." in verify(of_version, plan)
        left = trimtab(of_version.bootstrap, "throttles", "ls", "--json")
        assert json.loads(left.stdout) == []
