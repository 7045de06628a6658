"""Whatever a broker does or leaves undone, who asks has an answer in time."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import pytest
from fake_broker import API_VERSIONS, CLUSTER, KRAFT, METADATA, fake_broker
from servers import nobody, says, server, silent

from core.cluster.kafka.client import KafkaClient, with_deadline
from core.cluster.kafka.connection.login.sasl import PasswordLogin
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.errors import AccessDeniedError, UnreachableError

TIMEOUT_SECONDS = 1.0
SLACK_SECONDS = 20.0
"""For machines that are busy; what this is about took minutes, or for ever."""


def in_time(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the error that it raises; fail where it does not end."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:  # noqa: BLE001 - judged by whoever asked
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT_SECONDS + SLACK_SECONDS)
    assert outcome, "it hangs"
    return outcome[0]


@contextmanager
def client(bootstrap: str, protocol: str = "PLAINTEXT") -> Iterator[KafkaClient]:
    login = PasswordLogin("PLAIN", "ann", "right") if protocol.startswith("SASL") else None
    settings = ConnectionSettings(bootstrap, protocol, login, timeout_seconds=TIMEOUT_SECONDS)
    opened = KafkaClient(settings)
    yield opened
    in_time(opened.close)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("serve", [silent, says(b"220 mail ready\r\n")], ids=["silent", "garbage"])
@pytest.mark.parametrize(
    "call", [KafkaClient.describe_cluster, KafkaClient.describe_groups], ids=["wire", "admin"]
)
def test_server_that_is_not_a_kafka_broker_is_reported_in_time(
    protocol: str, serve: Callable[[socket.socket], None], call: Callable[[KafkaClient], object]
) -> None:
    with server(serve) as address, client(address, protocol) as opened:
        error = in_time(lambda: call(opened))
    assert isinstance(error, UnreachableError)
    assert address in error.title


@pytest.mark.parametrize("request_kind", [API_VERSIONS, METADATA, CLUSTER])
def test_a_broker_that_stops_in_the_middle_of_an_answer_is_named(request_kind: int) -> None:
    with fake_broker(KRAFT, stalls_at=request_kind) as broker, client(broker.bootstrap) as opened:
        error = in_time(opened.describe_cluster)
    assert isinstance(error, UnreachableError)
    assert broker.bootstrap in error.title


@contextmanager
def unaccepting() -> Iterator[str]:
    """A server to which no connection comes about, and none is refused."""
    with socket.socket() as full, ExitStack() as stack:
        full.bind(("127.0.0.1", 0))
        full.listen(0)  # it takes one or two connections that nobody accepts, and drops the others
        host, port = full.getsockname()
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        yield f"{host}:{port}"


def test_connection_that_is_never_established_leaves_no_open_socket() -> None:
    """A socket that the garbage collector has to close is a ResourceWarning, which fails tests."""
    with unaccepting() as address, client(address) as opened:
        error = in_time(opened.describe_cluster)
    assert isinstance(error, UnreachableError)
    gc.collect()


def test_a_client_that_is_closed_while_it_connects_leaves_no_socket() -> None:
    with unaccepting() as address, fake_broker(KRAFT) as broker:
        opened = KafkaClient(ConnectionSettings(f"{address},{broker.bootstrap}"))
        assert in_time(opened.describe_cluster).topics
        in_time(opened.close)
    gc.collect()


@pytest.mark.parametrize("hung", [1, 2, 3])
def test_hanging_bootstrap_servers_do_not_delay_the_one_that_answers(hung: int) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(server(silent)) for _ in range(hung)]
        broker = stack.enter_context(fake_broker(KRAFT))
        settings = ConnectionSettings(",".join([*servers, broker.bootstrap]), timeout_seconds=60)
        opened = KafkaClient(settings)
        began = time.monotonic()
        assert [topic.name for topic in in_time(opened.describe_cluster).topics] == ["t"]
        assert time.monotonic() - began < settings.scaled_seconds(4)
        opened.close()


def test_hanging_name_lookup_does_not_block_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve, answered = socket.getaddrinfo, threading.Event()

    def hang(host: str, *args: Any, **options: Any) -> Any:
        if host == "hangs.invalid":
            if options.get("flags"):
                raise socket.gaierror
            answered.wait()
        return resolve(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with client("hangs.invalid:9092") as opened:
        error = in_time(opened.describe_cluster)
    assert isinstance(error, UnreachableError)
    assert "hangs.invalid" in error.title
    with fake_broker(KRAFT) as broker, client(f"hangs.invalid:9092,{broker.bootstrap}") as opened:
        assert in_time(opened.describe_cluster).topics
    answered.set()


@pytest.mark.parametrize("host", ["b1.invalid", "127.0.0.2"])
def test_unreachable_advertised_address_is_reported_with_its_broker(host: str) -> None:
    with fake_broker(KRAFT, advertised=host) as broker, client(broker.bootstrap) as opened:
        error = in_time(opened.describe_cluster)
    assert isinstance(error, UnreachableError)
    port = broker.bootstrap.rpartition(":")[2]
    assert f"Broker 1 advertises {host}:{port}" in error.title
    assert "advertised.listeners" in error.next


def test_address_without_listener_is_reported_at_the_deadline() -> None:
    with client(nobody()) as opened:
        assert "Nothing listens" in in_time(opened.describe_cluster).title


class Cluster:
    """A cluster whose one call takes as long as it is told, and what is heard of it meanwhile."""

    def __init__(self) -> None:
        self.last_answer_at = float("-inf")
        self.ends = threading.Event()

    def explain(self, detail: str) -> UnreachableError:
        return UnreachableError(f"Broker 2 hangs: {detail}.")

    def describe_cluster(self) -> str:
        self.ends.wait()
        return "described"


def test_hanging_library_call_ends_at_its_deadline_and_is_diagnosed() -> None:
    cluster = Cluster()
    patient = with_deadline(cast("KafkaClient", cluster), 0.1)
    error = in_time(patient.describe_cluster)
    cluster.ends.set()
    assert isinstance(error, UnreachableError)
    assert error.title == "Broker 2 hangs: no answer has come for 0.1 s."


def test_call_is_not_timed_out_while_answers_keep_arriving() -> None:
    cluster = Cluster()
    patient = with_deadline(cast("KafkaClient", cluster), 0.1)
    cluster.last_answer_at = time.monotonic() + 3600  # as if answers came for an hour
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(patient.describe_cluster()))
    asking.start()
    asking.join(0.5)
    assert asking.is_alive()
    cluster.ends.set()
    asking.join()
    assert answers == ["described"]


def test_error_of_a_call_with_a_deadline_is_raised_unchanged() -> None:
    class Refusing(Cluster):
        def describe_cluster(self) -> str:
            raise AccessDeniedError("No.")

    cluster = Refusing()
    with pytest.raises(AccessDeniedError):
        with_deadline(cast("KafkaClient", cluster), 60).describe_cluster()
