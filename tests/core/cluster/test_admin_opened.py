"""What confluent-kafka asks first: whether anybody is there, not whether a dead broker answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from confluent_kafka import KafkaError, KafkaException

from core.cluster.client import ConfigChange, ConfigOp, Resource
from core.cluster.kafka import admin as admin_module
from core.cluster.kafka.admin import Admin
from core.cluster.kafka.connection import ConnectionSettings
from core.cluster.kafka.topic_configs import alter_configs
from core.errors import UnreachableError

CHANGE = ConfigChange(Resource.topic("t"), "retention.ms", ConfigOp.SET, "1000")


class Brokers:
    """A confluent-kafka admin that waits for the controller in vain; others may answer."""

    def __init__(self, *, answer: bool) -> None:
        self._answer = answer

    def describe_cluster(self, request_timeout: float) -> Any:
        def result() -> NoReturn:
            why = "Failed while waiting for controller: Local: Timed out"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, why))

        return SimpleNamespace(result=result)

    def list_topics(self, timeout: float) -> object:
        if not self._answer:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "Local: Broker transport"))
        return object()

    def incremental_alter_configs(self, resources: list[Any], **_: object) -> dict[Any, Any]:
        return {resource: SimpleNamespace(result=lambda: None) for resource in resources}


def altered(monkeypatch: pytest.MonkeyPatch, *, answer: bool) -> object:
    monkeypatch.setattr(admin_module, "quiet_admin", lambda _: Brokers(answer=answer))
    return alter_configs(Admin(ConnectionSettings("h:1")), [CHANGE])


def test_a_cluster_whose_controller_has_just_died_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers name any of them as the controller, for seconds also one that is gone."""
    assert altered(monkeypatch, answer=True) == {CHANGE.resource: None}


def test_a_cluster_of_which_nobody_answers_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreachableError):
        altered(monkeypatch, answer=False)
