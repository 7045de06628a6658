"""Sends Kafka's own requests over kafka-python's connections: to any broker, to the controller,
or to many brokers side by side.

kafka-python's connection manager is used instead of its admin methods, which drop what must not
be lost: the error of a whole answer, messages, deadlines.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from core.cluster.kafka.connection.diagnosis import ConnectionFailure, unreachable
from core.cluster.kafka.connection.login.kerberos import GSSAPI
from core.cluster.kafka.connection.settings import CONNECT_SECONDS, ConnectionSettings
from core.cluster.kafka_errors import AllDeniedError, Fault, access_denied
from core.cluster.metadata import Reassignment, TopicPartition
from core.errors import RIGHTS, LoginRefusedError, UnreachableError

# One answer may take so long, and after that there is time to ask another broker.
_ANSWER_SECONDS = 5.0
_READ_SECONDS = 6.0
# The metadata of a large cluster on a slow line may take longer; it is then asked for with more
# and more of it.
_MAX_ANSWER_SECONDS = 20.0
_BROKER_SECONDS = 4.0
CONTROLLER_SECONDS = 15.0
_RETRY_SECONDS = 0.1
_CLOSE_SECONDS = 1.0
"""How long who closes waits for somebody who is just connecting."""
NOT_CONTROLLER = 41
TIMED_OUT = "REQUEST_TIMED_OUT"
LEFT_OUT = Fault("UNKNOWN_SERVER_ERROR", "the broker left it out of its answer")
# Where kafka-python's names are not Kafka's own.
_NAMES = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}

_K = TypeVar("_K")
_V = TypeVar("_V")


class AnswerTimeout:
    """For how long a large answer is waited for; more after each time that it was too short."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.seconds = settings.scaled_seconds(_ANSWER_SECONDS)
        self._max_seconds = settings.scaled_seconds(_MAX_ANSWER_SECONDS)

    def extend(self) -> bool:
        """Have it be longer the next time; return whether it can be."""
        grows = self.seconds < self._max_seconds
        self.seconds = min(2 * self.seconds, self._max_seconds)
        return grows


