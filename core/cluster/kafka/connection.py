"""ConnectionSettings: one Kafka client.properties as both client libraries want it.

Secrets stay in here: they are in no repr, no message and no log.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.cluster.kafka.stores import Pem, find_store, load_key_pair, pem
from core.errors import DocumentError, UsageError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CONNECT_SECONDS = 6.0

_PROPERTY = re.compile(r"[a-z][a-z0-9._-]{1,99}")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+):(\d{1,5})")
_JAAS_ENTRY = re.compile(r"""(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""")


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to reach a cluster; `ignored` are the properties that mean nothing here, by name."""

    bootstrap: str
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ca: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    ignored: tuple[str, ...] = ()

    @classmethod
    def load(cls, bootstrap: str, properties_path: Path | None = None) -> ConnectionSettings:
        """Return settings from a bootstrap list and a Kafka client properties file.

        Raises UsageError for a bootstrap that is not HOST:PORT,…; DocumentError for a file that
        cannot be read, or asks for what this program cannot do.
        """
        servers = check_bootstrap(bootstrap)
        if properties_path is None:
            return cls(servers)
        try:
            text = properties_path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise DocumentError(
                f"{properties_path} cannot be read: {reason}.",
                next="--command-config takes a Kafka client properties file.",
            ) from error
        return _from_properties(servers, parse_properties(text), properties_path)

    @property
    def encrypted(self) -> bool:
        return self.security_protocol.endswith("SSL")

    def confluent(self) -> dict[str, Any]:
        """Return librdkafka's configuration."""
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.security_protocol,
            "client.id": "trimtab",
            "socket.connection.setup.timeout.ms": int(CONNECT_SECONDS * 1000),
            "logger": silent_logger(),
        }
        if self.sasl_mechanism:
            config["sasl.mechanism"] = self.sasl_mechanism
            config["sasl.username"] = self.sasl_username
            config["sasl.password"] = self.sasl_password
        if self.encrypted:
            for name, store in (
                ("ca", self.ca),
                ("certificate", self.certificate),
                ("key", self.key),
            ):
                if store is not None and store.location is not None:
                    config[f"ssl.{name}.location"] = store.location
                elif store is not None:
                    config[f"ssl.{name}.pem"] = store.text
            if self.key_password is not None:
                config["ssl.key.password"] = self.key_password
            config["ssl.endpoint.identification.algorithm"] = (
                "https" if self.check_hostname else "none"
            )
        return config

    def kafka_python(self) -> dict[str, Any]:
        """Return kafka-python's configuration.

        Raises DocumentError when a certificate cannot be loaded.
        """
        config: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap.split(","),
            "security_protocol": self.security_protocol,
            "client_id": "trimtab",
        }
        if self.sasl_mechanism:
            config["sasl_mechanism"] = self.sasl_mechanism
            config["sasl_plain_username"] = self.sasl_username
            config["sasl_plain_password"] = self.sasl_password
        if self.encrypted:
            config["ssl_context"] = self.ssl_context()
        return config

    def ssl_context(self) -> ssl.SSLContext:
        """Return what a TLS connection trusts and shows.

        Raises DocumentError when a certificate cannot be loaded.
        """
        try:
            context = ssl.create_default_context(cadata=self.ca.read() if self.ca else None)
            context.check_hostname = self.check_hostname
            if self.certificate is not None and self.key is not None:
                load_key_pair(context, self.certificate, self.key, self.key_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise DocumentError(
                f"A certificate or key cannot be loaded: {error}.",
                next="Key and trust stores must be PEM files.",
            ) from error
        return context


def check_bootstrap(bootstrap: str) -> str:
    """Return the bootstrap list without blanks; raises UsageError when it is not HOST:PORT,…"""
    servers = [server.strip() for server in bootstrap.split(",") if server.strip()]
    for server in servers:
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match[2]) < 65536:
            raise UsageError(f"Not an address: {server!r}.", next="Write it like broker-1:9092.")
    if not servers:
        raise UsageError("The address of the cluster is empty.", next="Say -b HOST:PORT.")
    return ",".join(servers)


def silent_logger() -> logging.Logger:
    """Return a logger that goes nowhere near the terminal, for libraries that like to talk."""
    logger = logging.getLogger("trimtab.kafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def parse_properties(text: str) -> dict[str, str]:
    """Return the entries of a Java properties file."""
    entries: dict[str, str] = {}
    pending = ""
    for raw in text.splitlines():
        line = pending + raw.lstrip()
        pending = ""
        if not line or line[0] in "#!":
            continue
        if re.search(r"(?<!\\)(?:\\\\)*\\$", line):
            pending = line[:-1]
            continue
        match = re.match(r"((?:[^\\=:\s]|\\.)+)\s*[=:\s]?\s*(.*)", line)
        if match is not None:
            entries[_unescape(match[1])] = _unescape(match[2])
    return entries


def _unescape(text: str) -> str:
    special = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}

    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return special.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9A-Fa-f]{4})|(.))", one, text)


def _from_properties(servers: str, entries: dict[str, str], path: Path) -> ConnectionSettings:
    left = dict(entries)

    def take(key: str) -> str | None:
        return left.pop(key, None) or None

    protocol = (take("security.protocol") or "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise DocumentError(
            f"{path}: security.protocol is {protocol}.", next=f"Known: {', '.join(PROTOCOLS)}."
        )
    mechanism = username = password = None
    jaas = take("sasl.jaas.config")
    if protocol.startswith("SASL"):
        mechanism = take("sasl.mechanism") or "GSSAPI"
        if mechanism not in MECHANISMS:
            raise DocumentError(
                f"{path}: sasl.mechanism {mechanism} is not supported.",
                next=f"Supported: {', '.join(MECHANISMS)}.",
            )
        login = {key: _unquote(value) for key, value in _JAAS_ENTRY.findall(jaas or "")}
        username, password = login.get("username"), login.get("password")
        if username is None or password is None:
            raise DocumentError(
                f"{path}: sasl.jaas.config has no username and password.",
                next='Write it like …PlainLoginModule required username="…" password="…";',
            )
    else:
        take("sasl.mechanism")
    stores: dict[str, str | None] = {}
    for store in ("ssl.truststore", "ssl.keystore"):
        take(f"{store}.type")
        location = take(f"{store}.location")
        if location and protocol.endswith("SSL"):
            location = find_store(store, location, path)
        stores[store] = location
    ca = pem(stores["ssl.truststore"], take("ssl.truststore.certificates"))
    keystore = stores["ssl.keystore"]
    certificate = pem(keystore, take("ssl.keystore.certificate.chain"))
    key = pem(keystore, take("ssl.keystore.key"))
    key_password = take("ssl.key.password")
    identification = left.pop("ssl.endpoint.identification.algorithm", "https")
    left.pop("bootstrap.servers", None)
    return ConnectionSettings(
        servers,
        protocol,
        mechanism,
        username,
        password,
        ca,
        certificate,
        key,
        key_password,
        check_hostname=identification.strip().lower() == "https",
        ignored=_named(left),
    )


def _named(left: Iterable[str]) -> tuple[str, ...]:
    """Return names of properties; a line of a key whose value goes on unescaped is not told."""
    names = {name for name in left if _PROPERTY.fullmatch(name)}
    return (*sorted(names), *(["lines that are no properties"] if names < {*left} else []))


def _unquote(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value[:1] in ("'", '"') else value
