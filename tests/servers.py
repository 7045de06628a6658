"""Servers that are no brokers, or not for long: what answers, and what only takes connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does this with each connection, in a thread of its own; its address."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                kept.append(connection)
                threading.Thread(target=serving, args=(connection,), daemon=True).start()

        def serving(connection: socket.socket) -> None:
            with suppress(OSError):
                serve(connection)

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()
    for connection in kept:
        connection.close()


def silent(_: socket.socket) -> None:
    """Take the connection, and say nothing."""


def says(answer: bytes) -> Callable[[socket.socket], None]:
    """Answer anything with these bytes, and hang up."""

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.recv(1024)
            connection.sendall(answer)

    return serve


def nobody() -> str:
    """Return an address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def socks_proxy(targets: list[str], password: str | None = None) -> Iterator[str]:
    """A SOCKS5 proxy (RFC 1928), of user `u` if it wants a password; its address.

    `targets` gets what it is asked to connect to. It knows one name, `kafka.invalid`, which is
    this machine's.
    """

    def serve(client: socket.socket) -> None:
        with client, client.makefile("rb") as incoming:
            _, count = incoming.read(2)
            methods = incoming.read(count)
            method = 0 if password is None else 2
            client.sendall(bytes((5, method if method in methods else 0xFF)))
            if password is not None:
                user = incoming.read(incoming.read(2)[1])
                given = incoming.read(incoming.read(1)[0])
                is_right = (user, given) == (b"u", password.encode())
                client.sendall(bytes((1, not is_right)))
                if not is_right:
                    return
            kind = incoming.read(4)[3]
            host = (
                socket.inet_ntoa(incoming.read(4))
                if kind == 1
                else incoming.read(incoming.read(1)[0]).decode()
            )
            port = int.from_bytes(incoming.read(2), "big")
            targets.append(f"{host}:{port}")
            try:
                place = ("127.0.0.1" if host == "kafka.invalid" else host, port)
                broker = socket.create_connection(place, 5)
            except OSError:
                client.sendall(bytes((5, 5, 0, 1, *bytes(6))))  # connection refused
                return
            with broker:
                client.sendall(bytes((5, 0, 0, 1, *bytes(6))))
                copying = threading.Thread(target=_copy, args=(broker, client), daemon=True)
                copying.start()
                _copy(incoming, broker)
                broker.shutdown(socket.SHUT_RDWR)
                copying.join()

    with server(serve) as address:
        yield address


def _copy(source: Any, target: socket.socket) -> None:
    read = source.read1 if hasattr(source, "read1") else source.recv
    with suppress(OSError):
        while data := read(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
