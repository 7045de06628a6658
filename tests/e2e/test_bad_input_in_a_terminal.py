"""Wrong ports, small and dumb terminals, two applies at once: through the installed command."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from encrypted_key import PASSWORD, properties_with_key
from installed import TRIMTAB
from terminal import PATIENCE_SECONDS, Terminal

from core.errors import ExitCode
from core.load.simulator import start_simulator


def start(
    environment: dict[str, str], *words: str, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [TRIMTAB, *words],
        env=environment,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# -- what listens there is no Kafka broker ---------------------------------------------------------


@contextlib.contextmanager
def listener(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve each connection in a thread of its own; yields the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                serve(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def http(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Callable[[socket.socket], None]:
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]
    command = ["openssl", *words, "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1)

    return serve


def test_wrong_port_or_host_is_reported_with_its_exact_cause(
    environment: dict[str, str], tls: Callable[[socket.socket], None]
) -> None:
    with listener(tls) as a, listener(http) as b, listener(silent) as c:
        with socket.create_server(("127.0.0.1", 0)) as free:
            closed = f"127.0.0.1:{free.getsockname()[1]}"
        cases = {
            a: "is a TLS listener, and this connection is plain text.",
            b: "is an HTTP server, not a Kafka broker.",
            c: "does not answer: it takes the connection",
            closed: "Nothing listens on",
            "no.such.host.invalid:9092": "There is no host named no.such.host.invalid.",
        }
        asked = {at: start(environment, "-b", at, "show", "--json") for at in cases}
        with Terminal([TRIMTAB, "-b", closed], environment=environment) as dashboard:
            for at, message in cases.items():
                out, err = asked[at].communicate(timeout=PATIENCE_SECONDS)
                assert (asked[at].returncode, out) == (4, ""), err
                first, *what_to_do = err.splitlines()
                assert message in first
                assert len(what_to_do) == 1
            assert dashboard.wait_for_exit() == 4
            assert "Nothing listens on" in dashboard.text()


def test_ctrl_c_during_a_request_prints_one_line(environment: dict[str, str]) -> None:
    asked = threading.Event()

    def accept_silently(connection: socket.socket) -> None:
        asked.set()
        silent(connection)

    with listener(accept_silently) as at:
        waiting = start(environment, "-b", at, "show")
        assert asked.wait(PATIENCE_SECONDS)
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=PATIENCE_SECONDS)
    assert (waiting.returncode, out) == (130, "")
    assert err.strip() == "trimtab: stopped."


# -- terminals -------------------------------------------------------------------------------------


def test_terminal_of_20_by_5_shows_the_size_that_a_map_needs(
    environment: dict[str, str], saved: str
) -> None:
    words = [TRIMTAB, "--from", saved]
    with Terminal(words, columns=20, lines=5, environment=environment) as terminal:
        terminal.wait_for("a map needs")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0


@pytest.mark.parametrize("term", ["dumb", ""])
def test_dumb_terminal_is_refused_with_the_command_to_use_instead(
    environment: dict[str, str], saved: str, term: str
) -> None:
    with Terminal([TRIMTAB, "--from", saved], environment={**environment, "TERM": term}) as dumb:
        assert dumb.wait_for_exit() == 2
        assert "cannot draw a dashboard" in dumb.text()
        assert "trimtab … show" in dumb.text()


def test_dashboard_without_a_terminal_exits_and_reports_that_it_needs_one(
    environment: dict[str, str], saved: str
) -> None:
    out, err = (asked := start(environment, "--from", saved)).communicate(timeout=PATIENCE_SECONDS)
    assert (asked.returncode, out) == (2, "")
    assert err.splitlines()[0] == "trimtab: The dashboard needs a terminal."


def test_ascii_without_colour_draws_ascii_only(environment: dict[str, str], saved: str) -> None:
    with Terminal(
        [TRIMTAB, "--ascii", "--from", saved], environment={**environment, "NO_COLOR": "1"}
    ) as terminal:
        terminal.wait_for("leaders")
        terminal.settle()
        assert terminal.text().isascii()
        terminal.send("q")
        assert terminal.wait_for_exit() == 0


def test_a_key_for_an_unknown_action_is_refused(environment: dict[str, str], saved: str) -> None:
    config = Path(environment["TRIMTAB_HOME"], "config", "config.toml")
    config.parent.mkdir(parents=True)
    config.write_text('[keys]\nfrobnicate = "x"\n')
    with Terminal([TRIMTAB, "--from", saved], environment=environment) as terminal:
        assert terminal.wait_for_exit() == 2
        assert "'frobnicate', which is no action" in terminal.text()


# -- two at once -----------------------------------------------------------------------------------


def test_one_of_two_simultaneous_applies_runs_and_the_other_is_refused(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", environment["TRIMTAB_HOME"])
    simulator = start_simulator(7, 6, 100, 1.0)
    at = ("-b", simulator.address.bootstrap)
    try:
        out, err = start(environment, *at, "show", "--json").communicate(timeout=PATIENCE_SECONDS)
        plans = two_plans(json.loads(out), tmp_path)
        words = ("--throttle", "1MB/s", "--yes", "--detach", "--json")
        words += ("--allow", "out-of-sync,rack-spread,never")
        asked = [start(environment, *at, "apply", plan, *words) for plan in plans]
        answers = [
            (*process.communicate(timeout=PATIENCE_SECONDS), process.returncode)
            for process in asked
        ]
        assert sorted(code for _, _, code in answers) == [0, 3], answers
        (run,) = (json.loads(out)["run"] for out, _, code in answers if code == 0)
        (err,) = (err for _, err, code in answers if code == 3)
        assert f"Run {run} is in progress" in err
        cancel = start(environment, *at, "runs", "cancel", run, "--yes")
        out, err = cancel.communicate(timeout=PATIENCE_SECONDS)
        assert cancel.returncode == 0, err
    finally:
        simulator.stop()


def two_plans(document: dict[str, list[dict[str, list[int]]]], folder: Path) -> list[str]:
    """Return two plan files that move the last replica of one partition each."""
    brokers = {broker["id"]: broker for broker in document["brokers"]}
    paths = []
    for partition in document["partitions"][:2]:
        *kept, last = partition["replicas"]
        others = set(brokers) - {*kept, last}
        target = {
            "topic": partition["topic"],
            "partition": partition["partition"],
            "replicas": [*kept, min(others)],
        }
        path = folder / f"{len(paths)}.json"
        path.write_text(json.dumps({"version": 1, "partitions": [target]}))
        paths.append(os.fspath(path))
    return paths


# -- a password that the client properties leave out -----------------------------------------------


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Words of a command on a cluster that nobody runs, by a key whose password is in no file."""
    properties = properties_with_key(tmp_path_factory.mktemp("key"))
    return ("-b", "127.0.0.1:1", "--command-config", str(properties))


