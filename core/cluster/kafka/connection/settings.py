"""ConnectionSettings: one Kafka client.properties as both client libraries want it.

Secrets stay in here: they are in no repr, no message and no log.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.cluster.kafka.connection.properties import parse_properties
from core.cluster.kafka.connection.sasl import EXAMPLE, parse_jaas
from core.cluster.kafka.connection.tls import Pem, find_store, inline_pem, load_key_pair
from core.errors import DocumentError, UsageError
from core.passwords import MissingPassword, PasswordMissingError, find_password

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
KEY_PASSWORD, JAAS_CONFIG = "ssl.key.password", "sasl.jaas.config"
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
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ca: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    ignored: tuple[str, ...] = ()
    timeout_seconds: float = TIMEOUT_SECONDS
    file: Path | None = None
    """The properties that it is from."""

    @classmethod
    def load(cls, bootstrap: str, properties_path: Path | None = None) -> ConnectionSettings:
        """Return settings from a bootstrap list and a Kafka client properties file.

        Raises UsageError for a bootstrap that is not HOST:PORT,…; DocumentError for a file that
        cannot be read, or asks for what this program cannot do.
        """
        servers = parse_bootstrap(bootstrap)
        if properties_path is None:
            return cls(servers)
        try:
            entries = parse_properties(properties_path.read_bytes())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise DocumentError(
                f"{properties_path} cannot be read: {reason}.",
                next="--command-config takes a Kafka client properties file.",
            ) from error
        return _from_properties(servers, entries, properties_path)

    def scaled_seconds(self, of_default: float) -> float:
        """Return what a step gets of the timeout that gets this of the default timeout."""
        return of_default * self.timeout_seconds / TIMEOUT_SECONDS

    @property
    def is_encrypted(self) -> bool:
        return self.security_protocol.endswith("SSL")

    def librdkafka_config(self) -> dict[str, Any]:
        """Return librdkafka's configuration."""
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.security_protocol,
            "client.id": "trimtab",
            "socket.connection.setup.timeout.ms": int(self.scaled_seconds(CONNECT_SECONDS) * 1000),
            "logger": null_logger(),
        }
        if self.sasl_mechanism:
            config["sasl.mechanism"] = self.sasl_mechanism
            config["sasl.username"] = self.sasl_username
            config["sasl.password"] = self.sasl_password
        if self.is_encrypted:
            for name, store in (
                ("ca", self.ca),
                ("certificate", self.certificate),
                ("key", self.key),
            ):
                if store is not None and store.location is not None:
                    config[f"ssl.{name}.location"] = store.location
                elif store is not None:
                    config[f"ssl.{name}.pem"] = store.read()
            if self.key_password is not None:
                config["ssl.key.password"] = self.key_password
            config["ssl.endpoint.identification.algorithm"] = (
                "https" if self.check_hostname else "none"
            )
        return config

    def kafka_python_config(self) -> dict[str, Any]:
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
            config["sasl_plain_username"] = self._scram_name() or self.sasl_username
            config["sasl_plain_password"] = self.sasl_password
        if self.is_encrypted:
            config["ssl_context"] = self.ssl_context()
        return config

    def _scram_name(self) -> str | None:
        """Return the user as a saslname of RFC 5802, which kafka-python would send as it is.

        librdkafka makes one itself.
        """
        if self.sasl_username is None or not (self.sasl_mechanism or "").startswith("SCRAM"):
            return None
        return self.sasl_username.replace("=", "=3D").replace(",", "=2C")

    def ssl_context(self) -> ssl.SSLContext:
        """Return what a TLS connection trusts and shows.

        Raises DocumentError when a certificate cannot be loaded, PasswordMissingError and
        WrongPasswordError for an encrypted key.
        """
        with _certificate_errors():
            context = ssl.create_default_context(cadata=self.ca.read() if self.ca else None)
            context.check_hostname = self.check_hostname
            self._load_key(context)
        return context

    def check_key(self) -> None:
        """Load the client's key, if it has one; raises as `ssl_context`."""
        if self.is_encrypted:
            with _certificate_errors():
                self._load_key(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _load_key(self, context: ssl.SSLContext) -> None:
        if self.certificate is not None and self.key is not None:
            load_key_pair(context, self.certificate, self.key, self._password_of_key)

    def _password_of_key(self) -> str:
        if self.key_password is not None:
            return self.key_password
        assert self.key is not None
        assert self.file is not None
        place = self.key.location or f"in {self.file}"
        missing = MissingPassword(self.file, KEY_PASSWORD, f"the private key {place}")
        raise PasswordMissingError(missing)


@contextmanager
def _certificate_errors() -> Iterator[None]:
    """Raise DocumentError for certificates and keys that cannot be loaded."""
    try:
        yield
    except (OSError, ssl.SSLError, ValueError) as error:
        raise DocumentError(
            f"A certificate or key cannot be loaded: {error}.",
            next="Key and trust stores must be PEM files.",
        ) from error


def parse_bootstrap(bootstrap: str) -> str:
    """Return the bootstrap list without blanks; raises UsageError when it is not HOST:PORT,…"""
    servers = [server.strip() for server in bootstrap.split(",") if server.strip()]
    for server in servers:
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match[2]) < 65536:
            raise UsageError(f"Not an address: {server!r}.", next="Write it like broker-1:9092.")
    if not servers:
        raise UsageError("The address of the cluster is empty.", next="Say -b HOST:PORT.")
    return ",".join(servers)


