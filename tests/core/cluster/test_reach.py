"""What does not answer as a cluster is told apart, with what to do next."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from core.cluster.kafka.connection import ConnectionSettings
from core.cluster.kafka.reach import unreachable
from core.errors import ExitCode

TLS_ALERT = bytes([21, 3, 3, 0, 2, 2, 40])


@contextmanager
def server(answer: bytes) -> Iterator[str]:
    """A server that answers anything with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1024)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


class Quiet(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@contextmanager
def web_server() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Quiet) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{running.server_port}"
        running.shutdown()


def told(bootstrap: str, protocol: str = "PLAINTEXT") -> str:
    error = unreachable(ConnectionSettings(bootstrap, protocol), "")
    assert error.exit_code is ExitCode.UNREACHABLE
    assert error.next
    return error.title


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert told(f"127.0.0.1:{port}") == f"Nothing listens on 127.0.0.1:{port}."


def test_of_several_servers_one_that_is_there_is_told_of() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with web_server() as address:
        said = told(f"127.0.0.1:{port},{address}")
    assert said == f"{address} is an HTTP server, not a Kafka broker."


def test_of_several_servers_none_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = told(f"127.0.0.1:{port},127.0.0.1:{port}")
    assert said == f"Nothing listens on 127.0.0.1:{port}, nor does any other server named answer."


def test_no_such_host() -> None:
    assert "no host named" in told("no-such-host.invalid:9092")


@pytest.mark.parametrize("host", ["kafka..prod", ".kafka", "k" * 300])
def test_what_is_no_name_of_a_host(host: str) -> None:
    assert f"There is no host named {host}" in told(f"{host}:9092")


def test_an_http_server() -> None:
    with web_server() as address:
        assert "is an HTTP server" in told(address)


@pytest.mark.parametrize(
    ("protocol", "said"),
    [("PLAINTEXT", "is a TLS listener, and this connection is plain text"), ("SSL", "speaks TLS")],
)
def test_a_tls_listener(protocol: str, said: str) -> None:
    with server(TLS_ALERT) as address:
        assert said in told(address, protocol)


def test_something_else() -> None:
    with server(b"220 mail ready\r\n") as address:
        assert "does not answer as a Kafka broker" in told(address)
        assert "does not speak TLS" in told(address, "SASL_SSL")
