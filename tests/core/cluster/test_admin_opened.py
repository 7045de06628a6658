"""What confluent-kafka asks first: whether anybody is there, not whether a dead broker answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka.errors import KafkaConnectionError, KafkaTimeoutError

from core.cluster.client import OffsetAt
from core.cluster.configs import ConfigChange, ConfigOp, Resource
from core.cluster.kafka import admin as admin_module
from core.cluster.kafka.admin import Admin
from core.cluster.kafka.configs import alter_configs, describe_configs, describe_topic_configs
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.groups import (
    describe_active_consumer_groups,
    describe_consumer_groups,
    fetch_committed,
)
from core.cluster.kafka.log_dirs import alter_log_dirs, describe_log_dirs
from core.cluster.kafka.offsets import fetch_offsets
from core.cluster.metadata import TopicPartition
from core.errors import UnreachableError

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
TOPICS = (Resource.topic("t"), Resource.topic("u"))
TIMED_OUT = "REQUEST_TIMED_OUT"
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
    monkeypatch.setattr(admin_module, "create_admin_client", lambda _: Brokers(answer=answer))
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
    monkeypatch.setattr(admin_module, "create_admin_client", lambda _: Brokers(answer=True))
    admin = Admin(ConnectionSettings("h:1"))
    first = admin.client()
    for up in ([], [1], [1, 2]):
        admin.reopen_if_unknown(up)
        assert admin.client() is first
    admin.reopen_if_unknown([2, 3])
    assert admin.client() is not first


def test_it_is_opened_anew_for_who_leads_but_not_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A partition that nobody leads is asked for at each look."""
    now = [100.0]
    monkeypatch.setattr(admin_module, "create_admin_client", lambda _: Brokers(answer=True))
    monkeypatch.setattr(admin_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    admin = Admin(ConnectionSettings("h:1"))
    first = admin.client()
    assert not admin.reopen_for_leaders()
    now[0] += admin_module.MIN_REOPEN_SECONDS
    assert admin.reopen_for_leaders()
    assert admin.client() is not first
    assert not admin.reopen_for_leaders()


class Failing:
    """A confluent-kafka admin each of whose answers is an error."""

    def __init__(self, *errors: int) -> None:
        self._errors = errors

    def list_offsets(self, asked: dict[Any, Any], **_: object) -> dict[Any, Any]:
        return self.describe_configs(list(asked))

    def list_consumer_groups(self, **_: object) -> Any:
        state = SimpleNamespace(name="STABLE")
        valid = [SimpleNamespace(group_id=id, state=state) for id in "ab"]
        return SimpleNamespace(result=lambda: SimpleNamespace(valid=valid, errors=[]))

    def describe_consumer_groups(self, asked: list[Any], **_: object) -> dict[Any, Any]:
        return self.describe_configs(asked)

    def incremental_alter_configs(self, asked: list[Any], **_: object) -> dict[Any, Any]:
        return self.describe_configs(asked)

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
    ("ask", "first"),
    [
        (lambda admin: fetch_offsets(admin, PARTITIONS, OffsetAt.LATEST), 0),
        (lambda admin: describe_topic_configs(admin, TOPICS, ["a"]), 0),
        (lambda admin: alter_configs(admin, [replace(CHANGE, resource=t) for t in TOPICS]), 0),
        (lambda admin: describe_consumer_groups(admin, None, lambda _: {}), 1),
        (lambda admin: describe_active_consumer_groups(admin, 9), 1),
    ],
    ids=["offsets", "configs", "alter configs", "groups", "active groups"],
)
def test_silence_is_no_answer(
    ask: Callable[[Admin], object],
    first: int,
    errors: tuple[int, ...],
    heard: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`first` are answers that come before: groups are listed before they are described."""
    admin = Admin(ConnectionSettings("h:1"))
    monkeypatch.setattr(admin, "client", lambda: Failing(*errors))
    came: list[None] = []
    monkeypatch.setattr(admin, "record_answer", lambda: came.append(None))
    ask(admin)
    assert len(came) == first + heard


@pytest.mark.parametrize(
    ("error", "listed", "known", "heard"),
    [
        (None, "", 3, True),
        (KafkaError._TIMED_OUT, "a", 3, True),
        (KafkaError._TIMED_OUT, "", 3, True),
        (KafkaError._TIMED_OUT, "", 1, False),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "", 1, True),
    ],
)
def test_brokers_that_list_no_group_have_answered(
    error: int | None, listed: str, known: int, heard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [] if error is None else [KafkaException(KafkaError(error, "broker 2"))]
    valid = [SimpleNamespace(group_id=id, state=SimpleNamespace(name="EMPTY")) for id in listed]
    told = SimpleNamespace(result=lambda: SimpleNamespace(valid=valid, errors=errors))
    admin = Admin(ConnectionSettings("h:1"))
    monkeypatch.setattr(Admin, "known_broker_count", property(lambda _: known))
    one = SimpleNamespace(list_consumer_groups=lambda **_: told)
    monkeypatch.setattr(admin, "client", lambda: one)
    with suppress(UnreachableError):  # nobody else lists groups
        describe_active_consumer_groups(admin, 9)
    assert (admin.last_answer_at > -math.inf) is heard


@pytest.mark.parametrize("answer", [KafkaTimeoutError("broker 2"), KafkaConnectionError()])
@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (
            lambda wire: fetch_committed(wire, {"g": 2}),
            lambda found: {id: fault.name for id, fault in found.items()} == {"g": TIMED_OUT},
        ),
        (
            lambda wire: alter_log_dirs(wire, {(PARTITIONS[0], 2): "/d"}),
            lambda found: [fault.name for fault in found.values()] == [TIMED_OUT],
        ),
        (lambda wire: describe_log_dirs(wire, [2]), lambda found: found[0].error is not None),
        (
            lambda wire: describe_configs(wire, [Resource.broker(2)], ["a"]),
            lambda found: found[Resource.broker(2)].name == TIMED_OUT,
        ),
    ],
    ids=["committed", "alter log dirs", "log dirs", "configs of brokers"],
)
def test_what_a_broker_left_without_an_answer_is_unknown(
    ask: Callable[[Any], Any], told: Callable[[Any], bool], answer: Exception
) -> None:
    """Neither a value nor a refusal: what was asked for may have been done."""
    version = SimpleNamespace(api_version=lambda _: 8)
    manager = SimpleNamespace(broker_version_data=version)
    wire = SimpleNamespace(
        manager=lambda: manager, ask_each=lambda requests: dict.fromkeys(requests, answer)
    )
    assert told(ask(wire))


def test_a_commit_that_is_not_told_is_unknown() -> None:
    """A partition with an error is not one without a commit."""

    def partition(offset: int, error: int) -> Any:
        return SimpleNamespace(partition_index=0, committed_offset=offset, error_code=error)

    def asked(*partitions: Any) -> Any:
        topics = [SimpleNamespace(name=f"t{n}", partitions=[p]) for n, p in enumerate(partitions)]
        group = SimpleNamespace(group_id="g", error_code=0, topics=topics)
        each = {2: SimpleNamespace(groups=[group])}
        version = SimpleNamespace(api_version=lambda _: 8)
        manager = SimpleNamespace(broker_version_data=version)
        wire: Any = SimpleNamespace(manager=lambda: manager, ask_each=lambda _: each)
        return fetch_committed(wire, {"g": 2})["g"]

    assert asked(partition(5, 0), partition(-1, 0)) == {TopicPartition("t0", 0): 5}
    assert asked(partition(5, 0), partition(-1, 88)).name == "UNSTABLE_OFFSET_COMMIT"
