"""librdkafka's clients are destroyed before the process ends, whatever holds them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from servers import server, silent

from core.cluster.client import OffsetAt
from core.cluster.configs import ConfigChange, ConfigOp, Resource
from core.cluster.kafka import admin as admin_module
from core.cluster.kafka.admin import Admin, ClosableClient, create_admin_client
from core.cluster.kafka.configs import alter_configs, describe_topic_configs
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.groups import describe_active_consumer_groups
from core.cluster.kafka.offsets import fetch_offsets
from core.cluster.metadata import TopicPartition


class Client:
    """A client whose one call takes until it is let go."""

    def __init__(self) -> None:
        self.destroyed = 0
        self.called, self.let_go = threading.Event(), threading.Event()

    def poll(self) -> str:
        self.called.set()
        self.let_go.wait()
        return "polled"

    def __exit__(self, *_: object) -> None:
        self.destroyed += 1


def test_a_client_is_destroyed_once_and_not_beneath_a_call() -> None:
    client = Client()
    handle = ClosableClient(client)
    answers: list[Any] = []
    call = threading.Thread(target=lambda: answers.append(handle.poll()))
    call.start()
    client.called.wait()
    closing = threading.Thread(target=handle.close)
    closing.start()
    closing.join(0.1)
    assert client.destroyed == 0
    client.let_go.set()
    call.join()
    closing.join()
    handle.close()
    assert (answers, client.destroyed) == (["polled"], 1)
    with pytest.raises(KafkaException) as refused:
        handle.poll()
    assert refused.value.args[0].code() == KafkaError._DESTROY


def test_who_waits_for_an_answer_of_a_client_that_is_closed_is_told() -> None:
    with server(silent) as address:
        admin = create_admin_client(ConnectionSettings(address))
        answer = admin.describe_cluster(request_timeout=60)
        admin.close()
        with pytest.raises(KafkaException):
            answer.result(timeout=30)


class Forgotten:
    """A confluent-kafka admin that somebody else has opened anew while answers are waited for."""

    def __init__(self, forget: Callable[[], None]) -> None:
        self._forget = forget
        self.destroyed = False
        self.beneath: list[bool] = []
        """Whether it was destroyed by then, at each answer that was waited for."""

    def describe_cluster(self, request_timeout: float) -> Any:
        told = SimpleNamespace(nodes=[SimpleNamespace(id=1)], cluster_id="c")
        return SimpleNamespace(result=lambda: told)

    def list_consumer_groups(self, request_timeout: float) -> Any:
        listed = SimpleNamespace(group_id="orders", state=SimpleNamespace(name="STABLE"))
        return self._future(lambda: SimpleNamespace(valid=[listed], errors=[]))

    def describe_consumer_groups(self, asked: list[str], **_: object) -> dict[Any, Any]:
        return self._futures(asked)

    def list_offsets(self, asked: dict[Any, Any], **_: object) -> dict[Any, Any]:
        return self._futures(list(asked))

    def describe_configs(self, asked: list[Any], **_: object) -> dict[Any, Any]:
        return self._futures(asked)

    def incremental_alter_configs(self, asked: list[Any], **_: object) -> dict[Any, Any]:
        return self._futures(asked)

    def _futures(self, asked: list[Any]) -> dict[Any, Any]:
        def refuse() -> None:
            raise KafkaException(KafkaError(KafkaError.INVALID_REQUEST, "no"))

        return {one: self._future(refuse) for one in asked}

    def _future(self, answer: Callable[[], Any]) -> Any:
        def result() -> Any:
            self._forget()
            self.beneath.append(self.destroyed)
            return answer()

        return SimpleNamespace(result=result)

    def __exit__(self, *_: object) -> None:
        self.destroyed = True


CHANGE = ConfigChange(Resource.topic("t"), "retention.ms", ConfigOp.SET, "1000")


@pytest.mark.parametrize(
    ("ask", "answers"),
    [
        (lambda admin: describe_active_consumer_groups(admin, 9), 2),
        (lambda admin: fetch_offsets(admin, [TopicPartition("t", 0)], OffsetAt.LATEST), 1),
        (lambda admin: describe_topic_configs(admin, [Resource.topic("t")], ["retention.ms"]), 1),
        (lambda admin: alter_configs(admin, [CHANGE]), 1),
    ],
    ids=["groups", "offsets", "configs", "changes"],
)
def test_a_client_is_not_destroyed_beneath_who_waits_for_its_answers(
    ask: Callable[[Admin], object], answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Admin(ConnectionSettings("h:1"))
    opened: list[Forgotten] = []

    def open_anew(_: object) -> ClosableClient:
        opened.append(Forgotten(admin.reopen))
        return ClosableClient(opened[-1])

    monkeypatch.setattr(admin_module, "create_admin_client", open_anew)
    ask(admin)
    assert [beneath for one in opened for beneath in one.beneath] == [False] * answers


PROGRAM = """
import gc, sys
from core.cluster.kafka import admin as handle
from core.cluster.kafka.admin import create_admin_client
from core.cluster.kafka.connection.settings import ConnectionSettings

ended = handle._destroy_client
def told(client):
    ended(client)
    print("destroyed", flush=True)
handle._destroy_client = told
admin = create_admin_client(ConnectionSettings(sys.argv[1], "SSL"))
future = admin.describe_cluster(request_timeout=0.2)
try:
    future.result()
except Exception as error:
    kept = error
    kept.me = (kept, admin)  # a circle, which nobody looks for
gc.freeze()
sys.exit(4)
"""


def test_what_an_error_holds_is_destroyed_before_the_process_ends() -> None:
    with server(silent) as address:
        ended = subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM, address],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (4, "destroyed\n"), ended.stderr
