"""Client properties as Java's own clients take them.

Those know neither the folder that a file names its stores from, nor passwords that were typed.
"""

from __future__ import annotations

from pathlib import Path

from core.cluster.kafka.connection.properties import parse_properties
from core.cluster.kafka.connection.sasl import JAAS_CONFIG, parse_jaas
from core.cluster.kafka.connection.settings import parse_bootstrap
from core.cluster.kafka.connection.tls import KEY_PASSWORD, is_pem
from core.errors import DocumentError
from core.passwords import find_password

_STORES = ("ssl.truststore", "ssl.keystore")


def java_properties(bootstrap: str, path: Path | None) -> dict[str, str]:
    """Return the properties of a file with the brokers' addresses, for a client of Java.

    What means nothing here is passed on: Java may know it. Stores' locations are absolute, those
    that are PEM are said to be, and passwords that were typed are in. Raises UsageError for a
    bootstrap that is not HOST:PORT,…; DocumentError for a file that cannot be read.
    """
    servers = parse_bootstrap(bootstrap)
    if path is None:
        return {"bootstrap.servers": servers}
    try:
        entries = parse_properties(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise DocumentError(
            f"{path} cannot be read: {reason}.",
            next="It must be a Kafka client properties file.",
        ) from error
    for store in _STORES:
        location = entries.get(f"{store}.location")
        if location:
            place = path.absolute().parent / location
            entries[f"{store}.location"] = str(place)
            if is_pem(place):
                entries[f"{store}.type"] = "PEM"
    password = find_password(path, JAAS_CONFIG)
    if password is not None and JAAS_CONFIG in entries:
        entries[JAAS_CONFIG] = _with_password(entries[JAAS_CONFIG], password)
    key_password = find_password(path, KEY_PASSWORD)
    if key_password is not None:
        entries.setdefault(KEY_PASSWORD, key_password)
    return {**entries, "bootstrap.servers": servers}


def _with_password(jaas: str, password: str) -> str:
    """Return a JAAS config with the password of its user, which it leaves out."""
    login = parse_jaas(jaas)
    options = {**login.options, "password": password}
    words = " ".join(f"{name}={_quoted(value)}" for name, value in options.items())
    return f"{login.name} required {words};"


def _quoted(value: str) -> str:
    """Return a text as java.io.StreamTokenizer reads it between quotes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'
