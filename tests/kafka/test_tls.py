"""TLS on a real broker: client properties as an operator has them, and each refusal told apart."""

from __future__ import annotations

import gc
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from secured import LOGIN, PASSWORD, SecuredBroker, keytool, openssl
from waiting import eventually

from core import passwords, paths
from core.cli.main import run
from core.cluster.connect import Address, address_arguments, missing_password, try_password
from core.cluster.kafka.connection.settings import CONNECT_SECONDS
from core.daemons.supervisor import Daemon, start_daemon
from core.errors import ExitCode, LoginRefusedError, TrimtabError
from core.passwords import WrongPasswordError

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run a command with these client properties; returns exit code, stdout and stderr."""
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "home"))

    def call(bootstrap: str, properties: str, *words: str) -> tuple[int, str, str]:
        path = tmp_path / "client.properties"
        path.write_text(properties)
        capsys.readouterr()
        code = run(lambda _: None, ["-b", bootstrap, "--command-config", str(path), *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def tls(broker: SecuredBroker, more: str = "") -> str:
    return (
        "security.protocol=SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={broker.authority}\n{more}"
    )


def login(broker: SecuredBroker, password: str) -> str:
    return tls(broker).replace("=SSL", "=SASL_SSL") + (
        f'sasl.mechanism=PLAIN\nsasl.jaas.config={LOGIN} required \\\n  username="ann" '
        f'password="{password}";\n'
    )


def mutual(broker: SecuredBroker) -> str:
    return tls(broker, f"ssl.keystore.type=PEM\nssl.keystore.location={broker.client}\n")


def inline(broker: SecuredBroker) -> str:
    """The same with the certificate in the properties, as KIP-651 has it."""
    pem = "".join(
        re.findall(r"-----BEGIN.*?-----END CERTIFICATE-----\n", broker.authority.read_text(), re.S)
    )
    one_line = pem.replace("\n", "\\n")
    return f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates={one_line}"


@pytest.mark.parametrize(
    ("listener", "properties"),
    [
        ("TLS", tls),
        ("TLS", inline),
        ("LOGIN", lambda broker: login(broker, "right")),
        ("MUTUAL", mutual),
    ],
    ids=["SSL", "inline PEM", "SASL_SSL", "client certificate"],
)
def test_both_client_libraries_connect_with_each_tls_configuration(
    secured: SecuredBroker,
    command: Command,
    listener: str,
    properties: Callable[[SecuredBroker], str],
) -> None:
    code, out, err = command(secured.at(listener), properties(secured), "show", "--json")
    assert code == ExitCode.DONE, err
    assert [broker["id"] for broker in json.loads(out)["brokers"]] == [1]
    _, out, _ = command(secured.at(listener), properties(secured), "doctor", "--json")
    fine_by_name = {finding["name"]: finding["fine"] for finding in json.loads(out)["findings"]}
    assert fine_by_name["cluster"]
    assert fine_by_name["right to see log dirs"]


def unsaid(broker: SecuredBroker) -> str:
    return login(broker, "right").replace(
        ' \\\n  username="ann" password="right"', ' username="ann"'
    )


def encrypted(broker: SecuredBroker) -> str:
    """The client's key with a password."""
    key = broker.folder / "encrypted.pem"
    if not key.exists():
        openssl(
            *("pkey", "-in", str(broker.folder / "client.key"), "-aes256", "-passout"),
            *("pass:right", "-out", str(key)),
        )
        key.write_text(key.read_text() + (broker.folder / "client.crt").read_text())
    return mutual(broker).replace(str(broker.client), str(key))


@pytest.mark.parametrize(
    ("listener", "properties", "refused"),
    [("LOGIN", unsaid, LoginRefusedError), ("MUTUAL", encrypted, WrongPasswordError)],
    ids=["SASL_SSL", "client certificate"],
)
def test_entered_password_serves_both_libraries_and_other_processes(
    secured: SecuredBroker,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listener: str,
    properties: Callable[[SecuredBroker], str],
    refused: type[TrimtabError],
) -> None:
    monkeypatch.setattr(passwords, "_known", {})
    words = secured.at(listener), properties(secured), "groups", "--json"
    assert command(*words)[0] == ExitCode.USAGE
    address = Address(secured.at(listener), tmp_path / "client.properties")
    missing = missing_password(address)
    assert missing is not None
    with pytest.raises(refused):
        try_password(address, missing, "wrong")
    assert try_password(address, missing, "right") is None
    code, _, err = command(*words)  # by librdkafka
    assert code == ExitCode.DONE, err
    code, out, err = command(*words[:2], "show", "--json")
    assert code == ExitCode.DONE, err
    cluster_id = json.loads(out)["cluster_id"]
    more = ("--interval=1",)
    arguments = (*address_arguments(address), *more)
    collector = Daemon("collector", "core.load.daemon", arguments, address.command_config)
    process = start_daemon(collector, cluster_id, root=paths.load_root())
    assert process is not None
    try:
        log = paths.log_dir() / f"collector-{paths.safe_name(cluster_id)}.log"
        eventually(lambda: log.exists() and "poll" in log.read_text())
    finally:
        process.stop(0.0)


