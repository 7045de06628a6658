"""The simulator serves its cluster to several clients and outlives each of them."""

from __future__ import annotations

import json
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import eventually

from core.cluster.client import NewTopic, OffsetAt
from core.cluster.configs import ConfigSource, ConfigValue, Resource
from core.cluster.connect import Address, connect
from core.cluster.groups import ActiveGroups, Group, Member
from core.cluster.kafka_errors import Fault
from core.cluster.log_dirs import BrokerLogs, ReplicaLog
from core.cluster.metadata import LogDir, TopicPartition
from core.cluster.simulation.client import SimulatorClient
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.codec import decode, encode
from core.cluster.simulation.demo import demo_spec
from core.cluster.simulation.server import SimulatorServer
from core.errors import UnreachableError

SPEED = 20.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SimulatorServer]:
    server = SimulatorServer(SimulatedCluster(demo_spec(5, 6, 300), 5), tmp_path / "s", SPEED)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(server: SimulatorServer) -> Iterator[SimulatorClient]:
    client = SimulatorClient(server.path)
    yield client
    client.close()


TP = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 0.5, "orders", (), (1, "a"), frozenset(), frozenset((TP,)), {}),
        {(TP, 1): Fault("LOG_DIR_NOT_FOUND", "no"), (TP, 2): None},
        {Resource.topic("orders"): {"a": ConfigValue("1", ConfigSource.TOPIC)}},
        (NewTopic("t", ((1, 2), (2, 1)), {"retention.ms": "1"}), OffsetAt.LATEST),
        (BrokerLogs(1, (LogDir("/d", 5),), (ReplicaLog("orders", 0, 7, 0, "/d"),) * 2),),
        ActiveGroups(
            (Group("g", "stable", "range", 1, (Member("m", "c", "/h", (TP,)),), {TP: 7}),)
        ),
    ],
)
def test_value_is_unchanged_by_encoding_and_decoding(value: object) -> None:
    assert decode(json.loads(json.dumps(encode(value)))) == value


def test_values_that_cannot_be_encoded_or_decoded_raise_an_error() -> None:
    with pytest.raises(TypeError, match="object does not travel"):
        encode([object()])
    for document in ([], ["no such"], ["dict", 1, 2], ["tuple"]):
        with pytest.raises((KeyError, TypeError, ValueError)):
            decode(document)


def test_client_receives_the_cluster_state_as_the_server_has_it(
    server: SimulatorServer, client: SimulatorClient
) -> None:
    here, there = server.cluster.describe_cluster(), client.describe_cluster()
    assert (there.cluster_id, there.brokers, there.topics) == (
        here.cluster_id,
        here.brokers,
        here.topics,
    )
    assert list(there.rows()) == list(here.rows())
    assert not there.leader.flags.writeable


def test_simulated_clock_runs_at_its_speed_in_both_client_and_server(
    server: SimulatorServer, client: SimulatorClient
) -> None:
    # Each reading of its clock lies between two of ours, however long anything takes.
    began, at, since = time.monotonic(), client.clock.monotonic(), time.monotonic()
    client.clock.sleep(4)
    until, passed, ended = time.monotonic(), client.clock.monotonic() - at, time.monotonic()
    assert (until - since) * SPEED <= passed <= (ended - began) * SPEED
    assert passed >= 4

    def agree() -> bool:
        return abs((client.clock.now() - server.cluster.now).total_seconds()) < 0.5 * SPEED

    eventually(agree)


def test_several_clients_are_served_at_once(server: SimulatorServer) -> None:
    seen: list[int] = []

    def work() -> None:
        client = SimulatorClient(server.path)
        for _ in range(10):
            seen.append(client.describe_cluster().partition_count)
        client.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert seen == [300] * 40


def test_client_that_dies_mid_request_does_not_disturb_other_clients(
    server: SimulatorServer, client: SimulatorClient
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as rude:
        rude.connect(str(server.path))
        rude.sendall(b'{"call": "desc')
    assert client.describe_cluster().partition_count == 300


@pytest.mark.parametrize(
    "request_line", [b"nonsense\n", b"[]\n", b'{"call": "no such"}\n', b'{"call": "cancel"}\n']
)
def test_a_bad_request_is_answered_with_an_error(
    server: SimulatorServer, client: SimulatorClient, request_line: bytes
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.connect(str(server.path))
        other.sendall(request_line)
        with other.makefile("rb") as answers:
            assert "error" in json.loads(answers.readline())
    assert client.describe_cluster().partition_count == 300


def test_client_can_inject_broker_and_disk_faults_into_the_simulator(
    client: SimulatorClient,
) -> None:
    client.stop_broker(1)
    assert not client.describe_cluster().brokers[0].alive
    client.start_broker(1)
    client.fill_disk(2)
    assert client.describe_cluster().brokers[0].alive
    assert client.describe_log_dirs([2])[0].log_dirs[0].error is not None


def test_the_socket_is_private(server: SimulatorServer) -> None:
    assert stat.S_IMODE(server.path.stat().st_mode) == 0o600


def test_calls_and_connections_without_a_simulator_raise_unreachable(
    server: SimulatorServer, client: SimulatorClient, tmp_path: Path
) -> None:
    server.stop()
    with pytest.raises(UnreachableError):
        client.describe_cluster()
    with pytest.raises(UnreachableError):
        connect(Address(f"sim:{tmp_path / 'nothing'}"))
    client.shutdown()
