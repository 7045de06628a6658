"""Connection settings: one properties file for two libraries, and secrets that stay inside."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from core.cluster.kafka.connection.login.mechanisms import ScramMechanism
from core.cluster.kafka.connection.login.sasl import parse_jaas
from core.cluster.kafka.connection.properties import parse_properties
from core.cluster.kafka.connection.settings import ConnectionSettings, parse_bootstrap
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
    "ca.pem": b"# made today\n-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n",
    "old.jks": b"\xfe\xed\xfe\xed\x00\x00\x00\x02",
    "new.jks": b"\x30\x82\x09\x3e",
    "odd": b"?",
    "cut": b"-----BEGIN CERTIFICATE-----\neA==\n",
    "latin": b"-----BEGIN CERTIFICATE-----\n\xe9\xe9==\n-----END CERTIFICATE-----\n",
}


def load(tmp_path: Path, text: str | bytes) -> ConnectionSettings:
    path = tmp_path / "client.properties"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for name, content in STORES.items():
        (tmp_path / name).write_bytes(content)
    return ConnectionSettings.load("b1:9092, b2:9092", path)


def test_connection_without_a_properties_file_is_plain_text() -> None:
    settings = ConnectionSettings.load("b1:9092")
    assert settings.librdkafka_config()["security.protocol"] == "PLAINTEXT"
    assert settings.kafka_python_config()["bootstrap_servers"] == ["b1:9092"]


def test_scram_login_is_passed_to_librdkafka(tmp_path: Path) -> None:
    config = load(tmp_path, SCRAM).librdkafka_config()
    assert config["bootstrap.servers"] == "b1:9092,b2:9092"
    assert config["security.protocol"] == "SASL_SSL"
    assert config["sasl.mechanism"] == "SCRAM-SHA-512"
    assert config["sasl.username"] == "ops"
    assert config["sasl.password"] == 'it\'s "secret"'
    assert config["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert config["ssl.endpoint.identification.algorithm"] == "none"


def test_plain_login_is_passed_to_kafka_python(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=x.PlainLoginModule required username='u' password='p';\n",
    ).kafka_python_config()
    assert config["security_protocol"] == "SASL_PLAINTEXT"
    assert config["sasl_mechanism"] == "PLAIN"
    assert (config["sasl_plain_username"], config["sasl_plain_password"]) == ("u", "p")
    assert "ssl_context" not in config


CERTIFICATE = f"-----BEGIN CERTIFICATE-----\n{'A' * 64}\nBBBB\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    "written",
    [
        CERTIFICATE.replace("\n", "\\n"),
        CERTIFICATE.replace("\n", "\\n\\\n   "),
        CERTIFICATE.strip().replace("\n", " \\\n"),
        CERTIFICATE.strip().replace("\n", "\\r\\n"),
        "Schl\xfcssel: 1\\n" + CERTIFICATE.replace("\n", "\\n"),
    ],
    ids=["escaped", "escaped, goes on", "blanks for line ends", "of Windows", "with a head"],
)
def test_inline_pem_is_normalised_for_openssl(tmp_path: Path, written: str) -> None:
    text = f"security.protocol=SSL\nssl.truststore.certificates={written}\n"
    config = load(tmp_path, text.encode("latin-1")).librdkafka_config()
    assert config["ssl.ca.pem"] == CERTIFICATE


def test_unknown_keys_are_listed_and_ignored(tmp_path: Path) -> None:
    assert load(tmp_path, SCRAM).ignored == ("request.timeout.ms",)


def test_unescaped_continuation_of_a_value_is_not_reported_as_a_property(tmp_path: Path) -> None:
    key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj=\nAgEAAoIBAQC7+/VJTUt9Us8cKj==\n"
    ignored_keys = load(tmp_path, f"security.protocol=PLAINTEXT\nretries=3\n{key}").ignored
    assert ignored_keys == ("retries", "lines that are no properties")


def test_no_password_is_in_the_repr(tmp_path: Path) -> None:
    inline = CERTIFICATE.replace("\n", "\\n")
    key = f"ssl.keystore.key={inline}\nssl.keystore.certificate.chain={inline}\n"
    settings = load(tmp_path, SCRAM + f"ssl.key.password=hush\n{key}")
    assert settings.tls.key_password == "hush"
    assert settings.tls.key is not None
    assert settings.tls.key.text == CERTIFICATE
    shown = repr(settings)
    assert "ops" in shown
    for secret in ("secret", "hush", "AAAA"):
        assert secret not in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("security.protocol=TLS\n", "security.protocol is TLS"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=DIGEST\n", "DIGEST is not supported"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n", "no username and password"),
        ("security.protocol=SSL\nssl.truststore.location=none.pem\n", "none.pem cannot be read"),
        ("security.protocol=\n", "security.protocol is empty"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=\n", "sasl.mechanism is empty"),
        (
            "security.protocol=SSL\nssl.truststore.location=odd\n",
            "odd is neither PEM nor a store of Java",
        ),
        ("security.protocol=SSL\nssl.truststore.location=cut\n", "cut is damaged"),
        ("security.protocol=SSL\nssl.truststore.location=latin\n", "latin is damaged"),
        ("security.protocol=SSL\nssl.truststore.location=a\\u0000b\n", "cannot be read"),
        ("security.protocol=SSL\nssl.key.password=a\\u0000b\n", "ssl.key.password has a NUL"),
        ("security.protocol=SSL\nssl.truststore.certificates=x\n", "certificates is not PEM"),
        (
            "security.protocol=SSL\nssl.truststore.location=ca.pem\n"
            "ssl.truststore.certificates=x\n",
            "both ssl.truststore.location and ssl.truststore.certificates are set",
        ),
        ("security.protocol=SSL\nssl.keystore.key=x\n", "only one is set"),
        (
            "security.protocol=SSL\nssl.endpoint.identification.algorithm=htps\n",
            "identification.algorithm is htps",
        ),
        ("security.protocol=SSL\nnote=\\u12\n", "u is not followed by four hex"),
        ("security.protocol=SSL\nssl.keystore.location=old.jks\n", "old.jks is damaged"),
        ("security.protocol=SSL\nssl.truststore.location=new.jks\n", "new.jks is damaged"),
    ],
)
def test_invalid_connection_settings_raise_one_error_with_advice(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(DocumentError, match=message) as caught:
        load(tmp_path, text)
    assert caught.value.next


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("sasl.mechansim=PLAIN\n", "Is sasl.mechansim meant to be sasl.mechanism?"),
        ("sasl.jass.config=x\nsasl.mechanism=PLAIN\n", "meant to be sasl.jaas.config?"),
        ("mine=x\nsasl.mechanism=GSSAPI\n", ""),
    ],
)
def test_error_for_a_missing_property_suggests_its_misspelt_name(
    tmp_path: Path, text: str, hint: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        load(tmp_path, f"security.protocol=SASL_SSL\n{text}")
    assert caught.value.next.endswith(hint)
    assert ("meant to be" in caught.value.next) is bool(hint)


def test_store_path_resolves_against_properties_file_not_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    Path("only-here.pem").write_bytes(STORES["ca.pem"])
    for location in ("ca.pem", str(tmp_path / "ca.pem")):
        settings = load(tmp_path, f"security.protocol=SSL\nssl.truststore.location={location}\n")
        assert settings.tls.ca is not None
        assert settings.tls.ca.location == str(tmp_path / "ca.pem")
    # A run is at home in no folder: what it could not find, nobody finds.
    with pytest.raises(DocumentError, match=r"only-here\.pem cannot be read") as caught:
        load(tmp_path, "security.protocol=SSL\nssl.truststore.location=only-here.pem\n")
    assert f"begins at {tmp_path}" in caught.value.next


def test_text_outside_pem_blocks_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("Alias-Name: schlüssel\n" + STORES["ca.pem"].decode())
    settings = load(tmp_path, "security.protocol=SSL\nssl.truststore.location=ca\n")
    assert settings.tls.ca is not None
    assert settings.tls.ca.read().isascii()


def test_missing_properties_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="No such file"):
        ConnectionSettings.load("b:1", tmp_path / "none.properties")


def test_certificate_that_cannot_be_loaded_is_reported(tmp_path: Path) -> None:
    settings = load(tmp_path, "security.protocol=SSL\nssl.truststore.location=ca.pem\n")
    with pytest.raises(DocumentError, match="cannot be loaded"):
        settings.kafka_python_config()


@pytest.mark.parametrize(
    ("bootstrap", "servers"),
    [
        ("b1:9092", "b1:9092"),
        (" b1:9092 , b2:9093,", "b1:9092,b2:9093"),
        ("[::1]:9092", "[::1]:9092"),
    ],
)
def test_bootstrap_is_a_list_of_addresses(bootstrap: str, servers: str) -> None:
    assert parse_bootstrap(bootstrap) == servers


@pytest.mark.parametrize("bootstrap", ["", "b1", "b1:", "b1:http", "b1:70000", "b1:9092;b2:9092"])
def test_malformed_bootstrap_addresses_are_refused(bootstrap: str) -> None:
    with pytest.raises(UsageError):
        parse_bootstrap(bootstrap)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1\nb: 2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# no \\\n! no\n  a = 1 \n", {"a": "1"}),
        ("a=1\t\r\nb=2\xa0\rc=3\x85d=4\x0b\n", {"a": "1", "b": "2\xa0", "c": "3\x85d=4"}),
        ("a=1,\\\n   2\n", {"a": "1,2"}),
        ("a=1,\\\r\n  #2\\\n\nb=3\\", {"a": "1,#2", "b": "3"}),
        ("a=1\\\\\nb=2\na=3\n", {"a": "3", "b": "2"}),
        ("a\\=b=c\\\\d\\u00e9\\n.\n", {"a=b": "c\\dé\n."}),
        ("a=\\ud83d\\ude00\\ud83d\n", {"a": "😀?"}),
        ("a =\f:1\nb\\\\:=2\n\\ c d\n", {"a": ":1", "b\\": "=2", " c": "d"}),
    ],
)
def test_properties_are_read_as_java_does(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text.encode("latin-1")) == entries


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("username=a-1.b_$ password='p\"';", {"username": "a-1.b_$", "password": 'p"'}),
        (r"""password="a\nb\101\48\400\q\"'";""", {"password": "a\nbA\x048 0q\"'"}),
        ("password=a // no\n /* ; */ username=b / no\n;", {"password": "a", "username": "b"}),
        ('password="a\nusername=b;', {"password": "a", "username": "b"}),
        ("password=ä\x00username=b;", {"password": "ä", "username": "b"}),
        ("password=a password=b;", {"password": "b"}),
        ("5=a password=b;", {"password": "b"}),
        (";", {}),
    ],
)
def test_jaas_is_read_as_kafka_does(text: str, options: dict[str, str]) -> None:
    login = parse_jaas(f"a.Module required {text}")
    assert (login.name, login.options) == ("a.Module", options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " // nothing",
        "a.Module",
        "a.Module needed password=SECRET;",
        "a.Module required password=SECRET",
        "a.Module required password=SECRET;;",
        "a.Module required password=SECRET; b.Module required;",
        'a.Module required password="SE"CRET;',
        'a.Module required password="SE" CRET="SECRET" SECRET;',
        "a.Module required password=SE;CRET=SECRET;",
        "a.Module required password=SE=CRET;",
        "a.Module required password=;",
        "a.Module required password=1SECRET;",
        "a.Module required password:SECRET;",
        "a.Module required password=-SECRET;",
        "= required password=SECRET;",
        "com.sun.security.auth.module.JndiLoginModule required password=SECRET;",
    ],
)
def test_jaas_config_that_kafka_refuses_is_refused_without_showing_secrets(
    tmp_path: Path, text: str
) -> None:
    properties = f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={text}\n"
    with pytest.raises(DocumentError, match=r"sasl\.jaas\.config") as caught:
        load(tmp_path, properties)
    assert "SE" not in str(caught.value).replace("SASL", "")
    assert "CRET" not in str(caught.value)
    assert caught.value.next


def test_login_with_a_nul_character_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="has a NUL"):
        load(tmp_path, scram('username="u" password="a\\\\0b"'))


def test_delegation_token_login_sends_tokenauth_and_avoids_librdkafka(tmp_path: Path) -> None:
    settings = load(tmp_path, scram('username="id" password="hmac" tokenauth="true"'))
    exchange = ScramMechanism(**settings.kafka_python_config())
    assert exchange.auth_bytes().startswith(b"n,,n=id,r=")
    assert exchange.auth_bytes().endswith(b",tokenauth=true")
    plain = load(tmp_path, scram('username="id" password="hmac"'))
    assert b"tokenauth" not in ScramMechanism(**plain.kafka_python_config()).auth_bytes()
    assert plain.suits_librdkafka
    assert not settings.suits_librdkafka


def scram(options: str) -> str:
    return (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.jaas.config=x.ScramLoginModule required {options};\n"
    )


def test_a_user_with_commas_is_escaped_once_for_each_library(tmp_path: Path) -> None:
    settings = load(tmp_path, scram('username="a,b=c" password="p"'))
    assert settings.kafka_python_config()["sasl_plain_username"] == "a=2Cb=3Dc"
    assert settings.librdkafka_config()["sasl.username"] == "a,b=c"  # librdkafka escapes
    plain = scram('username="a,b=c" password="p"').replace("SCRAM-SHA-512", "PLAIN")
    assert load(tmp_path, plain).kafka_python_config()["sasl_plain_username"] == "a,b=c"


def test_encrypted_key_without_password_is_reported_and_never_prompted_for(tmp_path: Path) -> None:
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    words = ["req", "-x509", "-newkey", "rsa:2048", "-passout", "pass:hush", "-days", "2"]
    command = ["openssl", *words, "-subj", "/CN=x", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    store = tmp_path / "client.pem"
    store.write_text(Path(key).read_text() + Path(certificate).read_text())
    tls = f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={store}\n"
    with pytest.raises(DocumentError) as refused:
        load(tmp_path, tls).tls.context()
    assert "ssl.key.password" in refused.value.next
    assert refused.value.exit_code == 2
    load(tmp_path, tls + "ssl.key.password=hush\n").tls.context()