def test_any_host_name_is_accepted_when_host_name_verification_is_disabled(
    secured: SecuredBroker, command: Command
) -> None:
    more = "ssl.endpoint.identification.algorithm=\n"
    code, _, err = command(secured.at("TLS", "localhost"), tls(secured, more), "show", "--json")
    assert code == ExitCode.DONE, err


REFUSALS = {
    "another CA": (
        lambda b: (b.at("TLS"), tls(b).replace("ca.pem", "stranger.crt")),
        "is of no authority that this connection trusts",
        "ssl.truststore.location",
    ),
    "no CA": (
        lambda b: (b.at("TLS"), "security.protocol=SSL\n"),
        "is of no authority that this connection trusts",
        "ssl.truststore.location",
    ),
    "another host name": (
        lambda b: (b.at("TLS", "localhost"), tls(b)),
        "is not for localhost",
        "ssl.endpoint.identification.algorithm",
    ),
    "plain text at TLS": (
        lambda b: (b.at("TLS"), "security.protocol=PLAINTEXT\n"),
        "is a TLS listener, and this connection is plain text",
        "security.protocol=SSL",
    ),
    "TLS at plain text": (
        lambda b: (b.at("PLAINTEXT"), tls(b)),
        "does not speak TLS, and this connection wants to",
        "security.protocol=PLAINTEXT",
    ),
    "no client certificate": (
        lambda b: (b.at("MUTUAL"), tls(b)),
        "wants a client certificate",
        "ssl.keystore.location",
    ),
    "a client it does not know": (
        lambda b: (b.at("MUTUAL"), mutual(b).replace("client.pem", "stranger.pem")),
        "refuses this client certificate",
        "ssl.keystore.location",
    ),
    "a wrong password": (
        lambda b: (b.at("LOGIN"), login(b, "wrong")),
        "refuses this user name or password",
        "--command-config",
    ),
    "another mechanism": (
        lambda b: (b.at("LOGIN"), login(b, "right").replace("=PLAIN", "=SCRAM-SHA-512")),
        "does not take logins by SCRAM-SHA-512; it offers PLAIN",
        "sasl.mechanism",
    ),
    "a login where none is taken": (
        lambda b: (b.at("TLS"), login(b, "right")),
        "takes no logins",
        "security.protocol=SSL",
    ),
    "no login where one is wanted": (
        lambda b: (b.at("LOGIN"), tls(b)),
        "wants a login (by PLAIN)",
        "security.protocol=SASL_SSL",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused_connection_is_reported_in_one_sentence_with_advice(
    secured: SecuredBroker, command: Command, case: str
) -> None:
    asked, message, advice = REFUSALS[case]
    began = time.monotonic()
    code, out, err = command(*asked(secured), "show", "--json")
    assert time.monotonic() - began < CONNECT_SECONDS, "what is final is not waited for"
    assert (code, out) == (ExitCode.UNREACHABLE, ""), err
    first, *rest = err.splitlines()
    assert message in first
    assert advice in "\n".join(rest)
    assert len(rest) == 1
    gc.collect()


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_java_keystores_and_truststores_are_used_without_conversion(
    secured: SecuredBroker, command: Command, tmp_path: Path, kind: str
) -> None:
    trusted, own = tmp_path / "trusted", tmp_path / "own"
    of_kind = ("-storetype", kind, "-storepass", PASSWORD)
    keytool(
        *("-importcert", "-noprompt", "-alias", "ca", "-file", str(secured.authority)),
        *("-keystore", str(trusted), *of_kind),
    )
    openssl(
        *("pkcs12", "-export", "-in", str(secured.client), "-name", "client"),
        *("-out", str(tmp_path / "client.p12"), "-passout", f"pass:{PASSWORD}"),
    )
    keytool(
        *("-importkeystore", "-srckeystore", str(tmp_path / "client.p12")),
        *("-srcstorepass", PASSWORD, "-destkeystore", str(own)),
        *("-deststoretype", kind, "-deststorepass", PASSWORD),
    )
    properties = "security.protocol=SSL\n" + "".join(
        f"ssl.{name}.location={place}\nssl.{name}.password={PASSWORD}\n"
        for name, place in (("truststore", trusted), ("keystore", own))
    )
    code, _, err = command(secured.at("MUTUAL"), properties, "show")
    assert (code, err) == (ExitCode.DONE, "")
    code, _, err = command(secured.at("MUTUAL"), properties, "throttles", "ls")
    assert code == ExitCode.DONE, err
