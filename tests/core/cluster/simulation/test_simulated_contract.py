"""The client contract on the simulated cluster, in process and through the simulator's socket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from contract import (
    GROUP,
    GROUP_TOPIC,
    RACKS,
    TOPICS,
    BrokerDownContract,
    ClientContract,
)
from simulated import small_spec

from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.client import SimulatorClient
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.server import SimulatorServer
from core.cluster.simulation.spec import ClusterSpec, GroupSpec

SPEED = 50.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """A client with its clock, and what breaks its brokers."""

    client: ClusterClient
    clock: Clock
    inside: SimulatedCluster | SimulatorClient

    def stop_broker(self, broker: int) -> None:
        self.inside.stop_broker(broker)

    def start_broker(self, broker: int) -> None:
        self.inside.start_broker(broker)


def contract_spec() -> ClusterSpec:
    return small_spec(
        {name: layout.replicas for name, layout in TOPICS.items()},
        racks=RACKS,
        size_bytes={
            TopicPartition(name, i): layout.bytes_each
            for name, layout in TOPICS.items()
            for i in range(len(layout.replicas))
        },
        groups=(GroupSpec(GROUP, (GROUP_TOPIC,)),),
    )


@pytest.fixture(scope="class", params=["in process", "socket"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Simulated]:
    inside = SimulatedCluster(contract_spec())
    if request.param == "in process":
        yield Simulated(inside, inside.clock, inside)
        return
    folder: Path = tmp_path_factory.mktemp("s")
    server = SimulatorServer(inside, folder / "s", SPEED)
    server.start()
    client = SimulatorClient(server.path)
    yield Simulated(client, client.clock, client)
    client.close()
    server.stop()


class TestSimulatedClient(ClientContract):
    pass


class TestSimulatedClientWithABrokerDown(BrokerDownContract):
    pass
