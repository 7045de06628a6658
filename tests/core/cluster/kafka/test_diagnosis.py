"""What does not answer as a cluster is told apart, with what to do next."""

from __future__ import annotations

import http.server
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from servers import nobody, says, server, silent

from core.cluster.kafka.connection.diagnosis import ConnectionFailure, unreachable
from core.cluster.kafka.connection.login.sasl import PasswordLogin
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.connection.tls import Pem, Tls
from core.errors import ExitCode

SASL_HANDSHAKE = 17
TLS_ALERT = bytes([21, 3, 3, 0, 2, 2, 40])


def kafka(*mechanisms: str) -> Callable[[socket.socket], None]:
    """Be a broker's plain-text listener as far as it goes without a login.

    It takes logins by these mechanisms, or none.
    """

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as incoming:
            while head := incoming.read(4):
                (size,) = struct.unpack(">i", head)
                if not 8 <= size <= 1000:
                    return  # as brokers do with the first bytes of TLS
                body = incoming.read(size)
                api, _, id = struct.unpack(">hhi", body[:8])
                answer = struct.pack(">hi", 0, 0)
                if api == SASL_HANDSHAKE:
                    asked = body[12 + struct.unpack(">h", body[8:10])[0] :].decode()
                    code = 34 if not mechanisms else 0 if asked in mechanisms else 33
                    names = b"".join(struct.pack(">h", len(m)) + m.encode() for m in mechanisms)
                    answer = struct.pack(">hi", code, len(mechanisms)) + names
                connection.sendall(struct.pack(">ii", 4 + len(answer), id) + answer)

    return serve


class Quiet(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@contextmanager
def web_server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{running.server_port}"
        running.shutdown()


def diagnose(bootstrap: str, protocol: str = "PLAINTEXT", mechanism: str | None = None) -> str:
    login = PasswordLogin(mechanism, "ann", "right") if mechanism else None
    settings = ConnectionSettings(bootstrap, protocol, login, timeout_seconds=20)
    error = unreachable(settings, "")
    assert error.exit_code is ExitCode.UNREACHABLE
    assert error.next
    return error.title


def test_diagnosis_reports_missing_listeners_and_any_server_that_answers() -> None:
    dead_server = nobody()
    assert diagnose(dead_server) == f"Nothing listens on {dead_server}."
    diagnosis = diagnose(f"{dead_server},no-such-host.invalid:9092")
    assert diagnosis == f"Nothing listens on {dead_server}, nor does any other server named answer."
    with web_server() as address:
        diagnosis = diagnose(f"{dead_server},{address}")
    assert diagnosis == f"{address} is an HTTP server, not a Kafka broker."


@pytest.mark.parametrize("host", ["no-such-host.invalid", "kafka..prod", ".kafka", "k" * 300])
def test_invalid_or_unresolvable_host_name_is_reported(host: str) -> None:
    assert f"There is no host named {host}" in diagnose(f"{host}:9092")


@pytest.mark.parametrize(
    ("protocol", "message"),
    [("PLAINTEXT", "is a TLS listener, and this connection is plain text"), ("SSL", "speaks TLS")],
)
def test_tls_listener_is_diagnosed_for_plain_text_and_tls_connections(
    protocol: str, message: str
) -> None:
    with server(says(TLS_ALERT)) as address:
        assert message in diagnose(address, protocol)


def test_server_of_another_protocol_is_reported_as_no_kafka_broker() -> None:
    with server(says(b"220 mail ready\r\n")) as address:
        assert "does not answer as a Kafka broker" in diagnose(address)
        error = unreachable(ConnectionSettings(address, "SASL_SSL"), "")
        assert "TLS" in error.title
        assert "PLAINTEXT" not in str(error)


def test_missing_certificate_file_is_reported(tmp_path: Path) -> None:
    gone = Pem(str(tmp_path / "ca.pem"))
    with server(silent) as address:
        error = unreachable(ConnectionSettings(address, "SSL", tls=Tls(gone)), "")
    assert error.title.startswith(address)
    assert "ca.pem" in error.title
    assert "the stores that the client properties name" in error.next


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_silent_server_is_reported_without_guessing_a_cause(protocol: str) -> None:
    began = time.monotonic()
    with server(silent) as address:
        login = PasswordLogin("PLAIN", "ann", "right")
        error = unreachable(ConnectionSettings(address, protocol, login, timeout_seconds=2), "")
    assert time.monotonic() - began < 1.5
    assert "does not answer" in error.title
    assert "security.protocol" not in str(error)


def test_most_informative_of_several_servers_is_reported() -> None:
    with server(silent) as hung, server(kafka("PLAIN")) as address:
        assert diagnose(f"{hung},{address}").startswith(address)


def test_unreachable_advertised_brokers_are_reported_by_id() -> None:
    address = nobody()
    named = [ConnectionFailure(1, address, ""), ConnectionFailure(2, "b2.invalid:9092", "")]
    error = unreachable(ConnectionSettings("127.0.0.1:1"), "", named)
    assert f"Broker 1 advertises {address}" in error.title
    assert "broker 2 advertises b2.invalid:9092" in error.title
    assert "advertised.listeners" in error.next
