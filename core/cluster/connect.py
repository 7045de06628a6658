"""Opens a cluster by its address: real brokers, or a simulator's socket (`sim:PATH`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from core.clock import Clock, SystemClock
from core.cluster.capacity import UNKNOWN_CAPACITY, Capacity, with_broker_capacity
from core.errors import (
    AccessDeniedError,
    DocumentError,
    LoginRefusedError,
    UnreachableError,
    UsageError,
)
from core.passwords import MissingPassword, PasswordMissingError, forget, remember

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from core.cluster.access.rights import GrantedRights
    from core.cluster.client import ClusterClient, TopicReader, TopicWriter
    from core.cluster.kafka.connection.certificates import Certificate
    from core.cluster.kafka.connection.settings import ConnectionSettings
    from core.cluster.state import ClusterState

SIMULATOR_PREFIX = "sim:"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a cluster is, and what its brokers can carry: enough to open it again elsewhere."""

    bootstrap: str
    command_config: Path | None = None
    capacity: Capacity = UNKNOWN_CAPACITY
    timeout_seconds: float | None = None
    """For how long it may leave whoever asks without an answer; None is the default."""
    balancer_topics: frozenset[str] = frozenset()
    """Topics that tell of another balancer, by the user's configuration."""
    name: str | None = None
    """The name of config.toml that it was given by: it stays that cluster's."""

    @property
    def is_simulated(self) -> bool:
        return self.bootstrap.startswith(SIMULATOR_PREFIX)


@dataclass(frozen=True, slots=True)
class Connection:
    """An open client with the clock that its cluster lives by; `with` closes it."""

    client: ClusterClient
    clock: Clock
    address: Address
    silent_brokers: Callable[[], Mapping[int, str]] = dict
    """Tells the addresses of brokers that did not answer when they were last asked."""
    last_answer_at: Callable[[], float] = lambda: -math.inf
    """Tells when any broker has last answered anything (monotonic seconds), if that is known."""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()


def connect(address: Address) -> Connection:
    """Return an open connection; raises UnreachableError, DocumentError for its properties."""
    if address.is_simulated:
        from core.cluster.simulation.client import SimulatorClient

        simulator = SimulatorClient(Path(address.bootstrap.removeprefix(SIMULATOR_PREFIX)))
        client = _with_address_settings(cast("ClusterClient", simulator), address)
        clock = simulator.clock
        return Connection(client, clock, address, last_answer_at=lambda: simulator.last_answer_at)
    from core.cluster.kafka.client import KafkaClient, with_deadline

    settings = connection_settings(address)
    kafka = KafkaClient(settings)
    patient = with_deadline(kafka, settings.timeout_seconds)
    client = _with_address_settings(patient, address)
    return Connection(
        client, SystemClock(), address, kafka.silent_brokers, lambda: kafka.last_answer_at
    )


def connection_settings(address: Address) -> ConnectionSettings:
    """Return how the clients of Kafka's libraries reach a cluster, by config.toml's route to it.

    Raises DocumentError for its properties, UsageError for config.toml.
    """
    from core.cluster.kafka.connection.route import Route
    from core.cluster.kafka.connection.settings import TIMEOUT_SECONDS, ConnectionSettings
    from core.settings import load_settings

    about = list(load_settings().about(address.name, address.bootstrap).values())
    return replace(
        ConnectionSettings.load(address.bootstrap, address.command_config),
        timeout_seconds=address.timeout_seconds or TIMEOUT_SECONDS,
        route=Route(
            next((cluster.addresses for cluster in about if cluster.addresses), {}),
            next((cluster.proxy for cluster in about if cluster.proxy), None),
        ),
    )


def open_topic_reader(address: Address, topic: str) -> TopicReader:
    """Return a reader of one topic; raises UsageError for a simulated cluster, DocumentError."""
    if address.is_simulated:
        raise UsageError(
            "A simulated cluster has no records to read.", next="Name real brokers with -b."
        )
    from core.cluster.kafka.topic_reader import KafkaTopicReader

    return KafkaTopicReader(connection_settings(address), topic)


def open_topic_writer(address: Address, topic: str) -> TopicWriter:
    """Return a writer of one topic; raises UsageError for a simulated cluster, DocumentError."""
    if address.is_simulated:
        raise UsageError(
            "A simulated cluster keeps no records.",
            next="Name real brokers to write to: --to-bootstrap-server.",
        )
    from core.cluster.kafka.topic_writer import KafkaTopicWriter

    return KafkaTopicWriter(connection_settings(address), topic)


def java_client_properties(address: Address) -> dict[str, str]:
    """Return what a client of Java needs to reach a cluster; it may hold passwords.

    Raises UsageError for a simulated cluster or one that is reached by a route of config.toml's,
    DocumentError for its properties.
    """
    if address.is_simulated:
        raise UsageError("No Java client reaches a simulated cluster.", next="Name real brokers.")
    from core.cluster.kafka.connection.java_properties import java_properties

    if not connection_settings(address).route.is_direct:
        raise UsageError(
            "A Java client reaches brokers at the addresses that they advertise, not by "
            "config.toml's addresses or proxy.",
            next="Run this where the brokers' own addresses are reached.",
        )
    return java_properties(address.bootstrap, address.command_config)