class Wire:
    """kafka-python's connections to one cluster, opened at the first call."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._opening = threading.Lock()
        self._admin: Any = None
        self._closed = False
        self.controller: int | None = None
        """The broker that takes requests for the controller, once it is known."""
        self.metadata_timeout = AnswerTimeout(settings)
        """With the description of the whole cluster."""
        self.cluster_id: str | None = None
        """The cluster that was first connected to, and the only one that is ever asked."""
        self.last_answer_at = -math.inf
        """When any broker last sent anything (monotonic seconds)."""
        self.last_reassignments: dict[TopicPartition, Reassignment] = {}
        """What was in flight when the controller last said so."""
        self.moves_unknown = ""
        """Why this user may not know that, as the last answer was; "" where it may."""
        self.leaders: dict[TopicPartition, int] = {}
        """Who led partitions when they were last looked for, until one of them denies it."""
        self._config_broker: int | None = None

    def close(self) -> None:
        self._closed = True
        if not self._opening.acquire(timeout=_CLOSE_SECONDS):
            return  # whoever is connecting finds it closed, and leaves nothing
        try:
            self._close()
        finally:
            self._opening.release()

    def _close(self) -> None:
        if self._admin is not None:
            from core.cluster.kafka.connection.python_clients import close_admin

            close_admin(self._admin)

    def manager(self) -> Any:
        with self._opening:
            if self._admin is None:
                self._admin = _open(self._settings, self._record_answer_time)
                self.cluster_id = self._admin._manager.cluster.cluster_id
            if self._closed:
                self._close()
                raise UnreachableError("The connection was closed.", next="Try again.")
            manager = self._admin._manager
        # Addresses may come to be another cluster's: what is meant for one is not done to another.
        self.check_cluster_id(manager.cluster.cluster_id)
        return manager

    def check_cluster_id(self, cluster_id: str | None) -> None:
        """Raise UnreachableError where it is another cluster by now that answers."""
        if None in (cluster_id, self.cluster_id) or cluster_id == self.cluster_id:
            return
        raise UnreachableError(
            f"{self._settings.bootstrap} is cluster {cluster_id} now, no longer {self.cluster_id}.",
            next="Give -b HOST:PORT of the cluster that is meant.",
        )

    def _record_answer_time(self) -> None:
        self.last_answer_at = time.monotonic()

    @property
    def brokers(self) -> frozenset[int]:
        """Return the brokers that were up when kafka-python last looked; none before it did."""
        with self._opening:
            return self._known_brokers()

    def _known_brokers(self) -> frozenset[int]:
        known = () if self._admin is None else self._admin._manager.cluster.brokers()
        return frozenset(b.node_id for b in known if isinstance(b.node_id, int) and b.node_id >= 0)

    def failures(self, *, waiting: bool = True) -> list[ConnectionFailure]:
        """Return which brokers failed when last asked, `waiting` for answers included."""
        admin = self._admin
        return admin._manager.failures(waiting=waiting) if admin is not None else []

    def explain(self, error: Exception, detail: str) -> Exception:
        """Return what to raise for kafka-python's error: whom it is about, and what to do."""
        return _translate_error(error, self._settings, detail, self.failures())

    def controller_or(self, node: int) -> int:
        return node if self.controller is None else self.controller

    def set_controller(self, broker: int) -> None:
        """Keep whom the brokers name as the controller.

        Those of KRaft name any of themselves, be it one that hangs, and pass on what they are
        asked: whoever answers is as good.
        """
        from kafka.errors import IncompatibleBrokerVersion
        from kafka.protocol.admin import DescribeQuorumRequest

        try:
            self.manager().broker_version_data.api_version(DescribeQuorumRequest)
        except IncompatibleBrokerVersion:
            self.controller = broker
        else:
            self.controller = None

    def ask_any(self, ask: Callable[[Any, int], Any], patience: AnswerTimeout | None = None) -> Any:
        """Return what `ask` awaits of any broker, trying others; `patience` waits longer."""
        from kafka.errors import KafkaError, RequestTimedOutError, UnknownBrokerIdError

        from core.cluster.kafka.connection.transports import NoHandshakeError

        manager = self.manager()
        seconds = self._settings.scaled_seconds(_READ_SECONDS)
        deadline = time.monotonic() + seconds

        async def attempt() -> Any:
            return await ask(manager, await manager.ready_node())

        while True:
            try:
                return manager.run(attempt)
            except KafkaError as error:
                self.controller = None
                # A password that is refused now may be right once a broker has read it; the
                # library would never ask again.
                manager._auth_failures.clear()
                # The broker that stands for the controller may have joined since kafka-python
                # last looked; another one is named the next time.
                passes = isinstance(error, UnknownBrokerIdError) or (
                    getattr(error, "retriable", False) and not isinstance(error, NoHandshakeError)
                )
                if isinstance(error, RequestTimedOutError) and patience and patience.extend():
                    deadline = time.monotonic() + seconds
                if not passes or time.monotonic() > deadline:
                    raise self.explain(error, str(error)) from error
                time.sleep(_RETRY_SECONDS)

    def send_to_any(self, request: Any, patience: AnswerTimeout | None = None) -> Any:
        """Return the answer of any broker to one request; see `ask_any`."""

        async def ask(manager: Any, node: int) -> Any:
            if patience is None:
                return await manager.send(request, node_id=node)
            milliseconds = patience.seconds * 1000
            return await manager.send(request, node_id=node, request_timeout_ms=milliseconds)

        return self.ask_any(ask, patience)

    def send_for_configs(self, request: Any) -> Any:
        """Return the answer of one broker, the same each time for as long as it answers.

        Another one may not have heard yet of what was altered by this one.
        """

        async def ask(manager: Any, node: int) -> Any:
            broker = self._config_broker if self._config_broker in self._known_brokers() else node
            self._config_broker = None
            answer = await manager.send(request, node_id=broker)
            self._config_broker = broker
            return answer

        return self.ask_any(ask)

    def ask_controller(
        self,
        request: Any,
        errors: Callable[[Any], Iterable[int]] = lambda answer: (answer.error_code,),
    ) -> Any:
        """Return the controller's answer, following it while it moves.

        `errors` are the codes of an answer, by default that of the whole. KRaft brokers pass such
        requests on and name any one of themselves as the controller.
        """
        from kafka.protocol.metadata import MetadataRequest

        seconds = min(CONTROLLER_SECONDS, self._settings.timeout_seconds)
        deadline = time.monotonic() + seconds

        async def ask(manager: Any, node: int) -> Any:
            if self.controller is None:
                metadata = await manager.send(MetadataRequest(topics=[]), node_id=node)
                self.set_controller(metadata.controller_id)
            return await manager.send(
                request,
                node_id=self.controller_or(node),
                request_timeout_ms=seconds * 1000,
            )

        while True:
            answer = self.ask_any(ask)
            if NOT_CONTROLLER not in errors(answer) or time.monotonic() > deadline:
                return answer
            self.controller = None
            time.sleep(_RETRY_SECONDS)

    def ask_each(
        self, requests: Mapping[int, Any], seconds: float = _BROKER_SECONDS
    ) -> dict[int, Any]:
        """Ask all side by side; return each broker's answer, or its exception within `seconds`."""
        from kafka.errors import KafkaError, UnknownBrokerIdError

        manager = self.manager()
        milliseconds = self._settings.scaled_seconds(seconds) * 1000

        async def ask(broker: int, request: Any) -> Any:
            try:
                return await manager.send(request, node_id=broker, request_timeout_ms=milliseconds)
            except UnknownBrokerIdError:
                # It may have joined since kafka-python last looked.
                await manager.cluster.refresh_metadata()
            return await manager.send(request, node_id=broker, request_timeout_ms=milliseconds)

        def call(broker: int, request: Any) -> Any:
            try:
                return manager.run(ask, broker, request)
            except KafkaError as error:
                return error

        return run_in_parallel({b: partial(call, b, r) for b, r in requests.items()})

    def raise_if_all_failed(self, answers: Iterable[object], operation: str) -> None:
        """Raise AllDeniedError where nobody may ask, UnreachableError where nobody answers.

        `operation` is what a user has to be allowed for an answer. Brokers that are silent are not
        the cluster: any other one is asked whether it is there.
        """
        from kafka.protocol.admin import DescribeClusterRequest

        faults = [answer if isinstance(answer, Fault) else None for answer in answers]
        if not faults or faults[0] is None:
            return
        if all(fault is not None and fault.is_denial for fault in faults):
            raise AllDeniedError(faults[0], operation)
        if all(fault is not None and fault.name == TIMED_OUT for fault in faults):
            self.send_to_any(DescribeClusterRequest())


