"""A secured sandbox: its operator keeps the contract by each way in, its nobody may do nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import RealCluster, contract_cluster
from contract import ClientContract

from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox.logins import ClientLogin, Way
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.errors import UsageError
from tests.waiting import eventually

TOPIC = "secured"


@pytest.fixture(scope="module")
def locked() -> Iterator[Sandbox]:
    """A secured sandbox of four brokers in racks a, b, a, b, with one topic."""
    sandbox = Sandbox.up(f"locked-{os.getpid()}", (1, 2, 3, 4), 2, secured=True)
    create_topics(sandbox.settings, {TOPIC: [(1, 2)]})
    yield sandbox
    sandbox.down()


def command_line(login: ClientLogin) -> tuple[str, str, Path]:
    return login.bootstrap, "--command-config", login.properties


@pytest.fixture(scope="class", params=Way, ids=lambda way: way.value)
def cluster(locked: Sandbox, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """The contract's cluster, to its operator by each way in."""
    login = locked.login("operator", request.param)
    settings = ConnectionSettings.load(login.bootstrap, login.properties)
    with contract_cluster(locked, settings) as made:
        yield made


class TestOperator(ClientContract):
    pass


def test_a_delegation_token_logs_in(locked: Sandbox, tmp_path: Path) -> None:
    """Of librdkafka's clients, which cannot, it is said before anything is tried."""
    login = locked.login("operator", Way.SCRAM)
    answer = locked.tool(
        "org.apache.kafka.tools.DelegationTokenCommand",
        *("--create", "--max-life-time-period", "-1", "--bootstrap-server", login.bootstrap),
        *("--command-config", str(login.properties)),
    )
    (row,) = (line for line in answer.stdout.splitlines() if "User:operator" in line)
    token_id, hmac, *_ = row.split()
    properties = tmp_path / "token.properties"
    lines = login.properties.read_text().splitlines()
    options = f'username="{token_id}" password="{hmac}" tokenauth="true"'
    jaas = f"sasl.jaas.config=x.ScramLoginModule required {options};"
    properties.write_text("\n".join(jaas if "jaas" in line else line for line in lines))
    settings = ConnectionSettings.load(login.bootstrap, properties)
    assert hmac not in repr(settings)
    client = KafkaClient(settings)
    # The broker that was asked knows it; the others hear of it a moment later.
    eventually(lambda: client.describe_cluster().topics)
    client.close()
    with pytest.raises(UsageError, match="delegation tokens"):
        settings.check_records()
