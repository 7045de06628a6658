"""Opens kafka-python's clients on connections of ours, and closes them with nothing left behind."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector

from core.cluster.kafka.connection.login.mechanisms import register_mechanisms
from core.cluster.kafka.connection.network import BrokerConnections
from core.cluster.kafka.connection.settings import ConnectionSettings

_C = TypeVar("_C", KafkaAdminClient, KafkaConsumer, KafkaProducer)


def open_admin(
    settings: ConnectionSettings,
    on_bytes: Callable[[], None],
    of_connections: Mapping[str, Any],
    **config: Any,
) -> KafkaAdminClient:
    """Return kafka-python's client, bootstrapped; see `open_client`."""
    admin, _ = open_client(KafkaAdminClient, settings, on_bytes, of_connections, **config)
    return admin


def open_client(
    kind: type[_C],
    settings: ConnectionSettings,
    on_bytes: Callable[[], None],
    of_connections: Mapping[str, Any],
    on_failure: Callable[[int, str, Exception], None] | None = None,
    **config: Any,
) -> tuple[_C, BrokerConnections]:
    """Return a client, bootstrapped; raises kafka-python's KafkaError and leaves nothing behind.

    `on_bytes` is called, in a thread of its own, whenever any broker has sent something, and
    `on_failure` when a connection to one is lost, or does not come about: with its id and address.
    `of_connections` are configs that the client itself does not know.
    """
    register_mechanisms()
    library = logging.getLogger("kafka")
    if not library.handlers:
        library.addHandler(logging.NullHandler())
    library.propagate = False
    # Whoever looks at its debug messages would read its whole configuration, passwords too.
    logging.getLogger("kafka.admin.client").setLevel(logging.INFO)
    networks: list[KafkaNetClient] = []

    def network(**config: Any) -> KafkaNetClient:
        config |= of_connections
        net = NetworkSelector(**config)
        connections = BrokerConnections(net, settings, on_bytes, on_failure, **config)
        networks.append(KafkaNetClient(net, connections, **config))
        return networks[-1]

    try:
        client = kind(**settings.kafka_python_config(), kafka_client=network, **config)
        return client, networks[-1]._manager
    except KafkaError:
        # Its constructor leaves the thread and the sockets of a failed attempt behind.
        for half_open in networks:
            half_open.close()
            half_open._manager.close_sockets()
        raise


def close_admin(admin: KafkaAdminClient) -> None:
    """Close the client, its thread and its sockets."""
    admin.close()
    admin._manager.close_sockets()