def run_in_parallel(calls: Mapping[_K, Callable[[], _V]]) -> dict[_K, _V]:
    """Return every call's answer; all run at once, each in a thread of its own."""
    answers: dict[_K, _V] = {}

    def run(key: _K, call: Callable[[], _V]) -> None:
        answers[key] = call()

    threads = [
        threading.Thread(target=run, args=(key, call), daemon=True) for key, call in calls.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def fault_from_code(code: int, message: str | None = None) -> Fault | None:
    """Return Kafka's error by its own name; None for no error."""
    if code == 0:
        return None
    from kafka.errors import for_code

    name = _NAMES.get(code) or getattr(for_code(code), "message", None) or f"ERROR_{code}"
    return Fault(name, message or "")


def fault_from_silence(error: Exception) -> Fault:
    """Return what is known of a request that was not answered: it may have been taken."""
    return Fault(TIMED_OUT, str(error) or type(error).__name__)


def _open(settings: ConnectionSettings, on_bytes: Callable[[], None]) -> Any:
    from kafka.errors import KafkaError

    from core.cluster.kafka.connection.python_clients import open_admin

    settings.check_login()
    setup_ms = int(settings.scaled_seconds(_BROKER_SECONDS) * 1000)
    try:
        return open_admin(
            settings,
            on_bytes,
            {
                "socket_connection_setup_timeout_ms": setup_ms,
                "socket_connection_setup_timeout_max_ms": setup_ms,
            },
            bootstrap_timeout_ms=int(settings.scaled_seconds(CONNECT_SECONDS) * 1000),
            request_timeout_ms=int(settings.scaled_seconds(_ANSWER_SECONDS) * 1000),
            reconnect_backoff_max_ms=1000,
            # One more in flight than this is refused at once; screens and runs ask side by side.
            max_in_flight_requests_per_connection=100,
            metadata_max_age_ms=10_000,
        )
    except KafkaError as error:
        raise _translate_error(error, settings, "", ()) from error


def _translate_error(
    error: Exception,
    settings: ConnectionSettings,
    detail: str,
    troubles: Sequence[ConnectionFailure],
) -> Exception:
    from kafka.errors import (
        AuthorizationError,
        IncompatibleBrokerVersion,
        SaslAuthenticationFailedError,
    )

    match error:
        case IncompatibleBrokerVersion():
            return UnreachableError(
                f"The brokers do not know a request of trimtab's: {error.args[0]}.",
                next="trimtab needs Kafka 2.8 or newer.",
            )
        case SaslAuthenticationFailedError():
            title = "The cluster refuses this user name or password."
            if settings.login is not None and settings.login.mechanism == GSSAPI:
                title = f"No login by Kerberos comes about: {error.args[0]}."
            return LoginRefusedError(title, next=RIGHTS)
        case AuthorizationError():
            return access_denied(f"The cluster says no: {type(error).message}.")
    return unreachable(settings, detail, troubles)


def raise_for_error(answer: Any, doing: str, takes: str) -> None:
    """Raise what a whole answer's error means; an answer without one is good.

    `takes` is the right that who asks must have, like "ALTER on the cluster".
    """
    failure = fault_from_code(answer.error_code, getattr(answer, "error_message", None))
    if failure is None:
        return
    if failure.is_denial:
        raise access_denied(f"This user may not {doing}.", takes)
    raise unreachable(None, f"The cluster could not {doing}: {failure}.")
