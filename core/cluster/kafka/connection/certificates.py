"""Until when certificates are valid, and whom a client's own one is of."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.connection.tls import Pem
from core.errors import DocumentError

if TYPE_CHECKING:
    from cryptography import x509

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
        Certificate(owner, certificate.not_valid_after_utc)
        for owner, store in stores.items()
        if store is not None
        for certificate in _read(owner, store)
    ]
    return [*own, *_fetch_certificates(settings, servers)]


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
    return f"User:{_read('the key store', certificate)[0].subject.rfc4514_string()}"


def _read(owner: str, store: Pem) -> list[x509.Certificate]:
    """Return the certificates of a store; raises DocumentError."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(store.read().encode())
    except (OSError, ValueError) as error:
        raise DocumentError(
            f"A certificate of {owner} cannot be read: {error}.",
            next="Check the stores that the client properties name (--command-config).",
        ) from error


def _fetch_certificates(settings: ConnectionSettings, servers: Sequence[str]) -> list[Certificate]:
    certificates: list[Certificate] = []
    threads = [
        threading.Thread(target=_look, args=(settings, server, certificates), daemon=True)
        for server in servers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BROKER_SECONDS)
    return list(certificates)


def _look(settings: ConnectionSettings, server: str, certificates: list[Certificate]) -> None:
    from cryptography import x509

    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    try:
        with (
            settings.route.connect(host, int(port), lambda: BROKER_SECONDS) as plain,
            settings.tls.context().wrap_socket(plain, server_hostname=host) as wrapped,
        ):
            shown = x509.load_der_x509_certificate(wrapped.getpeercert(binary_form=True) or b"")
    except (OSError, ValueError, DocumentError):
        return  # why it is not reached is told where brokers are looked at
    certificates.append(Certificate(f"broker {server}", shown.not_valid_after_utc))
