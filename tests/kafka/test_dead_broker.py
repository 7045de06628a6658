"""Asking a broker that has just died: it is waited for, which costs time and nothing else."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from core.cluster.client import Fault, Resource
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection import ConnectionSettings
from core.cluster.sandbox.sandbox import Sandbox

DEAD = 4
MOST_SECONDS = 0.5


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[KafkaClient]:
    client = KafkaClient(ConnectionSettings(sandbox.bootstrap))
    yield client
    client.close()
    sandbox.start(DEAD)


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def test_waiting_for_a_broker_that_has_died_takes_no_processor(
    sandbox: Sandbox, client: KafkaClient
) -> None:
    broker = Resource.broker(DEAD)
    assert isinstance(client.configs([broker])[broker], dict)
    sandbox.kill(DEAD)
    for _ in range(2):  # at first its connection breaks, then there is none
        before = processor_seconds()
        answers = client.configs([Resource.broker(1), broker])
        assert isinstance(answers[broker], Fault)
        assert processor_seconds() - before < MOST_SECONDS
