"""Until when certificates of stores and brokers are valid, and whom a client's is of."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.cluster.kafka.connection.certificates import find_certificates, find_principal
from core.cluster.kafka.connection.key_stores import read_key_store
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.errors import DocumentError

STORES = Path(__file__).parent / "stores"
TLS = (
    f"security.protocol=SSL\nssl.truststore.location={STORES}/client-jks.pem\n"
    f"ssl.keystore.location={STORES}/client.jks\nssl.keystore.password=storepw\n"
    "ssl.key.password=keypass\nssl.endpoint.identification.algorithm=\n"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server that shows the JKS store's certificate."""
    store = read_key_store((STORES / "client.jks").read_bytes(), "storepw", "keypass")
    (tmp_path / "key").write_text(store.key or "")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(STORES / "client-jks.pem", tmp_path / "key", store.key_password)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            plain, _ = listening.accept()
            # Who has seen the certificate hangs up, be it in the middle of the handshake.
            with suppress(OSError), context.wrap_socket(plain, server_side=True) as wrapped:
                wrapped.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def load(tmp_path: Path, text: str) -> ConnectionSettings:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return ConnectionSettings.load("b1:9092", path)


def test_certificates_of_trust_store_key_store_and_brokers_are_found(
    tmp_path: Path, server: str
) -> None:
    certs = find_certificates(load(tmp_path, TLS), [server, "127.0.0.1:1"])
    assert [cert.owner for cert in certs] == [
        "the trust store",
        "the key store",
        f"broker {server}",
    ]
    (ends,) = {cert.expires_at for cert in certs}
    assert ends > datetime(2100, 1, 1, tzinfo=UTC)


def test_plain_text_connection_has_no_certificates(tmp_path: Path) -> None:
    assert find_certificates(load(tmp_path, ""), ["127.0.0.1:1"]) == []


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("", "User:ANONYMOUS"),
        (TLS, "User:CN=client"),
        (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            "sasl.jaas.config=x required username=ops password=secret;\n",
            "User:ops",
        ),
        (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
            "sasl.jaas.config=x required unsecuredLoginStringClaim_sub=svc;\n",
            "User:svc",
        ),
    ],
)
def test_principal_is_derived_from_connection_settings(
    tmp_path: Path, text: str, principal: str
) -> None:
    assert find_principal(load(tmp_path, text)) == principal


def test_invalid_certificate_in_trust_store_is_reported(tmp_path: Path) -> None:
    odd = tmp_path / "odd.pem"
    odd.write_text("-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n")
    settings = load(tmp_path, f"security.protocol=SSL\nssl.truststore.location={odd}\n")
    with pytest.raises(DocumentError, match="certificate of the trust store cannot be read"):
        find_certificates(settings, [])
