"""Servers that are no brokers, or not for long: what answers, and what only takes connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


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
