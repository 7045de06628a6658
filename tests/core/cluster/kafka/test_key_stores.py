"""Java's key and trust stores, made by keytool, as PEM."""

from __future__ import annotations

import random
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from core.cluster.kafka.connection.key_stores import StorePasswordError, read_key_store
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.errors import DocumentError
from core.passwords import PasswordMissingError, WrongPasswordError, forget, remember

STORES = Path(__file__).parent / "stores"
STORE, KEY = "storepw", "keypass"
"""The passwords of all stores, and of the key in the JKS store."""


def content(name: str) -> bytes:
    return (STORES / name).read_bytes()


@pytest.mark.parametrize("kind", ["jks", "pkcs12"])
def test_trust_store_yields_its_certificates_and_no_key(kind: str) -> None:
    store = read_key_store(content(f"trust.{kind}"), STORE, None)
    assert store.certificates == (STORES / f"client-{kind}.pem").read_text()
    assert store.key is None


def test_certificates_of_a_jks_store_need_no_password() -> None:
    store = read_key_store(content("trust.jks"), None, None)
    assert store.certificates == (STORES / "client-jks.pem").read_text()


@pytest.mark.parametrize(("kind", "key_password"), [("jks", KEY), ("pkcs12", None)])
def test_private_key_is_reencrypted_and_loads_with_its_certificates(
    tmp_path: Path, kind: str, key_password: str | None
) -> None:
    store = read_key_store(content(f"client.{kind}"), STORE, key_password)
    assert store.key is not None
    assert store.key.startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert store.certificates == (STORES / f"client-{kind}.pem").read_text()
    for name, text in (("key", store.key), ("certificate", store.certificates)):
        (tmp_path / name).write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key", store.key_password)


@pytest.mark.parametrize(
    ("name", "password", "key_password"),
    [
        ("trust.jks", "wrong", None),
        ("client.jks", "wrong", KEY),
        ("client.jks", STORE, "wrong"),
        ("client.jks", STORE, None),
        ("client.jks", None, None),
        ("client.pkcs12", "wrong", None),
        ("client.pkcs12", None, None),
        ("trust.pkcs12", None, None),
    ],
)
def test_wrong_or_missing_password_is_distinguished_from_damage(
    name: str, password: str | None, key_password: str | None
) -> None:
    with pytest.raises(StorePasswordError):
        read_key_store(content(name), password, key_password)


def test_jceks_store_is_refused_and_named() -> None:
    with pytest.raises(ValueError, match="JCEKS"):
        read_key_store(content("client.jceks"), STORE, None)


@pytest.mark.parametrize("name", ["client.jks", "client.pkcs12"])
@pytest.mark.parametrize("seed", range(5))
def test_damaged_key_store_raises_only_value_or_password_errors(name: str, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(40):
        damaged = bytearray(content(name))
        for _ in range(dice.choice((1, 3, 20))):
            damaged[dice.randrange(4, len(damaged))] = dice.randrange(256)
        if dice.random() < 0.3:
            del damaged[dice.randrange(5, len(damaged)) :]
        with suppress(ValueError, StorePasswordError):
            read_key_store(bytes(damaged), STORE, KEY)


# -- in client properties --------------------------------------------------------------------------


def load(tmp_path: Path, text: str) -> ConnectionSettings:
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol=SSL\n{text}")
    return ConnectionSettings.load("b1:9092", path)


def test_java_stores_named_in_properties_reach_both_libraries(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        f"ssl.truststore.location={STORES}/trust.pkcs12\nssl.truststore.password={STORE}\n"
        f"ssl.keystore.location={STORES}/client.jks\nssl.keystore.password={STORE}\n"
        f"ssl.keystore.type=JKS\nssl.key.password={KEY}\n",
    )
    assert settings.ignored == ()
    config = settings.librdkafka_config()
    assert config["ssl.ca.pem"] == (STORES / "client-pkcs12.pem").read_text()
    assert config["ssl.certificate.pem"] == (STORES / "client-jks.pem").read_text()
    assert config["ssl.key.password"] not in (STORE, KEY)
    assert "BEGIN ENCRYPTED PRIVATE KEY" in config["ssl.key.pem"]
    assert settings.kafka_python_config()["ssl_context"].cert_store_stats()["x509"] == 1


def test_missing_store_password_is_requested_and_wrong_one_is_reported(tmp_path: Path) -> None:
    text = f"ssl.truststore.location={STORES}/trust.pkcs12\n"
    with pytest.raises(PasswordMissingError) as caught:
        load(tmp_path, text)
    missing = caught.value.missing
    assert missing.key == "ssl.truststore.password"
    try:
        remember(missing, "wrong")
        with pytest.raises(WrongPasswordError, match=r"not that of the store .*trust\.pkcs12"):
            load(tmp_path, text)
        remember(missing, STORE)
        assert load(tmp_path, text).tls.ca is not None
    finally:
        forget(missing)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"ssl.keystore.location={STORES}/trust.jks\nssl.keystore.password={STORE}\n", "no key"),
        (f"ssl.truststore.location={STORES}/client.jceks\n", "JCEKS"),
    ],
)
def test_unusable_key_store_is_reported_with_advice(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DocumentError, match=says) as caught:
        load(tmp_path, text)
    assert caught.value.next
