"""A broker that has just died is waited for, which costs time and nothing else."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from core.cluster.client import FOLLOWER_RATE, ConfigChange, ConfigOp, Fault, Resource
from core.cluster.kafka.admin import Admin
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection import ConnectionSettings
from core.cluster.sandbox.sandbox import Sandbox
from core.errors import UnreachableError
from tests.waiting import eventually

DEAD = 4
MOST_SECONDS = 0.5


BROKER = Resource.broker(DEAD)


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[KafkaClient]:
    client = KafkaClient(ConnectionSettings(sandbox.bootstrap))
    yield client
    sandbox.start(DEAD)
    eventually(lambda: unset(client) is None)
    client.close()


def unset(client: KafkaClient) -> Fault | None:
    change = ConfigChange(BROKER, FOLLOWER_RATE, ConfigOp.DELETE)
    return client.alter_configs([change])[BROKER]


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def test_waiting_for_a_broker_that_has_died_takes_no_processor(
    sandbox: Sandbox, client: KafkaClient
) -> None:
    assert unset(client) is None
    sandbox.kill(DEAD)
    for _ in range(2):  # at first its connection breaks, then there is none
        before = processor_seconds()
        answers = client.configs([Resource.broker(1), BROKER])
        assert isinstance(answers[BROKER], Fault)
        assert isinstance(unset(client), Fault)
        assert processor_seconds() - before < MOST_SECONDS


def test_who_first_looks_while_it_is_down_knows_it_when_it_is_back(
    sandbox: Sandbox, client: KafkaClient
) -> None:
    sandbox.kill(DEAD)
    eventually(lambda: not client.describe().broker_by_id[DEAD].alive)
    assert isinstance(unset(client), Fault)
    sandbox.start(DEAD)
    eventually(lambda: unset(client) is None)


def test_one_broker_s_broken_connection_is_not_the_cluster_s(sandbox: Sandbox) -> None:
    broken = [Fault("TRANSPORT", "Failed while waiting for response from broker")]
    admin = Admin(ConnectionSettings(sandbox.bootstrap))
    admin.raise_if_nothing(broken, of_brokers=True)
    with pytest.raises(UnreachableError):
        admin.raise_if_nothing(broken)
    admin.close()


def test_every_broker_s_silence_is_the_cluster_s() -> None:
    admin = Admin(ConnectionSettings("127.0.0.1:1"))
    with pytest.raises(UnreachableError):
        admin.raise_if_nothing([Fault("TRANSPORT", "")], of_brokers=True)
