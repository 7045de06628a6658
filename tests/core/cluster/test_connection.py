"""Connection settings: one properties file for two libraries, and secrets that stay inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.cluster.kafka.connection import ConnectionSettings, check_bootstrap, parse_properties
from core.errors import DocumentError, UsageError

SCRAM = """
# the operators' user
security.protocol = SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="ops" password="it's \\\\"secret\\\\"";
ssl.truststore.location=ca.pem
ssl.truststore.type=PEM
ssl.endpoint.identification.algorithm=
request.timeout.ms=5000
"""

STORES = {
    "ca.pem": b"# made today\n-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n",
    "old.jks": b"\xfe\xed\xfe\xed\x00\x00\x00\x02",
    "new.jks": b"\x30\x82\x09\x3e",
    "odd": b"?",
}


def load(tmp_path: Path, text: str) -> ConnectionSettings:
    path = tmp_path / "client.properties"
    path.write_text(text)
    for name, content in STORES.items():
        (tmp_path / name).write_bytes(content)
    return ConnectionSettings.load("b1:9092, b2:9092", path)


def test_without_a_file_it_is_plain_text() -> None:
    settings = ConnectionSettings.load("b1:9092")
    assert settings.confluent()["security.protocol"] == "PLAINTEXT"
    assert settings.kafka_python()["bootstrap_servers"] == ["b1:9092"]


def test_scram_reaches_librdkafka(tmp_path: Path) -> None:
    config = load(tmp_path, SCRAM).confluent()
    assert config["bootstrap.servers"] == "b1:9092,b2:9092"
    assert config["security.protocol"] == "SASL_SSL"
    assert config["sasl.mechanism"] == "SCRAM-SHA-512"
    assert config["sasl.username"] == "ops"
    assert config["sasl.password"] == 'it\'s "secret"'
    assert config["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert config["ssl.endpoint.identification.algorithm"] == "none"


def test_plain_reaches_kafka_python(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=x.PlainLoginModule required username='u' password='p';\n",
    ).kafka_python()
    assert config["security_protocol"] == "SASL_PLAINTEXT"
    assert config["sasl_mechanism"] == "PLAIN"
    assert (config["sasl_plain_username"], config["sasl_plain_password"]) == ("u", "p")
    assert "ssl_context" not in config


def test_inline_pem_goes_inline(tmp_path: Path) -> None:
    config = load(
        tmp_path, "security.protocol=SSL\nssl.truststore.certificates=-----BEGIN\\n…\n"
    ).confluent()
    assert config["ssl.ca.pem"] == "-----BEGIN\n…"


def test_unknown_keys_are_listed_and_ignored(tmp_path: Path) -> None:
    assert load(tmp_path, SCRAM).ignored == ("request.timeout.ms",)


def test_a_value_that_goes_on_unescaped_is_not_told_as_a_property(tmp_path: Path) -> None:
    key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj=\nAgEAAoIBAQC7+/VJTUt9Us8cKj==\n"
    found = load(tmp_path, f"security.protocol=PLAINTEXT\nretries=3\n{key}").ignored
    assert found == ("retries", "lines that are no properties")


def test_no_password_is_in_the_repr(tmp_path: Path) -> None:
    settings = load(tmp_path, SCRAM + "ssl.key.password=hush\nssl.keystore.key=-----KEY\n")
    assert settings.key_password == "hush"
    shown = repr(settings)
    assert "ops" in shown
    for secret in ("secret", "hush", "-----KEY"):
        assert secret not in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocol=TLS\n", "security.protocol is TLS"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n", "GSSAPI is not supported"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n", "no username and password"),
        ("security.protocol=SSL\nssl.truststore.location=none.pem\n", "none.pem cannot be read"),
        ("security.protocol=SSL\nssl.truststore.location=odd\n", "odd is not a PEM file"),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.location=old.jks\n",
            "old.jks is a Java key store",
        ),
    ],
)
def test_what_cannot_be_is_one_clear_message(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DocumentError, match=said) as caught:
        load(tmp_path, text)
    assert caught.value.next


@pytest.mark.parametrize(
    ("store", "location", "converted_by"),
    [
        ("ssl.truststore", "old.jks", "keytool -list -rfc"),
        ("ssl.truststore", "new.jks", "keytool -list -rfc"),
        ("ssl.keystore", "old.jks", "keytool -importkeystore"),
        ("ssl.keystore", "new.jks", "openssl pkcs12"),
    ],
)
def test_a_store_of_java_comes_with_what_converts_it(
    tmp_path: Path, store: str, location: str, converted_by: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        load(tmp_path, f"security.protocol=SSL\n{store}.location={location}\n")
    assert f"Convert it: {converted_by}" in caught.value.next
    assert f"{store}.type=PEM" in caught.value.next


def test_a_store_is_found_beside_the_properties_wherever_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    Path("only-here.pem").write_bytes(STORES["ca.pem"])
    for location in ("ca.pem", str(tmp_path / "ca.pem")):
        settings = load(tmp_path, f"security.protocol=SSL\nssl.truststore.location={location}\n")
        assert settings.ca is not None
        assert settings.ca.location == str(tmp_path / "ca.pem")
    # A run is at home in no folder: what it could not find, nobody finds.
    with pytest.raises(DocumentError, match=r"only-here\.pem cannot be read") as caught:
        load(tmp_path, "security.protocol=SSL\nssl.truststore.location=only-here.pem\n")
    assert f"begins at {tmp_path}" in caught.value.next


def test_what_stands_beside_pem_blocks_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("Alias-Name: schlüssel\n" + STORES["ca.pem"].decode())
    settings = load(tmp_path, "security.protocol=SSL\nssl.truststore.location=ca\n")
    assert settings.ca is not None
    assert settings.ca.read().isascii()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="No such file"):
        ConnectionSettings.load("b:1", tmp_path / "none.properties")


def test_a_certificate_that_cannot_be_loaded(tmp_path: Path) -> None:
    settings = load(tmp_path, "security.protocol=SSL\nssl.truststore.location=ca.pem\n")
    with pytest.raises(DocumentError, match="cannot be loaded"):
        settings.kafka_python()


@pytest.mark.parametrize(
    ("bootstrap", "servers"),
    [
        ("b1:9092", "b1:9092"),
        (" b1:9092 , b2:9093,", "b1:9092,b2:9093"),
        ("[::1]:9092", "[::1]:9092"),
    ],
)
def test_bootstrap_is_a_list_of_addresses(bootstrap: str, servers: str) -> None:
    assert check_bootstrap(bootstrap) == servers


@pytest.mark.parametrize("bootstrap", ["", "b1", "b1:", "b1:http", "b1:70000", "b1:9092;b2:9092"])
def test_other_bootstraps_are_refused(bootstrap: str) -> None:
    with pytest.raises(UsageError):
        check_bootstrap(bootstrap)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1\nb: 2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# no\n! no\n  a = 1 \n", {"a": "1 "}),
        ("a=1,\\\n   2\n", {"a": "1,2"}),
        ("a\\=b=c\\\\d\\u00e9\\n", {"a=b": "c\\dé\n"}),
    ],
)
def test_properties_are_read_as_java_does(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text) == entries
