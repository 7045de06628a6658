"""librdkafka's clients: closed before their process ends; their errors by Kafka's names."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.wire import fault_from_code
from core.cluster.kafka_errors import Fault

DESTROY_SECONDS = 1.0
"""How long its end is waited for; a client that is looking a name up may take much longer."""


class ClosableClient:
    """A client (AdminClient, Producer or Consumer) that can be closed while others call it.

    It is closed once nobody has it any more, and when the process ends: a client whose threads run
    on then may crash it, as OpenSSL is taken down beneath their TLS handshakes. Letting go of a
    client does not end it for sure: an error that came of it holds it by its traceback.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._calls = _CallCounter()
        self._end = weakref.finalize(self, _destroy_if_idle, client, self._calls)

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


class _CallCounter:
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


def _destroy_if_idle(client: Any, calls: _CallCounter) -> None:
    if not calls.close():
        return  # it is worse to destroy it beneath a call
    thread = threading.Thread(target=_destroy_client, args=(client,), name="destroy", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no thread begins while the interpreter ends
        _destroy_client(client)
    else:
        thread.join(DESTROY_SECONDS)


def _destroy_client(client: Any) -> None:
    if hasattr(client, "purge"):  # a producer would wait until all that it has is acknowledged
        client.purge()
    client.__exit__(None, None, None)


def create_admin_client(settings: ConnectionSettings) -> ClosableClient:
    """Return a confluent-kafka AdminClient that is quick to connect again and never prints."""
    from confluent_kafka.admin import AdminClient

    config = settings.librdkafka_config()
    return ClosableClient(
        AdminClient({**config, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 500})
    )


def to_fault(error: Any) -> Fault:
    """Return librdkafka's error by Kafka's name; its own (negative) codes are told apart."""
    from confluent_kafka import KafkaException

    inner = error.args[0] if isinstance(error, KafkaException) else error
    code = inner.code()
    if code > 0:
        fault = fault_from_code(code, inner.str())
        assert fault is not None
        return fault
    names = {
        "_TIMED_OUT": "REQUEST_TIMED_OUT",
        "_AUTHENTICATION": "SASL_AUTHENTICATION_FAILED",
        # The connection that a client began with goes once it knows the brokers by id.
        "_DESTROY_BROKER": "TRANSPORT",
    }
    return Fault(names.get(inner.name(), inner.name().lstrip("_")), inner.str())


@contextmanager
def as_librdkafka(timed_out: int | None = None) -> Iterator[None]:
    """Raise kafka-python's errors as confluent-kafka's KafkaException."""
    from confluent_kafka import KafkaError, KafkaException
    from kafka.errors import KafkaError as KafkaPythonError

    try:
        yield
    except KafkaPythonError as error:
        code = KafkaError._TIMED_OUT if timed_out is None else timed_out
        raise KafkaException(librdkafka_error(error, code)) from error


def librdkafka_error(error: Exception, timed_out: int) -> Any:
    """Return confluent-kafka's error for kafka-python's: Kafka's own are by the same numbers."""
    from confluent_kafka import KafkaError
    from kafka.errors import KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError

    match error:
        case KafkaTimeoutError():
            code = timed_out
        case KafkaConnectionError() | NodeNotReadyError():
            code = KafkaError._TRANSPORT
        case _:
            code = getattr(error, "errno", None) or KafkaError._FAIL
    return KafkaError(code, str(error))
