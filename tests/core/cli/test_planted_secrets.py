"""Secrets of a user's own, each marked: no command says or writes one, whatever goes wrong."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_process import Trimtab

from core import paths

MARK = "PLANTED"
NOWHERE = "127.0.0.1:1"
_COMMON = "org.apache.kafka.common"
_LOGIN = f"{_COMMON}.security.oauthbearer.OAuthBearerLogin"
_PEM = (
    f"-----BEGIN ENCRYPTED PRIVATE KEY-----\\n{MARK}0000\\n-----END ENCRYPTED PRIVATE KEY-----\\n"
)
PROPERTIES = {
    "scram": f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={_COMMON}.security.scram.ScramLoginModule required username="u" \\
  password="{MARK}1";
""",
    "cut": f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config={_COMMON}.security.plain.PlainLoginModule required username="u" \\
  password="{MARK}2""",
    "unescaped": f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config={_COMMON}.security.plain.PlainLoginModule required username="u"
  password="{MARK}3";
{MARK}4 = x
""",
    "oauth": f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.oauthbearer.token.endpoint.url=http://u:{MARK}5@127.0.0.1:1/token
sasl.login.callback.handler.class={_LOGIN}CallbackHandler
sasl.jaas.config={_LOGIN}Module required clientId="c" clientSecret="{MARK}6";
""",
    "oauth-keys": f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.oauthbearer.token.endpoint.url=http://127.0.0.1:1/token
sasl.oauthbearer.client.credentials.client.id=c
sasl.oauthbearer.client.credentials.client.secret={MARK}7
""",
    "stores": f"""security.protocol=SSL
ssl.truststore.location=store.jks
ssl.truststore.password={MARK}8
ssl.keystore.location=store.p12
ssl.keystore.type=PKCS12
ssl.keystore.password={MARK}9
ssl.key.password={MARK}10
""",
    "pem": f"""security.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.certificate.chain={_PEM}
ssl.keystore.key={_PEM}
ssl.key.password={MARK}11
""",
    "librdkafka": f"""security.protocol=sasl_plaintext
sasl.mechanisms=PLAIN
sasl.username=u
sasl.password={MARK}12
sasl.pasword={MARK}13
""",
    "providers": f"""security.protocol=SASL_PLAINTEXT
config.providers=file,env
config.providers.file.class={_COMMON}.config.provider.FileConfigProvider
config.providers.env.class={_COMMON}.config.provider.EnvVarConfigProvider
sasl.mechanism=PLAIN
sasl.username=${{file:secrets.properties:user}}
sasl.password=${{env:KAFKA_SECRET}}
""",
    "mechanism": f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=NONE
sasl.jaas.config=x.Module required password="{MARK}14";
""",
    "protocol": f"""security.protocol=PLAINTEXT
sasl.jaas.config=x.Module required password="{MARK}15";
ssl.key.password={MARK}16
""",
}
COMMANDS = (
    ("doctor",),
    ("doctor", "--json"),
    ("show", "--json"),
    ("topics", "ls"),
    ("runs", "ls", "--json"),
    ("autopilot", "--mode", "suggest", "--json"),
    ("throttles", "ls"),
)


@pytest.fixture(autouse=True)
def _planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trimtab: Trimtab) -> Iterator[None]:
    monkeypatch.setenv("KAFKA_SECRET", f"{MARK}20")
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "secrets.properties").write_text(f"user={MARK}21\n")
    (tmp_path / "user" / "store.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2" + MARK.encode())
    (tmp_path / "user" / "store.p12").write_bytes(b"\x30\x82" + MARK.encode())
    logging.getLogger("kafka").setLevel(logging.DEBUG)
    yield
    logging.getLogger("kafka").setLevel(logging.NOTSET)


def written(home: Path) -> list[Path]:
    """Return the files of trimtab's own that hold a mark."""
    user = home / "user"
    files = (path for path in home.rglob("*") if path.is_file() and user not in path.parents)
    own = paths.config_file()
    return [path for path in files if path != own and MARK.encode() in path.read_bytes()]


@pytest.mark.parametrize("kind", PROPERTIES)
def test_no_command_reveals_the_secrets_of_client_properties(
    kind: str, trimtab: Trimtab, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "user" / "client.properties"
    path.write_text(PROPERTIES[kind])
    codes = set()
    with caplog.at_level(logging.DEBUG):
        for words in COMMANDS:
            at = ("-b", NOWHERE, "--command-config", path, "--timeout", "1s", *words)
            code, out, err = trimtab(*at)
            codes.add(code)
            assert MARK not in out + err, (words, out + err)
    assert codes & {2, 4, 6}, "none of them can reach it"
    assert MARK not in caplog.text
    assert written(tmp_path) == []


CONFIG = f"""
[clusters.prod]
bootstrap = "{NOWHERE}"
proxy = "socks5://u:{MARK}30@127.0.0.1:1"
timeout = "1s"
[notify]
webhook = "https://example.org/{MARK}31"
command = ["page", "--token", "{MARK}32"]
"""


@pytest.mark.parametrize(
    "words", [("clusters", "ls"), ("clusters", "ls", "--json"), *COMMANDS, ("bug",)]
)
def test_no_command_reveals_the_secrets_of_config_toml(
    words: tuple[str, ...], trimtab: Trimtab, tmp_path: Path
) -> None:
    paths.config_dir().mkdir(parents=True)
    paths.config_file().write_text(CONFIG)
    _, out, err = trimtab("--cluster", "prod", *words)
    assert MARK not in out + err
    assert written(tmp_path) == []


@pytest.mark.parametrize(
    "bad",
    [
        f'webhook = "ftp://{MARK}33"',
        f'command = "{MARK}34"',
        f'command = ["{MARK}35", 7]',
        f'[clusters.prod]\nbootstrap = "b:1"\nproxy = "http://u:{MARK}36@b:1"',
    ],
)
def test_invalid_config_toml_is_reported_without_its_secrets(bad: str, trimtab: Trimtab) -> None:
    paths.config_dir().mkdir(parents=True)
    paths.config_file().write_text(bad if bad.startswith("[") else f"[notify]\n{bad}")
    code, out, err = trimtab("-b", NOWHERE, "show")
    assert code == 2
    assert MARK not in out + err


def test_s3_address_with_a_secret_is_refused_and_the_secret_is_not_revealed(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    for place in (f"s3://key:{MARK}40@bucket/x", f"s3://bucket/x?secret_key={MARK}41"):
        code, out, err = trimtab("--snapshots", place, "snapshot", "ls")
        assert code == 2
        assert MARK not in out + err
    assert written(tmp_path) == []


def test_the_log_of_a_bug_has_no_secret(trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise ValueError(f"password {MARK}50")

    monkeypatch.setattr("core.cli.main.Target.choose", breaks)
    code, out, err = trimtab("-b", f"{MARK}51:1", "--command-config", f"{MARK}52", "show")
    assert code == 1
    assert MARK not in out + err
    log = (paths.log_dir() / "bugs.log").read_text()
    assert re.search(r"ValueError \(of \d+ characters\)", log)
    assert MARK not in log
