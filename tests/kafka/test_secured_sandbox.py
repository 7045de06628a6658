"""A secured sandbox: its operator keeps the contract by each way in, its nobody may do nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import RealCluster, contract_cluster
from contract import ClientContract

from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox.logins import ClientLogin, Way
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics

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
