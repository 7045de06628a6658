"""Names of client properties: librdkafka's in Kafka's, and what misspelt ones were meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from core.cluster.kafka.connection.properties import read_named_file
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
            text = read_named_file(path, name, location).decode("latin-1")
            _put(named, kafkas, text, name, path)
    _put_jaas_config(named, path)
    return named


def _put_jaas_config(named: dict[str, str], path: Path) -> None:
    mechanism = named.get("sasl.mechanism", "")
    module = _MODULES.get(mechanism.partition("-")[0])
    if module is None or _USER not in named:
        return
    user, password = named.pop(_USER), named.pop(_PASSWORD, None)
    options = {"username": user, **({} if password is None else {"password": password})}
    _put(named, "sasl.jaas.config", to_jaas(module, options), _USER, path)


def to_jaas(module: str, options: Mapping[str, str]) -> str:
    """Return a JAAS config of one login module."""
    words = " ".join(f"{name}={_quote(value)}" for name, value in options.items())
    return f"{module} required {words};"


def _quote(value: str) -> str:
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


# -- misspelt ones ---------------------------------------------------------------------------------

CLOSE = 0.85
"""From this likeness on (difflib's ratio) a name is taken for a misspelling."""

_TEXT = """
bootstrap.controllers bootstrap.servers client.dns.lookup client.id connections.max.idle.ms
default.api.timeout.ms metadata.max.age.ms receive.buffer.bytes reconnect.backoff.max.ms
reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
security.protocol
security.providers send.buffer.bytes socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms config.providers sasl.client.callback.handler.class
sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
sasl.mechanism sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.expected.audience
sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name
sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url ssl.cipher.suites
ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
ssl.truststore.location ssl.truststore.password ssl.truststore.type sasl.mechanisms
sasl.username sasl.password ssl.ca.location ssl.ca.pem ssl.certificate.location
ssl.certificate.pem ssl.key.location ssl.key.pem sasl.oauthbearer.method
sasl.oauthbearer.client.id sasl.oauthbearer.client.secret https.ca.location
"""
KNOWN = frozenset(_TEXT.split())
"""AdminClientConfig's, and librdkafka's that mean something here."""


def nearest(name: str) -> str | None:
    """Return the property that a name is a misspelling of; None where it is none."""
    if name in KNOWN:
        return None
    return next(iter(difflib.get_close_matches(name.lower(), KNOWN, 1, CLOSE)), None)


_HARMLESS = """
bootstrap.servers client.dns.lookup client.id config.providers connections.max.idle.ms
default.api.timeout.ms metadata.max.age.ms reconnect.backoff.max.ms reconnect.backoff.ms
request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms security.protocol
socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
sasl.client.callback.handler.class sasl.kerberos.service.name sasl.login.callback.handler.class
sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.mechanism
sasl.oauthbearer.header.urlencode sasl.oauthbearer.method sasl.oauthbearer.scope ssl.cipher.suites
ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
ssl.keystore.location ssl.keystore.type ssl.protocol ssl.provider ssl.truststore.location
ssl.truststore.type sasl.mechanisms ssl.ca.location ssl.certificate.location ssl.key.location
https.ca.location
"""
HARMLESS = frozenset(_HARMLESS.split())
"""Of these a value is no secret, and goes into bug reports; that of any other may be one."""
