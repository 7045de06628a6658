"""The names of Kafka's client properties: what a misspelt one was meant to be."""

from __future__ import annotations

import difflib

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
