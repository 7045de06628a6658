"""kafka-python's connections, each step of which has a deadline; for `python_clients` alone.

The library has none for a TLS handshake, looks names up in the thread that all connections share,
asks one bootstrap server at a time, and asks on after an answer that is final.
"""

from __future__ import annotations

import random
import socket
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka.errors import (
    AuthorizationError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.future import Future
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from core.cluster.kafka.connection.diagnosis import ConnectionFailure, is_misconfigured
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.connection.transports import NoHandshakeError, TcpTransport, TlsTransport

FINAL_ERRORS = (
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    AuthorizationError,
    IncompatibleBrokerVersion,
)
"""What a broker answers the same however often it is asked."""
OTHER_SERVERS_SECONDS = 0.5
"""How long other bootstrap servers may take to answer differently from a final answer."""
_MAX_CANDIDATES = 3
"""To so many brokers connections are begun where one is needed: some may hang."""
_MAX_FAILURES = 2
"""After so many a bootstrap server is looked at for why."""
_BUSY_SECONDS = 0.5
"""How long new connections may take while one stands on which others wait for answers."""


class BrokerConnections(KafkaConnectionManager):
    """The connections of one client; everything but `troubles` is for the client's own thread."""

    def __init__(
        self,
        net: NetworkSelector,
        settings: ConnectionSettings,
        on_bytes: Callable[[], None],
        on_failure: Callable[[int, str, Exception], None] | None = None,
        **config: Any,
    ) -> None:
        super().__init__(net, **config)
        self._settings = settings
        self._on_bytes, self._on_failure = on_bytes, on_failure
        self._failures: dict[int | str, Exception] = {}
        self._places: dict[int | str, str] = {}
        """Where servers were connected to last: one that hangs is soon not in the metadata."""
        self._sockets: list[weakref.ref[socket.socket]] = []
        self._final: set[str] = set()
        """The bootstrap servers whose answers are final, and no good."""

    def failures(self, *, waiting: bool = True) -> list[ConnectionFailure]:
        """Return which servers failed when last tried, `waiting` ones included; from any thread."""
        errors = dict(self._failures)
        for id, connection in list(self._conns.items()) if waiting else ():
            if not connection.connected or connection.in_flight_requests:
                errors.setdefault(id, KafkaTimeoutError("it has not answered yet"))
        failures = []
        for id, error in errors.items():
            node = self.cluster.broker_metadata(id)
            place = self._places.get(id) if node is None else f"{node.host}:{node.port}"
            if place is not None:
                broker = id if isinstance(id, int) else None
                failures.append(ConnectionFailure(broker, place, str(error)))
        return sorted(failures, key=lambda trouble: (trouble.broker is None, trouble.broker or 0))

    def close_sockets(self) -> None:
        """Close what the library leaves to the garbage collector; once its thread has ended."""
        for reference in self._sockets:
            left = reference()
            if left is not None:
                left.close()

    # -- which broker to ask -----------------------------------------------------------------------

    async def ready_node(self) -> Any:
        """Return the first broker to which a connection stands; raises NodeNotReadyError."""
        nodes = [broker.node_id for broker in self.cluster.brokers()]
        random.shuffle(nodes)
        known = {node: self._conns[node] for node in nodes if node in self._conns}
        usable = [node for node, c in known.items() if c.connected and not c.paused]
        usable.sort(key=lambda node: len(self._conns[node].in_flight_requests))
        if usable and not self._conns[usable[0]].in_flight_requests:
            return usable[0]
        fresh = [n for n in nodes if n not in usable and self.connection_delay(n) == 0]
        first = Future()
        waiting = 0
        failed: list[Exception] = []

        def succeeded(node: int, _: object) -> None:
            if not first.is_done:
                first.success(node)

        def did_not(error: Exception) -> None:
            failed.append(error)
            if len(failed) == waiting and not first.is_done:
                settle()

        def settle() -> None:
            if first.is_done:
                return
            if usable:
                first.success(usable[0])
            else:
                first.failure(failed[-1] if failed else NodeNotReadyError("no broker is reached"))

        for node in fresh[:_MAX_CANDIDATES]:
            try:
                connection = self.get_connection(node)
            except KafkaError as error:
                failed.append(error)
                continue
            waiting += 1
            connection.init_future.add_callback(partial(succeeded, node))
            connection.init_future.add_errback(did_not)
        if not waiting or len(failed) >= waiting:
            settle()
        elif usable:
            self._net.call_later(_BUSY_SECONDS, settle)
        return await first

    def ask_any(self, request: Any, seconds: float) -> Any:
        """Return any broker's answer, from another thread than the client's, whichever that is.

        Raises kafka-python's KafkaError.
        """

        async def ask() -> Any:
            node = await self.ready_node()
            return await self.send(request, node, request_timeout_ms=seconds * 1000)

        answered = threading.Event()
        future = self._net.call_soon_with_future(ask)
        future.add_both(lambda _: answered.set())
        if not answered.wait(seconds):
            raise KafkaTimeoutError(f"No broker has answered within {seconds:g} s")
        if future.failed():
            raise future.exception
        return future.value

    # -- connecting --------------------------------------------------------------------------------

    def get_connection(self, node_id: int | str, *args: Any, **options: Any) -> Any:
        known = self._conns.get(node_id)
        connection = super().get_connection(node_id, *args, **options)
        if connection is not known:
            if (node := self.cluster.broker_metadata(node_id)) is not None:
                self._places[node_id] = f"{node.host}:{node.port}"
            # Until it has come about, nothing is known against it.
            connection.init_future.add_callback(lambda _: self._failures.pop(node_id, None))
            connection.close_future.add_errback(partial(self._failed, node_id))
        return connection

    def _failed(self, node_id: int | str, error: Exception) -> None:
        self._failures[node_id] = error
        if self._on_failure is not None and isinstance(node_id, int):
            self._on_failure(node_id, self._places.get(node_id, ""), error)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        ends = time.monotonic() + 60 if timeout_at is None else timeout_at
        connection = await self._connect_socket(node.host, node.port, ends)
        try:
            if not self.ssl_enabled:
                return TcpTransport(self._net, connection, host=node.host, on_bytes=self._on_bytes)
            transport = TlsTransport(
                *(self._net, connection),
                host=node.host,
                on_bytes=self._on_bytes,
                ssl_context=self.config["ssl_context"],
            )
            connection = transport._sock  # the wrapped one owns the descriptor now
            self._keep(connection)
            await transport.shake_hands(ends)
        except BaseException:
            connection.close()
            raise
        return transport

    def _keep(self, connection: socket.socket) -> None:
        self._sockets = [reference for reference in self._sockets if reference() is not None]
        self._sockets.append(weakref.ref(connection))

    async def _connect_socket(self, host: str, port: int, ends: float) -> Any:
        route = self._settings.route
        host, port = route.target(host, port)
        if route.proxy is not None:
            return await self._connect_by_proxy(host, port, ends)
        addresses = await self._resolve(host, port, ends)
        error: Exception = KafkaConnectionError(f"{host} has no address")
        for place, (family, address) in enumerate(addresses):
            left = max(0.0, ends - time.monotonic())
            connection = socket.socket(family, socket.SOCK_STREAM)
            self._keep(connection)
            connection.setblocking(False)
            for option in self.config["socket_options"]:
                connection.setsockopt(*option)
            try:
                return await KafkaNetSocket().sock_connect(
                    *(self._net, connection, address),
                    timeout_at=time.monotonic() + left / (len(addresses) - place),
                )
            except KafkaTimeoutError:
                error = KafkaConnectionError("Connection timed out")
            except (KafkaConnectionError, OSError) as failed:
                error = KafkaConnectionError(f"unable to connect: {failed}")
            except BaseException:  # the client is closed while it connects
                connection.close()
                raise
            connection.close()
        raise error

    async def _connect_by_proxy(self, host: str, port: int, ends: float) -> Any:
        seconds = max(0.1, ends - time.monotonic())
        route = self._settings.route
        opened = self._run_in_thread(lambda: route.connect_by_proxy(host, port, seconds))
        try:
            connection = await self.wait_for(opened, seconds * 1000)
        except (KafkaTimeoutError, TimeoutError):
            opened.add_callback(lambda late: late.close())
            raise KafkaConnectionError("Connection timed out") from None
        except OSError as error:
            raise KafkaConnectionError(str(error)) from error
        self._keep(connection)
        connection.setblocking(False)
        for option in self.config["socket_options"]:
            connection.setsockopt(*option)
        return connection

    async def _resolve(self, host: str, port: int, ends: float) -> list[tuple[int, Any]]:
        """Return a host's families and addresses; a thread that may hang alone looks names up."""
        try:
            return _addresses(host, port, socket.AI_NUMERICHOST)
        except OSError:
            looked_up = self._run_in_thread(lambda: _addresses(host, port))
        try:
            wait_ms = max(0.0, ends - time.monotonic()) * 1000
            addresses: list[tuple[int, Any]] = await self.wait_for(looked_up, wait_ms)
        except KafkaTimeoutError:
            raise KafkaConnectionError(f"{host} was not resolved in time") from None
        except (OSError, UnicodeError) as error:
            raise KafkaConnectionError(f"{host} cannot be resolved: {error}") from error
        return addresses

    def _run_in_thread(self, call: Callable[[], Any]) -> Any:
        """Return a Future of what a call returns, or raises, that holds up nothing else."""
        future = Future()

        def run() -> None:
            settle: Callable[[], object]
            answer: Any = None
            try:
                answer = call()
            except Exception as error:  # noqa: BLE001 - it goes to whoever waits
                failed = error
                settle = lambda: future.failure(failed)  # noqa: E731
            else:
                settle = lambda: future.success(answer)  # noqa: E731
            try:
                self._net.call_soon_threadsafe(settle)
            except RuntimeError:  # closed meanwhile: nobody waits for it
                if isinstance(answer, socket.socket):
                    answer.close()

        threading.Thread(target=run, name="kafka-aside", daemon=True).start()
        return future

    # -- bootstrap ---------------------------------------------------------------------------------

    async def _do_bootstrap(self, deadline: float | None) -> bool:
        """Ask all servers side by side; the first that answers does, and so does a final answer."""
        ends = time.monotonic() + 60 if deadline is None else deadline
        outcome = Future()

        def late() -> None:
            if not outcome.is_done:
                outcome.failure(KafkaTimeoutError("no bootstrap server has answered"))

        timer = self._net.call_at(ends, late)
        for server in self.cluster.bootstrap_brokers():
            self._net.call_soon(partial(self._bootstrap_from, server.node_id, ends, outcome))
        try:
            await outcome
        finally:
            self._net.cancel(timer)
            for server in self.cluster.bootstrap_brokers():
                self._drop(server.node_id, None)
        self.cluster.start_refresh_loop()
        return True

    async def _bootstrap_from(self, server: str, ends: float, outcome: Any) -> None:
        failures = 0
        while not (outcome.is_done or self.closed) and time.monotonic() < ends:
            try:
                connection = self.get_connection(
                    server,
                    timeout_ms=max(1.0, (ends - time.monotonic()) * 1000),
                    pop_on_close=False,
                    refresh_metadata_on_err=False,
                    reset_backoff_on_connect=False,
                )
                await connection
                await self.cluster._do_refresh_metadata(server)
                if not self.cluster.brokers():
                    raise KafkaConnectionError("it names no brokers")
            except KafkaError as error:
                if outcome.is_done:
                    return
                self._failures[server] = error
                self._drop(server, error)
                failures += 1
                final = isinstance(error, (*FINAL_ERRORS, NoHandshakeError))
                if failures == _MAX_FAILURES and not final:
                    # Of some misunderstandings all one sees is that the other hangs up.
                    node = self.cluster.broker_metadata(server)
                    final = await self._run_in_thread(
                        partial(is_misconfigured, self._settings, f"{node.host}:{node.port}")
                    )
                if final:
                    self._final.add(server)
                    if len(self._final) < len(self.cluster.bootstrap_brokers()):
                        await self._net.sleep(OTHER_SERVERS_SECONDS)
                    if not outcome.is_done:
                        outcome.failure(error)
                    return
                self.update_backoff(server)
                await self._net.sleep(self.connection_delay(server))
            else:
                if not outcome.is_done:
                    self.reset_backoff(server)
                    outcome.success(True)
                return

    def _drop(self, server: str, error: Exception | None) -> None:
        connection = self._conns.pop(server, None)
        if connection is not None:
            connection.close(error)


def _addresses(host: str, port: int, flags: int = 0) -> list[tuple[int, Any]]:
    addrinfos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys((family, address) for family, *_, address in addrinfos))
