"""confluent-kafka's admin client: opened, closed, and what its faults mean."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterable
from typing import Any

from core.cluster.client import AllDeniedError, Fault
from core.cluster.kafka.connection import CONNECT_SECONDS, ConnectionSettings
from core.cluster.kafka.reach import denied, unreachable
from core.cluster.kafka.wire import fault

SECONDS = 10.0
"""How long an answer of the cluster is waited for."""
REOPENED_SECONDS = 5.0
"""How often it is opened anew at most, for who leads what it asks for."""
_ANYBODY_SECONDS = 3.0
_NOBODY = ("ALL_BROKERS_DOWN", "TRANSPORT")


def quiet_admin(settings: ConnectionSettings) -> Any:
    """Return a confluent-kafka AdminClient that is quick to connect again and never prints."""
    from confluent_kafka.admin import AdminClient

    config = settings.confluent()
    logger = config.pop("logger")
    return AdminClient(
        {
            **config,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 500,
            # It would forget brokers that are down, and know them again only at the next refresh.
            "topic.metadata.refresh.interval.ms": -1,
            # Connecting only when needed, librdkafka spins for as long as a request waits for a
            # broker that is down: most of a processor, in every run that asks it for its configs.
            "enable.sparse.connections": False,
        },
        logger=logger,
    )


class Admin:
    """confluent-kafka's admin client for one cluster, opened at the first call."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._opening = threading.Lock()
        self._opened: Any = None
        self._knows: frozenset[int] = frozenset()
        self._opened_at = -math.inf

    def close(self) -> None:
        with self._opening:
            self._opened = None

    def client(self) -> Any:
        """Return the AdminClient, opened if need be; raise where no cluster answers."""
        from confluent_kafka import KafkaException

        with self._opening:
            if self._opened is None:
                admin = quiet_admin(self._settings)
                # Asked first, because every other call waits much longer for a cluster in vain.
                try:
                    there = admin.describe_cluster(request_timeout=CONNECT_SECONDS).result()
                    self._knows = frozenset(node.id for node in there.nodes)
                except KafkaException as error:
                    # Brokers name any one of them as the controller, for some seconds also one that
                    # has just died: it is waited for, though a cluster is there.
                    waited = error.args[0].name() in ("_TIMED_OUT", "_DESTROY_BROKER")
                    self._knows = _brokers_of(admin) if waited else frozenset()
                    if not self._knows:
                        raise self.explained(error, opened=False) from error
                self._opened, self._opened_at = admin, time.monotonic()
            return self._opened

    def keep_up(self, brokers: Collection[int]) -> None:
        """Open the client anew for the next call where brokers are up that it cannot know.

        It learns for a quarter of an hour of none that comes back after it was opened.
        """
        with self._opening:
            if self._opened is not None and not self._knows.issuperset(brokers):
                self._opened = None

    def forget_leaders(self) -> bool:
        """Open the client anew for the next call, unless that was just done; return whether.

        It remembers for a quarter of an hour who led what it was asked for.
        """
        with self._opening:
            if time.monotonic() - self._opened_at < REOPENED_SECONDS:
                return False
            self._opened = None
            return True

    def forget_if_in_vain(self, answers: Iterable[object]) -> None:
        """Open the client anew for the next call where a broker was waited for in vain.

        It may not know a broker that came up after it was opened, and asks one that died again and
        again, long after the cluster names it no more.
        """
        if any(isinstance(a, Fault) and "TIMED_OUT" in a.name for a in answers):
            self.close()

    def raise_if_nothing(self, answers: Iterable[object], *, of_brokers: bool = False) -> None:
        """Raise when every answer is that nobody may ask, or that nobody answers.

        Brokers answer for themselves, so where only they were asked, their silence says nothing
        of the cluster: it is asked whether it is there.
        """
        faults = [answer if isinstance(answer, Fault) else None for answer in answers]
        if faults and faults[0] is not None and all(f and _is_denial(f) for f in faults):
            raise AllDeniedError(faults[0])
        if faults and all(f is not None and f.name in _NOBODY for f in faults):
            if of_brokers and _anybody_answers(self.client()):
                return
            raise unreachable(self._settings, str(faults[0]))

    def explained(self, error: Any, *, opened: bool = True) -> Exception:
        """Return what to raise for librdkafka's error: no rights, or nobody answers."""
        failure = fault_of(error)
        if _is_denial(failure):
            return denied(f"The cluster says no: {failure.name}.")
        return unreachable(self._settings, str(failure) if opened else "")


def _anybody_answers(admin: Any) -> bool:
    return bool(_brokers_of(admin))


def _brokers_of(admin: Any) -> frozenset[int]:
    """Return the brokers that any of them names; none where none answers."""
    from confluent_kafka import KafkaException

    try:
        return frozenset(admin.list_topics(timeout=_ANYBODY_SECONDS).brokers)
    except KafkaException:
        return frozenset()


def settled(future: Any) -> Any:
    """Return a future's answer, or the fault that came instead."""
    from confluent_kafka import KafkaException

    try:
        return future.result()
    except KafkaException as error:
        return fault_of(error)


def _is_denial(failure: Fault) -> bool:
    return "AUTHORIZATION" in failure.name or "AUTHENTICATION" in failure.name


def fault_of(error: Any) -> Fault:
    """Return librdkafka's error by Kafka's name; its own (negative) codes are told apart."""
    from confluent_kafka import KafkaException

    inner = error.args[0] if isinstance(error, KafkaException) else error
    code = inner.code()
    if code > 0:
        found = fault(code, inner.str())
        assert found is not None
        return found
    names = {
        "_TIMED_OUT": "REQUEST_TIMED_OUT",
        "_AUTHENTICATION": "SASL_AUTHENTICATION_FAILED",
        # The connection that a client began with goes once it knows the brokers by id.
        "_DESTROY_BROKER": "TRANSPORT",
    }
    return Fault(names.get(inner.name(), inner.name().lstrip("_")), inner.str())
