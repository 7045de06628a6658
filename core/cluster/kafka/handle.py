"""librdkafka's clients, each of which is destroyed before its process ends.

One whose threads run on while the process ends may crash it: OpenSSL is taken down beneath their
TLS handshakes. Who merely lets go of a client does not end it for sure: an error that came of it
holds it by its traceback.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

DESTROY_SECONDS = 1.0
"""How long it is waited for; a client that is looking a name up may take much longer."""


class Handle:
    """A client (AdminClient, Producer or Consumer) that can be closed while others call it.

    It is closed once nobody has it any more, and when the process ends.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._calls = _Calls()
        self._end = weakref.finalize(self, _destroy, client, self._calls)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        calls = self._calls

        def call(*args: Any, **options: Any) -> Any:
            calls.begin()
            try:
                return method(*args, **options)
            finally:
                calls.end()

        return call

    def close(self) -> None:
        """Destroy the client; what is asked of it from now on raises KafkaException."""
        self._end()


class _Calls:
    """Counts the calls that are under way: beneath one, nothing may be destroyed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._closed = False

    def begin(self) -> None:
        from confluent_kafka import KafkaError, KafkaException

        with self._changed:
            if self._closed:
                raise KafkaException(KafkaError(KafkaError._DESTROY))
            self._count += 1

    def end(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def close(self) -> bool:
        """Let no further call begin; return whether those under way have ended in time."""
        with self._changed:
            self._closed = True
            return self._changed.wait_for(lambda: self._count == 0, DESTROY_SECONDS)


def _destroy(client: Any, calls: _Calls) -> None:
    if not calls.close():
        return  # it is worse to destroy it beneath a call
    thread = threading.Thread(target=_exit, args=(client,), name="destroy", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no thread begins while the interpreter ends
        _exit(client)
    else:
        thread.join(DESTROY_SECONDS)


def _exit(client: Any) -> None:
    if hasattr(client, "purge"):  # a producer would wait until all that it has is acknowledged
        client.purge()
    client.__exit__(None, None, None)
