"""Until when certificates are valid, and whom a client's own one is of."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.cluster.kafka.connection.settings import ConnectionSettings

BROKER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """Whose a certificate is, and until when it is valid."""

    owner: str
    expires_at: datetime


def find_certificates(settings: ConnectionSettings, servers: Sequence[str]) -> list[Certificate]:
    """Return the certificates of a connection's stores, and of servers that show one in time.

    Empty where nothing is encrypted; raises DocumentError for a store that cannot be read.
    """
    if not settings.is_encrypted:
        return []
    tls = settings.tls
    stores = {"the trust store": tls.ca, "the key store": tls.certificate}
    own = [
        Certificate(owner, expires_at)
        for owner, store in stores.items()
        if store is not None
        for expires_at in _expiries_of_pem(store.read())
    ]
    return [*own, *_of_servers(settings, servers)]


def find_principal(settings: ConnectionSettings) -> str:
    """Return whom brokers take this connection for, as Kafka names principals.

    They may map it to another (`ssl.principal.mapping.rules`). Raises as `ConnectionSettings.load`,
    and where there is no token.
    """
    if settings.login is not None:
        return f"User:{settings.login.find_user()}"
    certificate = settings.tls.certificate if settings.is_encrypted else None
    if certificate is None:
        return "User:ANONYMOUS"
    from cryptography import x509

    shown = x509.load_pem_x509_certificates(certificate.read().encode())[0]
    return f"User:{shown.subject.rfc4514_string()}"


def _expiries_of_pem(text: str) -> Iterable[datetime]:
    from cryptography import x509

    if "BEGIN CERTIFICATE" not in text:
        return []
    return [one.not_valid_after_utc for one in x509.load_pem_x509_certificates(text.encode())]


def _of_servers(settings: ConnectionSettings, servers: Sequence[str]) -> list[Certificate]:
    found: list[Certificate] = []
    threads = [
        threading.Thread(target=_look, args=(settings, server, found), daemon=True)
        for server in servers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BROKER_SECONDS)
    return list(found)


def _look(settings: ConnectionSettings, server: str, found: list[Certificate]) -> None:
    from cryptography import x509

    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    try:
        with (
            socket.create_connection((host, int(port)), BROKER_SECONDS) as plain,
            settings.tls.context().wrap_socket(plain, server_hostname=host) as wrapped,
        ):
            shown = wrapped.getpeercert(binary_form=True)
    except OSError:
        return  # why it is not reached is told where brokers are looked at
    if shown is not None:
        expires_at = x509.load_der_x509_certificate(shown).not_valid_after_utc
        found.append(Certificate(f"broker {server}", expires_at))
