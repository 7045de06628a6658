"""confluent-kafka's admin client: opened, closed before its process ends; what its faults mean."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from core.cluster.kafka.connection.diagnosis import ConnectionFailure, unreachable
from core.cluster.kafka.connection.settings import CONNECT_SECONDS, ConnectionSettings
from core.cluster.kafka.wire import Wire, fault_from_code
from core.cluster.kafka_errors import AllDeniedError, Fault, access_denied

DESTROY_SECONDS = 1.0
"""How long it is waited for; a client that is looking a name up may take much longer."""


class ClosableClient:
    """A client (AdminClient, Producer or Consumer) that can be closed while others call it.

    It is closed once nobody has it any more, and when the process ends: a client whose threads run
    on then may crash it, as OpenSSL is taken down beneath their TLS handshakes. Letting go of a
    client does not end it for sure: an error that came of it holds it by its traceback.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._calls = _CallCounter()
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


def _destroy(client: Any, calls: _CallCounter) -> None:
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


_ANSWER_SECONDS = 6.0
"""How long an answer is waited for, which leaves time to say why there is none."""
MIN_REOPEN_SECONDS = 5.0
"""How often it is opened anew at most, for who leads what it asks for."""
_ANY_BROKER_SECONDS = 3.0
_CLOSE_SECONDS = 1.0
_NO_BROKER = ("ALL_BROKERS_DOWN", "TRANSPORT")


def create_admin_client(settings: ConnectionSettings) -> ClosableClient:
    """Return a confluent-kafka AdminClient that is quick to connect again and never prints."""
    from confluent_kafka.admin import AdminClient

    client = AdminClient(
        {
            **settings.librdkafka_config(),
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 500,
            # It would forget brokers that are down, and know them again only at the next refresh.
            "topic.metadata.refresh.interval.ms": -1,
            # Connecting only when needed, librdkafka spins for as long as a request waits for a
            # broker that is down: most of a processor, in every run that asks it for its configs.
            "enable.sparse.connections": False,
        }
    )
    return ClosableClient(client)


