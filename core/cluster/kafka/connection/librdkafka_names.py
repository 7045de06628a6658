"""librdkafka's names of client properties, in Kafka's: one file serves clients of both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from core.errors import DocumentError

_PEM_FILE = "ssl.truststore.location"
_NAMES = {
    "sasl.mechanisms": "sasl.mechanism",
    "metadata.broker.list": "bootstrap.servers",
    "ssl.ca.location": _PEM_FILE,
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}
_FILES = {
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
"""Of these Kafka wants what they hold: its own store is one file of both."""
_USER, _PASSWORD = "sasl.username", "sasl.password"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def to_kafka_names(entries: dict[str, str], path: Path) -> dict[str, str]:
    """Return entries by Kafka's names; raises DocumentError where both say different things."""
    named = dict(entries)
    for name, kafkas in _NAMES.items():
        if name in named:
            _put(named, kafkas, named.pop(name), name, path)
            if kafkas == _PEM_FILE:
                named.setdefault("ssl.truststore.type", "PEM")
    for name, kafkas in _FILES.items():
        if location := named.pop(name, ""):
            _put(named, kafkas, _read(location, name, path), name, path)
    _put_login(named, path)
    return named


def _put_login(named: dict[str, str], path: Path) -> None:
    mechanism = named.get("sasl.mechanism", "")
    module = _MODULES.get(mechanism.partition("-")[0])
    if module is None or _USER not in named:
        return
    user, password = named.pop(_USER), named.pop(_PASSWORD, None)
    options = {"username": user, **({} if password is None else {"password": password})}
    _put(named, "sasl.jaas.config", to_jaas(module, options), _USER, path)


def to_jaas(module: str, options: Mapping[str, str]) -> str:
    """Return a JAAS config of one login module."""
    words = " ".join(f"{name}={_quoted(value)}" for name, value in options.items())
    return f"{module} required {words};"


def _quoted(value: str) -> str:
    """Return a text as java.io.StreamTokenizer reads it between quotes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'


def _put(named: dict[str, str], kafkas: str, value: str, name: str, path: Path) -> None:
    if named.get(kafkas, value) != value:
        raise DocumentError(
            f"{path}: {name} and {kafkas} are both set, and differ.",
            next=f"Take one of them out: {name} is librdkafka's name, {kafkas} Kafka's.",
        )
    named[kafkas] = value


def _read(location: str, name: str, path: Path) -> str:
    folder = path.absolute().parent
    try:
        return (folder / location).read_bytes().decode("latin-1")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path has a NUL in it"
        raise DocumentError(
            f"{path}: {name} {location} cannot be read: {reason}.",
            next=f"Mend its permissions, or the path: it begins at {folder}, or with a slash.",
        ) from error
