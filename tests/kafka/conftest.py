"""What several files share: the contract's cluster, and a broker with rights and TLS."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from contract import GROUP, GROUP_TOPIC, TOPICS
from secured import SecuredBroker, secured_broker

from core import paths
from core.clock import SystemClock
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import consume, create_topics
from tests.sandbox_data import delete_topics, fill
from tests.waiting import eventually

LONGEST = "test_scenarios"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the longest file begin first, so that no worker is left alone with it at the end."""
    items.sort(key=lambda item: item.path.stem != LONGEST)


class RealCluster:
    """The sandbox, as the contract wants a cluster."""

    def __init__(self, sandbox: Sandbox, client: KafkaClient) -> None:
        self.client = client
        self.clock = SystemClock()
        self._sandbox = sandbox

    def stop_broker(self, broker: int) -> None:
        self._sandbox.stop(broker)

    def start_broker(self, broker: int) -> None:
        self._sandbox.start(broker)


@pytest.fixture
def empty_home(sandbox: Sandbox, tmp_path: Path) -> Path:
    """A home in which nothing is kept yet, but for Kafka's jars, which the session has."""
    made = tmp_path / "home"
    (made / "cache").mkdir(parents=True)
    (made / "cache" / "kafka").symlink_to(paths.jars_dir(sandbox.kafka).parent)
    return made


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture(params=["librdkafka", "kafka-python"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have records be written and read by either library, which leaves no thread of a producer."""
    if request.param == "kafka-python":
        monkeypatch.setattr(ConnectionSettings, "suits_librdkafka", False)
    yield
    eventually(lambda: not [t for t in threading.enumerate() if "network-thread" in t.name])


@contextmanager
def contract_cluster(sandbox: Sandbox, of_client: ConnectionSettings) -> Iterator[RealCluster]:
    """Give the contract's cluster to a client with these settings; who makes it may do all."""
    settings = sandbox.settings
    create_topics(settings, {name: layout.replicas for name, layout in TOPICS.items()})
    fill(
        settings,
        {
            TopicPartition(name, partition): layout.bytes_each
            for name, layout in TOPICS.items()
            if layout.bytes_each
            for partition in range(len(layout.replicas))
        },
    )
    stop = threading.Event()
    reader = threading.Thread(target=consume, args=(settings, GROUP, [GROUP_TOPIC], stop))
    reader.start()
    client = KafkaClient(of_client)
    yield RealCluster(sandbox, client)
    stop.set()
    reader.join()
    client.close()
    delete_topics(settings, list(TOPICS))


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox) -> Iterator[RealCluster]:
    with contract_cluster(sandbox, sandbox.settings) as made:
        yield made