class Admin:
    """confluent-kafka's admin client for one cluster, opened at the first call.

    `wire` is connected before it: a cluster that does not answer is found there, and why. The
    library goes on trying in vain, also after answers that are final.
    """

    def __init__(self, settings: ConnectionSettings, wire: Wire | None = None) -> None:
        self._settings, self._wire = settings, wire
        self.seconds = settings.scaled_seconds(_ANSWER_SECONDS)
        """How long one answer is waited for."""
        self.last_answer_at = -math.inf
        """When an answer has come last, of one broker at least (monotonic seconds)."""
        self._opening = threading.Lock()
        self._opened: ClosableClient | None = None
        self._knows: frozenset[int] = frozenset()
        self._opened_at = -math.inf

    def close(self) -> None:
        if not self._opening.acquire(timeout=_CLOSE_SECONDS):
            return  # it is just being opened, and closed with the process or its last user
        try:
            if self._opened is not None:
                self._opened.close()
            self._opened = None
        finally:
            self._opening.release()

    def reopen(self) -> None:
        """Open the client anew for the next call: it remembers for minutes who was asked what."""
        with self._opening:
            self._opened = None

    def record_answer(self) -> None:
        self.last_answer_at = time.monotonic()

    def ask(self, call: Callable[[ClosableClient], Mapping[Any, Any]]) -> dict[Any, Any]:
        """Return what each future of a call comes to: an answer, or the fault instead.

        The client is held until all is answered: let go of, it is destroyed. It is opened anew for
        the next call where a broker was waited for in vain: it may not know a broker that came up
        after it was opened, and asks one that died again and again, long after the cluster names
        it no more.
        """
        client = self.client()
        answers = {key: _result_or_fault(future) for key, future in call(client).items()}
        faults = [answer.name if isinstance(answer, Fault) else "" for answer in answers.values()]
        if any("TIMED_OUT" in name for name in faults):
            self.reopen()
        # Silence is a fault, too, and no answer.
        if not all("TIMED_OUT" in name or name in _NO_BROKER for name in faults):
            self.record_answer()
        return answers

    def client(self) -> ClosableClient:
        """Return the AdminClient, opened if need be; raise where no cluster answers."""
        from confluent_kafka import KafkaException

        if self._wire is not None:
            self._wire.manager()
        with self._opening:
            if self._opened is None:
                admin = create_admin_client(self._settings)
                # Asked first, because every other call waits much longer for a cluster in vain.
                try:
                    there = admin.describe_cluster(
                        request_timeout=self._settings.scaled_seconds(CONNECT_SECONDS)
                    ).result()
                    self._knows = frozenset(node.id for node in there.nodes)
                    if self._wire is not None:
                        self._wire.check_cluster_id(there.cluster_id)
                except KafkaException as error:
                    # Brokers name any one of them as the controller, for some seconds also one that
                    # has just died: it is waited for, though a cluster is there.
                    waited = error.args[0].name() in ("_TIMED_OUT", "_DESTROY_BROKER")
                    self._knows = _fetch_broker_ids(admin) if waited else frozenset()
                    if not self._knows:
                        admin.close()
                        raise self.explain(error, opened=False) from error
                self._opened, self._opened_at = admin, time.monotonic()
                self.record_answer()
            return self._opened

    def reopen_if_unknown(self, brokers: Collection[int]) -> None:
        """Open the client anew for the next call where brokers are up that it cannot know.

        It learns for a quarter of an hour of none that comes back after it was opened.
        """
        with self._opening:
            if self._opened is not None and not self._knows.issuperset(brokers):
                self._opened = None

    def reopen_for_leaders(self) -> bool:
        """Open it anew, unless just done; it remembers leaders for a quarter of an hour."""
        with self._opening:
            if time.monotonic() - self._opened_at < MIN_REOPEN_SECONDS:
                return False
            self._opened = None
            return True

    def raise_if_all_failed(
        self, answers: Iterable[object], operation: str, *, of_brokers: bool = False
    ) -> None:
        """Raise when every answer is that nobody may ask, or that nobody answers.

        `operation` is what a user has to be allowed for an answer.

        Brokers answer for themselves, so where only they were asked, their silence says nothing
        of the cluster: it is asked whether it is there.
        """
        faults = [answer if isinstance(answer, Fault) else None for answer in answers]
        if faults and faults[0] is not None and all(f and _is_denial(f) for f in faults):
            raise AllDeniedError(faults[0], operation)
        if faults and all(f is not None and f.name in _NO_BROKER for f in faults):
            if of_brokers and _fetch_broker_ids(self.client()):
                return
            raise unreachable(self._settings, str(faults[0]), self._troubles())

    def explain(self, error: Any, *, opened: bool = True) -> Exception:
        """Return what to raise for librdkafka's error: no rights, or nobody answers."""
        failure = to_fault(error)
        if _is_denial(failure):
            return access_denied(f"The cluster says no: {failure.name}.")
        return unreachable(self._settings, str(failure) if opened else "", self._troubles())

    def _troubles(self) -> Sequence[ConnectionFailure]:
        return () if self._wire is None else self._wire.failures()


def _fetch_broker_ids(admin: ClosableClient) -> frozenset[int]:
    """Return the brokers that any of them names; none where none answers."""
    from confluent_kafka import KafkaException

    try:
        return frozenset(admin.list_topics(timeout=_ANY_BROKER_SECONDS).brokers)
    except KafkaException:
        return frozenset()


def _result_or_fault(future: Any) -> Any:
    from confluent_kafka import KafkaException

    try:
        return future.result()
    except KafkaException as error:
        return to_fault(error)


def _is_denial(failure: Fault) -> bool:
    return "AUTHORIZATION" in failure.name or "AUTHENTICATION" in failure.name


def to_fault(error: Any) -> Fault:
    """Return librdkafka's error by Kafka's name; its own (negative) codes are told apart."""
    from confluent_kafka import KafkaException

    inner = error.args[0] if isinstance(error, KafkaException) else error
    code = inner.code()
    if code > 0:
        found = fault_from_code(code, inner.str())
        assert found is not None
        return found
    names = {
        "_TIMED_OUT": "REQUEST_TIMED_OUT",
        "_AUTHENTICATION": "SASL_AUTHENTICATION_FAILED",
        # The connection that a client began with goes once it knows the brokers by id.
        "_DESTROY_BROKER": "TRANSPORT",
    }
    return Fault(names.get(inner.name(), inner.name().lstrip("_")), inner.str())