def null_logger() -> logging.Logger:
    """Return a logger that goes nowhere near the terminal, for libraries that like to talk."""
    logger = logging.getLogger("trimtab.kafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def _from_properties(servers: str, entries: dict[str, str], path: Path) -> ConnectionSettings:
    left = dict(entries)

    def take(key: str) -> str | None:
        return left.pop(key, None) or None

    protocol = left.pop("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise DocumentError(
            f"{path}: security.protocol is {protocol or 'empty'}.",
            next=f"Known: {', '.join(PROTOCOLS)}.",
        )
    mechanism = username = password = None
    jaas = left.pop(JAAS_CONFIG, None)
    if protocol.startswith("SASL"):
        mechanism = left.pop("sasl.mechanism", "GSSAPI")
        if mechanism not in MECHANISMS:
            raise DocumentError(
                f"{path}: sasl.mechanism {mechanism or 'is empty, which'} is not supported.",
                next=f"Supported: {', '.join(MECHANISMS)}.",
            )
        username, password = _parse_login(mechanism, jaas, path)
    else:
        take("sasl.mechanism")
    encrypted = protocol.endswith("SSL")

    def store(kind: str, *inline: str) -> list[Pem | None]:
        """Return a store's PEMs: of the one file, or each of its own property."""
        take(f"{kind}.type")
        location, texts = take(f"{kind}.location"), [take(name) for name in inline]
        if not encrypted:
            return [None] * len(texts)
        if location and any(texts):
            raise DocumentError(
                f"{path}: both {kind}.location and {' or '.join(inline)} are set.",
                next="Take one of them out: Kafka's clients take either, too.",
            )
        if location:
            return [Pem(find_store(kind, location, path))] * len(texts)
        if any(texts) and not all(texts):
            raise DocumentError(
                f"{path}: of {' and '.join(inline)} only one is set.", next="Set both."
            )
        named = zip(inline, texts, strict=True)
        return [inline_pem(name, text, path) if text else None for name, text in named]

    (ca,) = store("ssl.truststore", "ssl.truststore.certificates")
    key, certificate = store("ssl.keystore", "ssl.keystore.key", "ssl.keystore.certificate.chain")
    key_password = take(KEY_PASSWORD) or find_password(path, KEY_PASSWORD)
    check_no_nul(KEY_PASSWORD, key_password or "", path)
    identification = left.pop("ssl.endpoint.identification.algorithm", "https").lower()
    if encrypted and identification not in ("https", "none", ""):
        raise DocumentError(
            f"{path}: ssl.endpoint.identification.algorithm is {identification}.",
            next="It is https, or empty for brokers whose certificates have other names.",
        )
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
        check_hostname=identification == "https",
        ignored=_printable_names(left),
        file=path,
    )


def _printable_names(left: Iterable[str]) -> tuple[str, ...]:
    """Return names of properties; a line of a key whose value goes on unescaped is not told."""
    names = {name for name in left if _PROPERTY.fullmatch(name)}
    return (*sorted(names), *(["lines that are no properties"] if names < {*left} else []))


def check_no_nul(name: str, value: str, path: Path) -> None:
    # The libraries below would end the text there, and send a part of the password.
    if "\0" in value:
        raise DocumentError(
            f"{path}: a value of {name} has a NUL in it.",
            next="Take out what is read as one: \\u0000, or \\\\0 in quotes of a JAAS config.",
        )


def _parse_login(mechanism: str, jaas: str | None, path: Path) -> tuple[str, str]:
    """Return name and password of a `sasl.jaas.config`."""
    advice = f"Write it like {EXAMPLE}"
    try:
        login = {} if jaas is None else parse_jaas(jaas).options
    except ValueError as error:
        raise DocumentError(
            f"{path}: sasl.jaas.config cannot be used: {error}.",
            next=f'{advice} In quotes a quote is \\\\", a backslash \\\\\\\\ in this file.',
        ) from error
    username, password = login.get("username"), login.get("password")
    tokens = mechanism.startswith("SCRAM") and login.get("tokenauth", "").lower() == "true"
    if username and password is None and not tokens:
        # Kafka's own clients end here, and say that they cannot ask.
        password = find_password(path, JAAS_CONFIG)
        if password is None:
            raise PasswordMissingError(MissingPassword(path, JAAS_CONFIG, f"the user {username}"))
    if username is None or password is None:
        raise DocumentError(f"{path}: sasl.jaas.config has no username and password.", next=advice)
    check_no_nul(JAAS_CONFIG, username + password, path)
    if tokens:
        raise DocumentError(
            f"{path}: sasl.jaas.config logs in by a delegation token, which is not supported.",
            next="Give a user name and password, without tokenauth.",
        )
    return username, password
