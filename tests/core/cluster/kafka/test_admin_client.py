"""confluent-kafka's clients: opened, opened anew, asked, and destroyed before the process ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from fake_admin import FakeAdminClient, FakeWire, listed, raises
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from servers import server, silent

from core.cluster.client import OffsetAt
from core.cluster.configs import ConfigChange, ConfigOp, Resource
from core.cluster.kafka import admin as admin_module
from core.cluster.kafka.admin import Admin, ClosableClient, create_admin_client
from core.cluster.kafka.configs import alter_configs, describe_configs, describe_topic_configs
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.groups import describe_active_groups, fetch_committed
from core.cluster.kafka.log_dirs import alter_log_dirs, describe_log_dirs
from core.cluster.kafka.offsets import fetch_offsets
from core.cluster.metadata import TopicPartition
from core.errors import UnreachableError

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
TOPICS = (Resource.topic("t"), Resource.topic("u"))
TIMED_OUT = "REQUEST_TIMED_OUT"
CHANGES = [ConfigChange(topic, "retention.ms", ConfigOp.SET, "1000") for topic in TOPICS]
GROUPS: Any = FakeWire([listed(id, "consumer", "classic") for id in "ab"])

ASKS: dict[str, Callable[[Admin], object]] = {
    "offsets": lambda admin: fetch_offsets(admin, PARTITIONS, OffsetAt.LATEST),
    "configs": lambda admin: describe_topic_configs(admin, TOPICS, ["a"]),
    "alter configs": lambda admin: alter_configs(admin, CHANGES),
    "groups": lambda admin: describe_active_groups(admin, GROUPS, 9),
}
"""What is asked of two things at once."""
CALLS = (
    *("list_offsets", "describe_configs", "incremental_alter_configs"),
    "describe_consumer_groups",
)


def answering(answer: Callable[..., Any]) -> FakeAdminClient:
    """Return a client that answers each of CALLS so."""
    return FakeAdminClient(**dict.fromkeys(CALLS, answer))


class Brokers(FakeAdminClient):
    """A client that waits for the controller in vain; others may answer."""

    def __init__(self, *, answer: bool) -> None:
        late = raises(KafkaError._TIMED_OUT, "Failed while waiting for controller")
        super().__init__(describe_cluster=late, incremental_alter_configs=lambda _: None)
        self._is_there = answer

    def list_topics(self, timeout: float) -> object:
        if not self._is_there:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "Local: Broker transport"))
        return SimpleNamespace(brokers={1: None, 2: None})


def open_with(monkeypatch: pytest.MonkeyPatch, *, answer: bool) -> Admin:
    monkeypatch.setattr(admin_module, "create_admin_client", lambda _: Brokers(answer=answer))
    return Admin(ConnectionSettings("h:1"))


def test_a_cluster_is_there_while_any_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers name any of them as the controller, for seconds also one that is gone."""
    admin = open_with(monkeypatch, answer=True)
    assert alter_configs(admin, CHANGES[:1]) == {TOPICS[0]: None}
    with pytest.raises(UnreachableError):
        alter_configs(open_with(monkeypatch, answer=False), CHANGES[:1])


def test_it_is_opened_anew_where_a_broker_is_up_that_it_cannot_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = open_with(monkeypatch, answer=True)
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
    monkeypatch.setattr(admin_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    admin = open_with(monkeypatch, answer=True)
    first = admin.client()
    assert not admin.reopen_for_leaders()
    now[0] += admin_module.MIN_REOPEN_SECONDS
    assert admin.reopen_for_leaders()
    assert admin.client() is not first
    assert not admin.reopen_for_leaders()


@pytest.mark.parametrize(
    ("errors", "heard", "anew"),
    [
        ((KafkaError._TIMED_OUT, KafkaError._TIMED_OUT), False, True),
        ((KafkaError._TIMED_OUT, KafkaError._TRANSPORT), False, True),
        ((KafkaError._TIMED_OUT, KafkaError.INVALID_REQUEST), True, True),
        ((KafkaError.INVALID_REQUEST, KafkaError.INVALID_REQUEST), True, False),
    ],
)
@pytest.mark.parametrize("ask", ASKS)
def test_silence_is_no_answer_and_who_was_waited_for_in_vain_is_not_waited_for_again(
    ask: str,
    errors: tuple[int, int],
    heard: bool,
    anew: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client may know a broker that died, long after the cluster names it no more."""
    left = list(errors)
    client = answering(lambda _: raises(left.pop(0))())
    admin = Admin(ConnectionSettings("h:1"))
    came: list[str] = []
    monkeypatch.setattr(admin, "client", lambda: client)
    monkeypatch.setattr(admin, "record_answer", lambda: came.append("heard"))
    monkeypatch.setattr(admin, "reopen", lambda: came.append("anew"))
    ASKS[ask](admin)
    assert sorted(came) == ["anew"] * anew + ["heard"] * heard


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


# -- destroyed ---------------------------------------------------------------------------------


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


@pytest.mark.parametrize("ask", ASKS)
def test_a_client_is_not_destroyed_beneath_who_waits_for_its_answers(
    ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Admin(ConnectionSettings("h:1"))
    opened: list[FakeAdminClient] = []
    beneath: list[bool] = []

    def answer(_: object) -> None:
        admin.reopen()  # somebody else does, while answers are waited for
        beneath.append(opened[-1].is_destroyed)
        raises(KafkaError.INVALID_REQUEST)()

    def open_anew(_: object) -> ClosableClient:
        there = SimpleNamespace(nodes=[SimpleNamespace(id=1)], cluster_id="c")
        opened.append(
            FakeAdminClient(describe_cluster=lambda: there, **dict.fromkeys(CALLS, answer))
        )
        return ClosableClient(opened[-1])

    monkeypatch.setattr(admin_module, "create_admin_client", open_anew)
    ASKS[ask](admin)
    assert beneath == [False, False]


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
