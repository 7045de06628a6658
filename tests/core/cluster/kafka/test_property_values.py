"""Client properties that stand elsewhere (`config.providers`), or have librdkafka's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.cluster.kafka.connection.java_properties import java_properties
from core.cluster.kafka.connection.settings import ConnectionSettings, read_client_properties
from core.errors import DocumentError

PACKAGE = "org.apache.kafka.common.config.provider."
PROVIDERS = f"""
config.providers=file, dir,env
config.providers.file.class={PACKAGE}FileConfigProvider
config.providers.dir.class={PACKAGE}DirectoryConfigProvider
config.providers.env.class={PACKAGE}EnvVarConfigProvider
"""
PEM = "-----BEGIN {0}-----\neA==\n-----END {0}-----\n"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(text)
    secrets = tmp_path / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / "kafka.properties").write_text("password=from \\\nfile\nempty=\n")
    (secrets / "password").write_text("from folder\n")
    for name, block in (("ca.pem", "CERTIFICATE"), ("client.crt", "CERTIFICATE")):
        (tmp_path / name).write_text(PEM.format(block))
    (tmp_path / "client.key").write_text(PEM.format("PRIVATE KEY"))
    return path


def entries(tmp_path: Path, text: str) -> dict[str, str]:
    return read_client_properties(write(tmp_path, text))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${file:secrets/kafka.properties:password}", "from file"),
        ("${file:secrets/kafka.properties:empty}", ""),
        ("${dir:secrets:password}", "from folder"),
        ("${env:TRIMTAB_TEST_SECRET}", "from environment"),
        ("a${env:TRIMTAB_TEST_SECRET}b${dir:secrets:password}", "afrom environmentbfrom folder"),
        ("${vault:secrets:password}", "${vault:secrets:password}"),
        ("${password}", "${password}"),
        ("$password", "$password"),
    ],
)
def test_reference_is_resolved_if_its_config_provider_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, expected: str
) -> None:
    monkeypatch.setenv("TRIMTAB_TEST_SECRET", "from environment")
    props = entries(tmp_path, f"{PROVIDERS}ssl.key.password={value}\n")
    assert props["ssl.key.password"].strip() == expected
    assert not any(name.startswith("config.providers") for name in props)


def test_reference_is_left_unresolved_without_config_providers(tmp_path: Path) -> None:
    props = entries(tmp_path, "ssl.key.password=${env:HOME}\n")
    assert props["ssl.key.password"] == "${env:HOME}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x=${file:secrets/kafka.properties:user}", "x refers to user in secrets/kafka.properties"),
        ("x=${file:secrets/none.properties:user}", "cannot be read: No such file"),
        ("x=${dir:secrets:user}", "x refers to user in secrets"),
        ("x=${dir:secrets:../client.properties}", "which does not exist"),
        ("x=${env:TRIMTAB_NOT_SET}", "x refers to TRIMTAB_NOT_SET, which does not exist"),
        ("config.providers.env.param.allowlist.pattern=APP_.*\nx=${env:HOME}", "HOME"),
        ("config.providers.env.param.allowlist.pattern=(\nx=1", "no regular expression"),
        (
            "config.providers.file.param.allowed.paths=/etc\n"
            "x=${file:secrets/kafka.properties:password}",
            "does not exist",
        ),
        ("config.providers.dir.param.allowed.paths=/etc\nx=${dir:secrets:password}", "password"),
        ("config.providers=vault\nconfig.providers.vault.class=com.example.Vault", "com.example"),
        ("config.providers=vault", "config.providers.vault.class is not set"),
    ],
)
def test_unresolvable_reference_or_config_provider_is_reported(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(DocumentError, match=says) as exc_info:
        entries(tmp_path, f"{PROVIDERS}{text}\n")
    assert exc_info.value.next
    assert "from file" not in str(exc_info.value)


def test_directory_provider_reads_from_an_allowed_path(tmp_path: Path) -> None:
    props = entries(
        tmp_path,
        f"{PROVIDERS}config.providers.dir.param.allowed.paths=/etc, {tmp_path}\n"
        "x=${dir:secrets:password}\n",
    )
    assert props["x"].strip() == "from folder"


LIBRDKAFKA = """
metadata.broker.list=b1:9092
security.protocol=sasl_ssl
sasl.mechanisms=SCRAM-SHA-256
sasl.username=o"ps
sasl.password=a\\\\b"c
ssl.ca.location=ca.pem
ssl.certificate.location=client.crt
ssl.key.location=client.key
"""


def test_properties_with_librdkafka_names_are_loaded_as_connection_settings(tmp_path: Path) -> None:
    settings = ConnectionSettings.load("b1:9092", write(tmp_path, LIBRDKAFKA))
    config: dict[str, Any] = settings.librdkafka_config()
    assert settings.ignored == ()
    assert config["security.protocol"] == "SASL_SSL"
    assert config["sasl.mechanism"] == "SCRAM-SHA-256"
    assert (config["sasl.username"], config["sasl.password"]) == ('o"ps', 'a\\b"c')
    assert config["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert config["ssl.certificate.pem"] == PEM.format("CERTIFICATE")
    assert config["ssl.key.pem"] == PEM.format("PRIVATE KEY")


def test_properties_with_librdkafka_names_are_translated_for_java(tmp_path: Path) -> None:
    props = java_properties("b1:9092", write(tmp_path, LIBRDKAFKA))
    assert props["sasl.mechanism"] == "SCRAM-SHA-256"
    assert props["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="o\\"ps" password="a\\\\b\\"c";'
    )
    assert props["ssl.truststore.location"] == str(tmp_path / "ca.pem")
    assert props["ssl.truststore.type"] == "PEM"
    assert "-----BEGIN PRIVATE KEY-----" in props["ssl.keystore.key"]
    assert not props.keys() & {"sasl.username", "sasl.mechanisms", "ssl.ca.location"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sasl.mechanisms=PLAIN\nsasl.mechanism=SCRAM-SHA-256", "are both set, and differ"),
        ("ssl.key.location=none.key", "ssl.key.location none.key cannot be read"),
        ("security.protocol=SSL\nssl.certificate.location=client.crt", "only one is set"),
    ],
)
def test_contradictory_or_incomplete_property_names_are_reported(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(DocumentError, match=says):
        ConnectionSettings.load("b1:9092", write(tmp_path, text + "\n"))


def test_password_missing_from_librdkafka_properties_is_reported(tmp_path: Path) -> None:
    text = "security.protocol=SASL_SSL\nsasl.mechanisms=PLAIN\nsasl.username=ops\n"
    with pytest.raises(DocumentError, match="no password of the user ops"):
        ConnectionSettings.load("b1:9092", write(tmp_path, text))
