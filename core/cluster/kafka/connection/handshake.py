"""Tells Kafka, TLS and HTTP listeners apart by a few bytes that need no authentication."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Mapping

API_VERSIONS, SASL_HANDSHAKE = 18, 17
_MAX_ANSWER_BYTES = 1_000_000


def send_request(
    connection: socket.socket, left: Callable[[], float], api: int, version: int, body: bytes
) -> bytes:
    """Return the answer to one request; raises OSError for what is none, TimeoutError in time."""
    client = b"trimtab"
    request = struct.pack(">hhih", api, version, api, len(client)) + client + body
    connection.settimeout(left())
    connection.sendall(struct.pack(">i", len(request)) + request)
    size, correlation = struct.unpack(">ii", _receive(connection, left, 8))
    if correlation != api or not 4 <= size <= _MAX_ANSWER_BYTES:
        raise OSError("the answer is not Kafka's")
    return _receive(connection, left, size - 4)


def _receive(connection: socket.socket, left: Callable[[], float], count: int) -> bytes:
    received = b""
    while len(received) < count:
        connection.settimeout(left())
        more = connection.recv(count - len(received))
        if not more:
            raise OSError("it hangs up")
        received += more
    return received


def parse_mechanisms(answer: bytes) -> tuple[int, str]:
    """Return the error code and the mechanisms that a SaslHandshake is answered with."""
    try:
        code, count = struct.unpack_from(">hi", answer)
        at, names = 6, []
        for _ in range(max(0, count)):
            (length,) = struct.unpack_from(">h", answer, at)
            names.append(answer[at + 2 : at + 2 + length].decode())
            at += 2 + length
    except (struct.error, UnicodeDecodeError) as error:
        raise OSError("the answer is not Kafka's") from error
    return code, ", ".join(sorted(names))


def _speaks_tls(connection: socket.socket, _: Callable[[], float]) -> bool:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with context.wrap_socket(connection):
            return True
    except ssl.SSLError as error:
        # A server that refuses our side of the handshake in an alert has spoken TLS.
        return "ALERT" in str(error).upper()


def _speaks_kafka(connection: socket.socket, left: Callable[[], float]) -> bool:
    send_request(connection, left, API_VERSIONS, 0, b"")
    return True


def _speaks_http(connection: socket.socket, _: Callable[[], float]) -> bool:
    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
    return connection.recv(64).startswith(b"HTTP/")


def find_protocol(connect: Callable[[], socket.socket], seconds: float) -> str:
    """Return which of TLS, Kafka and HTTP connections of their own find; "" where none."""
    ends = time.monotonic() + seconds
    is_spoken: dict[str, bool] = {}

    def left() -> float:
        return max(ends - time.monotonic(), 0.001)

    def listen(name: str) -> None:
        try:
            with connect() as connection:
                connection.settimeout(left())
                is_spoken[name] = _PROTOCOLS[name](connection, left)
        except OSError:
            is_spoken[name] = False

    threads = [threading.Thread(target=listen, args=(n,), daemon=True) for n in _PROTOCOLS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(left())
    # TLS before HTTP: a web server that wants TLS says so in plain HTTP.
    return next((name for name in _PROTOCOLS if is_spoken.get(name)), "")


_PROTOCOLS: Mapping[str, Callable[[socket.socket, Callable[[], float]], bool]] = {
    "TLS": _speaks_tls,
    "Kafka": _speaks_kafka,
    "HTTP": _speaks_http,
}
