"""What confluent-kafka asks first: whether anybody is there, not whether a dead broker answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from confluent_kafka import KafkaError, KafkaException

from core.cluster.client import ConfigChange, ConfigOp, OffsetAt, Resource
from core.cluster.kafka import admin as admin_module
from core.cluster.kafka.admin import Admin
from core.cluster.kafka.connection import ConnectionSettings
from core.cluster.kafka.offsets import offsets
from core.cluster.kafka.topic_configs import alter_configs, topic_configs
from core.cluster.state import TopicPartition
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
        return SimpleNamespace(brokers={1: None, 2: None})

    def close(self) -> None:
        """Nothing is left of it."""

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


def test_it_is_opened_anew_where_a_broker_is_up_that_it_cannot_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admin_module, "quiet_admin", lambda _: Brokers(answer=True))
    admin = Admin(ConnectionSettings("h:1"))
    first = admin.client()
    for up in ([], [1], [1, 2]):
        admin.keep_up(up)
        assert admin.client() is first
    admin.keep_up([2, 3])
    assert admin.client() is not first


def test_it_is_opened_anew_for_who_leads_but_not_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A partition that nobody leads is asked for at each look."""
    now = [100.0]
    monkeypatch.setattr(admin_module, "quiet_admin", lambda _: Brokers(answer=True))
    monkeypatch.setattr(admin_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    admin = Admin(ConnectionSettings("h:1"))
    first = admin.client()
    assert not admin.forget_leaders()
    now[0] += admin_module.REOPENED_SECONDS
    assert admin.forget_leaders()
    assert admin.client() is not first
    assert not admin.forget_leaders()


class Failing:
    """A confluent-kafka admin each of whose answers is an error."""

    def __init__(self, *errors: int) -> None:
        self._errors = errors

    def list_offsets(self, asked: dict[Any, Any], **_: object) -> dict[Any, Any]:
        return self.describe_configs(list(asked))

    def describe_configs(self, asked: list[Any], **_: object) -> dict[Any, Any]:
        return {
            one: SimpleNamespace(result=partial(self._fail, error))
            for one, error in zip(asked, self._errors, strict=True)
        }

    def _fail(self, error: int) -> NoReturn:
        raise KafkaException(KafkaError(error, "why"))


@pytest.mark.parametrize(
    ("errors", "heard"),
    [
        ((KafkaError._TIMED_OUT, KafkaError._TIMED_OUT), False),
        ((KafkaError._TIMED_OUT, KafkaError._TRANSPORT), False),
        ((KafkaError._TIMED_OUT, KafkaError.INVALID_REQUEST), True),
    ],
)
@pytest.mark.parametrize(
    "ask",
    [
        lambda admin: offsets(
            admin, [TopicPartition("t", 0), TopicPartition("t", 1)], OffsetAt.LATEST
        ),
        lambda admin: topic_configs(admin, [Resource.topic("t"), Resource.topic("u")], ["a"]),
    ],
    ids=["offsets", "configs"],
)
def test_silence_is_no_answer(
    ask: Callable[[Admin], object],
    errors: tuple[int, ...],
    heard: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = Admin(ConnectionSettings("h:1"))
    monkeypatch.setattr(admin, "client", lambda: Failing(*errors))
    ask(admin)
    assert (admin.heard_at > -math.inf) is heard
