"""ConnectionSettings: client.properties as both client libraries want it; secrets stay in here."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.cluster.kafka.connection.config_providers import resolve_providers
from core.cluster.kafka.connection.login.sasl import JAAS_CONFIG, MECHANISM, Login, read_login
from core.cluster.kafka.connection.properties import read_properties
from core.cluster.kafka.connection.property_names import nearest, to_kafka_names
from core.cluster.kafka.connection.route import Route
from core.cluster.kafka.connection.tls import Tls, read_tls
from core.errors import DocumentError, UsageError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TIMEOUT_SECONDS = 10.0
"""How long a cluster may leave whoever asks it without an answer, unless more or less is asked."""
CONNECT_SECONDS = 6.0

_PROPERTY = re.compile(r"[a-z][a-z0-9._-]{1,99}")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to reach a cluster; `ignored` are the properties that mean nothing here, by name."""

    bootstrap: str
    security_protocol: str = "PLAINTEXT"
    login: Login | None = None
    tls: Tls = field(default_factory=Tls)
    ignored: tuple[str, ...] = ()
    timeout_seconds: float = TIMEOUT_SECONDS
    route: Route = field(default_factory=Route)

    @classmethod
    def load(cls, bootstrap: str, properties_path: Path | None = None) -> ConnectionSettings:
        """Return settings from a bootstrap list and a Kafka client properties file.

        Raises UsageError for a bootstrap that is not HOST:PORT,…; DocumentError for a file that
        cannot be read, or asks for what this program cannot do.
        """
        servers = parse_bootstrap(bootstrap)
        if properties_path is None:
            return cls(servers)
        entries = read_client_properties(properties_path)
        return _build_settings(servers, entries, properties_path)

    def scaled_seconds(self, of_default: float) -> float:
        """Return what a step gets of the timeout that gets this of the default timeout."""
        return of_default * self.timeout_seconds / TIMEOUT_SECONDS

    @property
    def is_encrypted(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def suits_librdkafka(self) -> bool:
        """Return whether librdkafka gets there.

        It connects where brokers say that they are, and does not know every login.
        """
        known = self.login is None or self.login.librdkafka_config() is not None
        return known and self.route.is_direct

    def librdkafka_config(self) -> dict[str, Any]:
        """Return librdkafka's configuration, where it suits."""
        login = {} if self.login is None else self.login.librdkafka_config()
        assert login is not None
        assert self.route.is_direct
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.security_protocol,
            "client.id": "trimtab",
            "socket.connection.setup.timeout.ms": int(self.scaled_seconds(CONNECT_SECONDS) * 1000),
            "logger": null_logger(),
        }
        return config | login | (self.tls.librdkafka_config() if self.is_encrypted else {})

    def kafka_python_config(self) -> dict[str, Any]:
        """Return kafka-python's configuration; raises DocumentError for its certificates."""
        config: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap.split(","),
            "security_protocol": self.security_protocol,
            "client_id": "trimtab",
        }
        if self.login is not None:
            config |= self.login.kafka_python_config()
        if self.is_encrypted:
            config["ssl_context"] = self.tls.context()
        return config

    def check_login(self) -> None:
        """Raise what keeps a login from coming about before a broker is asked, as `Login.check`."""
        if self.login is not None:
            self.login.check()

    def check_key(self) -> None:
        """Load the client's key, if it has one; raises as `Tls.context`."""
        if self.is_encrypted:
            self.tls.check_key()


def read_client_properties(path: Path) -> dict[str, str]:
    """Return a file's client properties by Kafka's names, with what its providers resolve.

    Raises DocumentError for a file, or what it refers to, that cannot be read.
    """
    return to_kafka_names(resolve_providers(read_properties(path), path), path)


def parse_bootstrap(bootstrap: str) -> str:
    """Return the bootstrap list without blanks; raises UsageError when it is not HOST:PORT,…"""
    servers = [server.strip() for server in bootstrap.split(",") if server.strip()]
    for server in servers:
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match[2]) < 65536:
            raise UsageError(f"Not an address: {server!r}.", next="Write it like broker-1:9092.")
    if not servers:
        raise UsageError("The address of the cluster is empty.", next="Give -b HOST:PORT.")
    return ",".join(servers)


def null_logger() -> logging.Logger:
    """Return a logger that goes nowhere near the terminal, for libraries that like to talk."""
    logger = logging.getLogger("trimtab.kafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def _build_settings(servers: str, entries: dict[str, str], path: Path) -> ConnectionSettings:
    protocol = entries.pop("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise DocumentError(
            f"{path}: security.protocol is {protocol or 'empty'}.",
            next=f"Known: {', '.join(PROTOCOLS)}.",
        )
    suspects = set(entries)
    try:
        login = read_login(entries, servers, path) if protocol.startswith("SASL") else None
        tls = read_tls(entries, path, used=protocol.endswith("SSL"))
    except DocumentError as error:
        error.next = f"{error.next} {misspellings(suspects)}".strip()
        raise
    # What a login would be of where none is wanted, and what is said by -b, is known and not used.
    ignored = set(entries) - {MECHANISM, JAAS_CONFIG, "bootstrap.servers"}
    return ConnectionSettings(servers, protocol, login, tls, _printable_names(ignored))


def misspellings(names: Iterable[str]) -> str:
    """Return which of these are properties of Kafka's clients misspelt, in a sentence each."""
    meant = {name: nearest(name) for name in sorted(names) if _PROPERTY.fullmatch(name)}
    return " ".join(f"Is {name} meant to be {other}?" for name, other in meant.items() if other)


def _printable_names(left: Iterable[str]) -> tuple[str, ...]:
    """Return names of properties; a line of a key whose value goes on unescaped is not told."""
    names = {name for name in left if _PROPERTY.fullmatch(name)}
    return (*sorted(names), *(["lines that are no properties"] if names < {*left} else []))
