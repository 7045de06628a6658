"""Passwords that were typed: used by both libraries, handed to processes, and left nowhere."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from encrypted_key import PASSWORD, properties_with_key
from run_help import MB, cluster, plan_of
from servers import nobody
from waiting import eventually

from core import passwords, paths
from core.clock import SystemClock
from core.cluster import connect as connecting
from core.cluster.connect import (
    Address,
    Connection,
    address_arguments,
    missing_password,
    store_password,
    try_password,
)
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.daemons.process import Process
from core.daemons.supervisor import Daemon, start_daemon
from core.errors import AccessDeniedError, DocumentError, LoginRefusedError, UnreachableError
from core.passwords import MissingPassword, PasswordMissingError, WrongPasswordError
from core.run.journal.journal import journal_path
from core.run.launch import start_run
from core.run.options import RunOptions
from core.run.recovery import recover
from core.run.reporting.runs import read_run
from core.run.reporting.views import RunStatus
from core.run.run_process import log_path

LOGIN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism={}\nsasl.jaas.config=M required {};\n"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """What this process knows, forgotten after each test."""
    known: dict[tuple[str, str], str] = {}
    monkeypatch.setattr(passwords, "_known", known)
    return known


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Address:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "home"))
    return Address(nobody(), properties_with_key(tmp_path))


def settings_of(address: Address) -> ConnectionSettings:
    return ConnectionSettings.load(address.bootstrap, address.command_config)


def missing(address: Address) -> MissingPassword:
    password = missing_password(address)
    assert password is not None
    return password


def test_missing_key_password_is_named_and_only_the_right_one_is_stored(address: Address) -> None:
    wanted = missing(address)
    assert wanted.key == "ssl.key.password"
    with pytest.raises(PasswordMissingError) as refused:
        settings_of(address).tls.context()
    assert pickle.loads(pickle.dumps(refused.value)).missing == wanted
    for wrong in ("", "wrong", "with a \0", PASSWORD * 100, PASSWORD * 1000):
        with pytest.raises(DocumentError):
            store_password(address, wanted, wrong)
        assert missing_password(address) == wanted
    with pytest.raises(WrongPasswordError):
        store_password(address, wanted, PASSWORD + " ")
    store_password(address, wanted, PASSWORD)
    assert missing_password(address) is None
    settings = settings_of(address)
    settings.tls.context()
    assert settings.librdkafka_config()["ssl.key.password"] == PASSWORD
    assert PASSWORD not in repr(settings)


def test_key_with_another_certificate_is_not_reported_as_a_wrong_password(address: Address) -> None:
    wanted = missing(address)
    key, certificate = (wanted.file.parent / name for name in ("key.pem", "other.pem"))
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]
    subprocess.run(
        ["openssl", *words, "-keyout", os.devnull, "-out", certificate],
        check=True,
        capture_output=True,
    )
    (wanted.file.parent / "client.pem").write_text(key.read_text() + certificate.read_text())
    with pytest.raises(DocumentError) as refused:
        store_password(address, wanted, PASSWORD)
    assert not isinstance(refused.value, WrongPasswordError)


def test_user_password_too_long_for_child_processes_is_refused(
    login: Callable[[str, str], Address], known: dict[tuple[str, str], str]
) -> None:
    address = login("PLAIN", 'username="ann"')
    with pytest.raises(DocumentError, match="too long"):
        store_password(address, missing(address), "p" * 4096)
    assert known == {}


@pytest.fixture
def login(tmp_path: Path) -> Callable[[str, str], Address]:
    """Write client properties of a mechanism and these options."""

    def write(mechanism: str, options: str) -> Address:
        path = tmp_path / "client.properties"
        path.write_text(LOGIN.format(mechanism, options))
        return Address("b:9092", path)

    return write


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [("PLAIN", 'username="ann"'), ("SCRAM-SHA-512", 'username="ann" realm="r"')],
)
def test_user_without_a_password_is_prompted_for_it(
    login: Callable[[str, str], Address], mechanism: str, options: str
) -> None:
    address = login(mechanism, options)
    wanted = missing(address)
    assert (wanted.file, wanted.key) == (address.command_config, "sasl.jaas.config")
    assert "ann" in wanted.prompt
    store_password(address, wanted, PASSWORD)
    assert missing_password(address) is None
    settings = settings_of(address)
    assert settings.librdkafka_config()["sasl.password"] == PASSWORD
    assert settings.kafka_python_config()["sasl_plain_password"] == PASSWORD


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        ("PLAIN", 'password="p"'),
        ("PLAIN", 'username=""'),
        ("SCRAM-SHA-256", 'username="ann" tokenauth="true"'),
    ],
)
def test_login_that_no_password_would_complete_is_refused(
    login: Callable[[str, str], Address], mechanism: str, options: str
) -> None:
    with pytest.raises(DocumentError) as refused:
        missing_password(login(mechanism, options))
    assert not isinstance(refused.value, PasswordMissingError)


@pytest.mark.parametrize(
    ("answer", "known_after"),
    [
        (None, 1),
        (LoginRefusedError("no"), 0),
        (AccessDeniedError("this user may not"), 1),
        (UnreachableError("nobody"), 1),
    ],
)
def test_user_password_is_kept_unless_the_cluster_refuses_the_login(
    login: Callable[[str, str], Address],
    monkeypatch: pytest.MonkeyPatch,
    known: dict[tuple[str, str], str],
    answer: Exception | None,
    known_after: int,
) -> None:
    def describe() -> None:
        if answer is not None:
            raise answer

    client: Any = SimpleNamespace(describe_cluster=describe, close=lambda: None)
    monkeypatch.setattr(connecting, "connect", lambda a: Connection(client, SystemClock(), a))
    address = login("PLAIN", 'username="ann"')
    refused = isinstance(answer, LoginRefusedError)
    with pytest.raises(LoginRefusedError) if refused else nullcontext():
        assert try_password(address, missing(address), "p") is None
    assert len(known) == known_after


# -- in other processes ----------------------------------------------------------------------------


@pytest.fixture
def started() -> Iterator[list[Process]]:
    """Processes that end with the test."""
    processes: list[Process] = []
    yield processes
    for process in processes:
        process.stop(0.0)


def left_nowhere(process: Process, *folders: Path) -> None:
    """Assert that a process's command line, its environment and files do not hold the password."""
    secret = PASSWORD.encode()
    places = [Path(f"/proc/{process.pid}/{name}") for name in ("cmdline", "environ")]
    places += [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert [place for place in places if secret in place.read_bytes()] == []


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the system has no /proc")
def test_service_gets_the_password_and_leaves_it_in_no_file_or_environment(
    address: Address, started: list[Process], tmp_path: Path
) -> None:
    store_password(address, missing(address), PASSWORD)
    root = paths.load_root()
    more = ("--interval=1",)
    arguments = (*address_arguments(address), *more)
    collector = Daemon("collector", "core.load.daemon", arguments, address.command_config)
    process = start_daemon(collector, "c", root=root)
    assert process is not None
    started.append(process)
    log = paths.log_dir() / "collector-c.log"
    # It connects, which takes the key.
    eventually(lambda: log.exists() and "Nothing listens" in log.read_text())
    left_nowhere(process, tmp_path)
    assert Path(f"/proc/{process.pid}/fd/0").resolve() == Path("/dev/null")


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the system has no /proc")
def test_run_gets_the_password_and_reports_it_missing_after_its_process_died(
    address: Address, started: list[Process], tmp_path: Path, known: dict[tuple[str, str], str]
) -> None:
    store_password(address, missing(address), PASSWORD)
    client = cluster({"t": [(1, 2)]})
    plan = plan_of(client, {("t", 0): (1, 3)})
    cluster_id = client.describe_cluster().cluster_id
    run = start_run(address, cluster_id, plan, RunOptions(5 * MB), None)
    process = Process.of(read_run(cluster_id, run).pid or 0)
    assert process is not None
    started.append(process)
    left_nowhere(process, tmp_path)
    assert PASSWORD not in log_path(journal_path(cluster_id, run)).read_text()
    process.signal(signal.SIGKILL)
    eventually(lambda: read_run(cluster_id, run).state is RunStatus.DIED)
    why = read_run(cluster_id, run).why
    assert "ssl.key.password" in why
    assert f"trimtab runs attach {run}" in why
    # Who knows it finds that nothing listens; who does not is not let that far.
    with pytest.raises(UnreachableError):
        recover(cluster_id, run)
    known.clear()
    with pytest.raises(PasswordMissingError):
        recover(cluster_id, run)