def _with_address_settings(client: ClusterClient, address: Address) -> ClusterClient:
    from core.cluster.client import with_state
    from core.cluster.known_names import check_name

    def change(state: ClusterState) -> ClusterState:
        if address.name is not None:
            check_name(address.name, state.cluster_id)
        able = with_broker_capacity(state, address.capacity)
        return replace(able, balancer_topics=address.balancer_topics)

    return with_state(client, change)


def for_cluster(client: ClusterClient, cluster_id: str) -> ClusterClient:
    """Return `client` that raises UnreachableError once its address is another cluster's."""
    from core.cluster.client import with_state
    from core.cluster.known_names import name_and_id

    def check(state: ClusterState) -> ClusterState:
        if state.cluster_id != cluster_id:
            raise UnreachableError(
                f"This is cluster {name_and_id(state.cluster_id)}, not {name_and_id(cluster_id)}.",
                next="Its address has become another cluster's.",
            )
        return state

    return with_state(client, check)


def missing_password(address: Address) -> MissingPassword | None:
    """Return the next password that nobody has set or typed; raises DocumentError."""
    if address.is_simulated or address.command_config is None:
        return None
    try:
        connection_settings(address).check_key()
    except PasswordMissingError as error:
        return error.missing
    return None


def store_password(address: Address, missing: MissingPassword, password: str) -> None:
    """Use a password from now on, also in processes to start; raises DocumentError."""
    from core.cluster.kafka.connection.properties import check_no_nul

    check_no_nul(missing.key, password, missing.file)
    remember(missing, password)
    try:
        missing_password(address)
    except DocumentError:
        forget(missing)
        raise


def try_password(
    address: Address, missing: MissingPassword, password: str
) -> MissingPassword | None:
    """Take a password, a user's once the cluster has; return the next that is missing.

    Raises DocumentError for one that is not the key's, LoginRefusedError for one that is not the
    user's, and has them forgotten.
    """
    from core.cluster.kafka.connection.login.sasl import JAAS_CONFIG

    store_password(address, missing, password)
    left = missing_password(address)
    if missing.key == JAAS_CONFIG and left is None:
        with connect(address) as connection:
            try:
                connection.client.describe_cluster()
            except LoginRefusedError:
                forget(missing)
                raise
            except (UnreachableError, AccessDeniedError):
                pass  # this is not about the password; whoever connects next is told
    return left


# -- what a doctor looks at -----------------------------------------------------------------------


def ignored_properties(address: Address) -> tuple[str, ...]:
    """Return the client properties that mean nothing here; raises DocumentError."""
    return connection_settings(address).ignored


def nearest_property(name: str) -> str | None:
    """Return the property of Kafka's clients that a name is a misspelling of, if it is of one."""
    from core.cluster.kafka.connection.property_names import nearest

    return nearest(name)


def redact_properties(path: Path) -> tuple[list[str], frozenset[str]]:
    """Return a properties file's lines as they may be shown, and the texts that may not.

    Raises DocumentError for a file that cannot be read.
    """
    from core.cluster.kafka.connection import redaction

    return redaction.redact_properties(path)


def find_certificates(address: Address, brokers: Sequence[str]) -> list[Certificate]:
    """Return what certificates a connection rests on; raises DocumentError for its stores."""
    from core.cluster.kafka.connection import certificates

    return certificates.find_certificates(connection_settings(address), brokers)


def find_unreachable(address: Address, brokers: Sequence[str]) -> dict[str, str]:
    """Return which of these addresses are not reached from here, and what is seen of each."""
    from core.cluster.kafka.connection.diagnosis import find_unreachable

    return find_unreachable(connection_settings(address), brokers)


def fetch_rights(address: Address) -> GrantedRights:
    """Return what this user may do, without trying any of it.

    Raises UsageError for a simulated cluster, which has no users, UnreachableError,
    AccessDeniedError, DocumentError.
    """
    if address.is_simulated:
        raise UsageError("A simulated cluster has no ACLs.", next="Name real brokers with -b.")
    from core.cluster.kafka import rights
    from core.cluster.kafka.connection.certificates import find_principal
    from core.cluster.kafka.wire import Wire

    settings = connection_settings(address)
    wire = Wire(settings)
    try:
        return rights.fetch_rights(wire, find_principal(settings))
    finally:
        wire.close()


# -- on the command line of a background process ---------------------------------------------------


def address_arguments(address: Address) -> tuple[str, ...]:
    """Return an address as the options that `add_address_options` reads."""
    options = {
        "bootstrap": address.bootstrap,
        "command-config": address.command_config,
        "timeout": address.timeout_seconds,
    }
    return tuple(f"--{name}={value}" for name, value in options.items() if value is not None)


def add_address_options(parser: ArgumentParser) -> None:
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--command-config", type=Path)
    parser.add_argument("--timeout", type=float)


@contextmanager
def connected_by(options: Namespace, capacity: Capacity = UNKNOWN_CAPACITY) -> Iterator[Connection]:
    """Connect to the cluster of these options; raises UnreachableError for another's address."""
    address = Address(options.bootstrap, options.command_config, capacity, options.timeout)
    with connect(address) as connection:
        yield replace(connection, client=for_cluster(connection.client, options.cluster_id))
