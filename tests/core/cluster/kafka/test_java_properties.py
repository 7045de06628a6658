"""Client properties as Java's clients get them: absolute places, and passwords that were typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from core import passwords
from core.cluster.connect import Address, java_client_properties
from core.cluster.kafka.connection.login.sasl import JAAS_CONFIG, parse_jaas
from core.cluster.kafka.connection.tls import KEY_PASSWORD
from core.errors import DocumentError, UsageError
from core.passwords import MissingPassword

PEM = "-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n"


def of_file(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "client.properties"
    path.write_text(text, encoding="latin-1")
    return java_client_properties(Address("b1:9092, b2:9092", path))


def test_java_properties_without_a_file_hold_only_bootstrap_servers() -> None:
    assert java_client_properties(Address("b1:9092")) == {"bootstrap.servers": "b1:9092"}


def test_file_properties_are_passed_on_except_bootstrap_servers(tmp_path: Path) -> None:
    assert of_file(tmp_path, "bootstrap.servers=other:1\nsasl.mechanism=OAUTHBEARER\nx=y z\n") == {
        "bootstrap.servers": "b1:9092,b2:9092",
        "sasl.mechanism": "OAUTHBEARER",
        "x": "y z",
    }


def test_store_paths_resolve_against_properties_file_and_pem_type_is_set(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(PEM)
    (tmp_path / "client.jks").write_bytes(b"\xfe\xed\xfe\xed")
    props = of_file(tmp_path, "ssl.truststore.location=ca.pem\nssl.keystore.location=client.jks\n")
    assert props["ssl.truststore.location"] == str(tmp_path / "ca.pem")
    assert props["ssl.truststore.type"] == "PEM"
    assert props["ssl.keystore.location"] == str(tmp_path / "client.jks")
    assert "ssl.keystore.type" not in props


@pytest.mark.parametrize("password", ["plain", 'q"u\\o;te\n', "ß '"])
def test_entered_passwords_are_included_in_java_properties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setattr(passwords, "_known", {})
    file = tmp_path / "client.properties"
    for key in (JAAS_CONFIG, KEY_PASSWORD):
        passwords.remember(MissingPassword(file, key, "whoever"), password)
    props = of_file(tmp_path, 'sasl.jaas.config=x.PlainLoginModule required username="o\\\\"ps";\n')
    login = parse_jaas(props[JAAS_CONFIG])
    assert login.name == "x.PlainLoginModule"
    assert login.options == {"username": 'o"ps', "password": password}
    assert props[KEY_PASSWORD] == password


def test_missing_properties_file_and_simulator_address_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="missing.properties cannot be read"):
        java_client_properties(Address("b:1", tmp_path / "missing.properties"))
    with pytest.raises(UsageError):
        java_client_properties(Address("sim:somewhere"))


def test_oauth_login_is_written_in_the_form_that_older_clients_read(tmp_path: Path) -> None:
    props = of_file(
        tmp_path,
        "sasl.mechanism=OAUTHBEARER\n"
        "sasl.oauthbearer.token.endpoint.url=https://sso/token\n"
        "sasl.oauthbearer.client.credentials.client.id=ops\n"
        'sasl.oauthbearer.client.secret=s"x\n'
        'sasl.jaas.config=x.OAuthBearerLoginModule required extension_a="b" scope="kafka";\n',
    )
    login = parse_jaas(props[JAAS_CONFIG])
    assert login.name.endswith(".oauthbearer.OAuthBearerLoginModule")
    assert login.options == {
        "extension_a": "b",
        "scope": "kafka",
        "clientId": "ops",
        "clientSecret": 's"x',
    }
    assert props["sasl.login.callback.handler.class"].endswith("OAuthBearerLoginCallbackHandler")
