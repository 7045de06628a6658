"""Client properties as Java's own clients take them.

Those know neither the folder that a file names its stores from, nor passwords that were typed.
"""

from __future__ import annotations

from pathlib import Path

from core.cluster.kafka.connection.login import oauth, token_sources
from core.cluster.kafka.connection.login.sasl import JAAS_CONFIG, MECHANISM, LoginModule, parse_jaas
from core.cluster.kafka.connection.property_names import to_jaas
from core.cluster.kafka.connection.settings import parse_bootstrap, read_client_properties
from core.cluster.kafka.connection.tls import KEY_PASSWORD, is_pem
from core.errors import DocumentError
from core.passwords import find_password

_TOKEN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
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
    entries = read_client_properties(path)
    for store in _STORES:
        location = entries.get(f"{store}.location")
        if location:
            place = path.absolute().parent / location
            entries[f"{store}.location"] = str(place)
            if is_pem(place):
                entries[f"{store}.type"] = "PEM"
    _put_token_jaas_config(entries)
    password = find_password(path, JAAS_CONFIG)
    if password is not None and JAAS_CONFIG in entries:
        entries[JAAS_CONFIG] = _with_password(entries[JAAS_CONFIG], password)
    for name in (KEY_PASSWORD, *(f"{store}.password" for store in _STORES)):
        password = find_password(path, name)
        if password is not None:
            entries.setdefault(name, password)
    return {**entries, "bootstrap.servers": servers}


def _put_token_jaas_config(entries: dict[str, str]) -> None:
    """Have a login by tokens said as every Java client since 3.1 reads it (KIP-768)."""
    if entries.get(MECHANISM) != oauth.OAUTHBEARER or token_sources.ENDPOINT not in entries:
        return
    written = entries.get(JAAS_CONFIG)
    options = {} if written is None else _parse_login_module(written).options
    names = {
        "clientId": token_sources.CLIENT_ID,
        "clientSecret": token_sources.CLIENT_SECRET,
        "scope": token_sources.SCOPE,
    }
    options |= {name: entries[key] for name, key in names.items() if key in entries}
    entries[JAAS_CONFIG] = to_jaas(_TOKEN_MODULE, options)
    entries.setdefault(oauth.HANDLER, oauth.LOGIN_HANDLER)


def _with_password(jaas: str, password: str) -> str:
    """Return a JAAS config with the password of its user, which it leaves out."""
    login = _parse_login_module(jaas)
    return to_jaas(login.name, {**login.options, "password": password})


def _parse_login_module(jaas: str) -> LoginModule:
    try:
        return parse_jaas(jaas)
    except ValueError as error:
        raise DocumentError(
            f"sasl.jaas.config cannot be used: {error}.",
            next="Write it as Kafka's own clients take it.",
        ) from error