@pytest.mark.parametrize(
    ("tried", "code", "ends"),
    [
        (("wrong", PASSWORD), ExitCode.UNREACHABLE, "Nothing listens"),
        (("wrong", "worse", "worst"), ExitCode.USAGE, "ssl.key.password"),
        (("\x03",), 130, "stopped"),
    ],
)
def test_password_is_prompted_for_up_to_three_times_at_a_terminal(
    environment: dict[str, str],
    encrypted: tuple[str, ...],
    tried: tuple[str, ...],
    code: int,
    ends: str,
) -> None:
    with Terminal([TRIMTAB, *encrypted, "show"], environment=environment) as terminal:
        for number, password in enumerate(tried, 1):
            prompts = terminal.wait_for(lambda text, n=number: text.count("Password of") == n)
            assert "client.pem" in prompts
            terminal.send(password if password == "\x03" else f"{password}\r")
        text = terminal.wait_for(ends)
        assert terminal.wait_for_exit() == code
        assert not any(password in text for password in ("worse", PASSWORD))


def test_password_is_not_prompted_for_without_a_terminal(
    environment: dict[str, str], encrypted: tuple[str, ...]
) -> None:
    command = start(environment, *encrypted, "show")
    out, err = command.communicate(timeout=PATIENCE_SECONDS)
    assert (command.returncode, out) == (ExitCode.USAGE, "")
    assert "ssl.key.password" in err
