"""Who is told that a run has ended or gets nowhere, and that telling never holds it up."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from journal_records import LIMIT, records, samples
from run_help import MB, Faulty, Run, Start, answering, cluster, submitted
from waiting import eventually

from core.clock import Clock
from core.cluster.connect import Address, Connection
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import ExitCode, UsageError
from core.plan.copies import Side
from core.run import service
from core.run.journal.journal import Journal
from core.run.journal.journal_writer import RunRecorder
from core.run.journal.records import Kind
from core.run.reporting import notifier as notify
from core.run.reporting.notifier import STALLED_SECONDS, Notifier, idle, post, run_command
from core.run.steps import Poll
from core.settings import NotifyBy, Settings, load_settings

pytestmark = pytest.mark.long

DOCUMENT = {"event": "ended", "text": "trimtab: run 1 on prod: done"}


@dataclass
class Hook:
    """A webhook on this machine: what was posted to it, and how it answers."""

    url: str = ""
    answer: int = 200
    posted: list[dict[str, Any]] = field(default_factory=list)
    hang: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    hook.hang.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.hang.wait(30)
            hook.posted.append(json.loads(body))
            self.send_response(hook.answer)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    hook.url = f"http://127.0.0.1:{server.server_port}/services/secret"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield hook
    hook.hang.set()
    server.shutdown()
    server.server_close()


def writes(path: Path) -> tuple[str, ...]:
    return (sys.executable, "-c", f"import sys; open({str(path)!r}, 'a').write(sys.stdin.read())")


# -- the two ways ----------------------------------------------------------------------------------


def test_a_command_gets_the_document_on_its_stdin(tmp_path: Path) -> None:
    assert run_command(writes(tmp_path / "told"), DOCUMENT) == ""
    assert json.loads((tmp_path / "told").read_text()) == DOCUMENT


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("no-such-command",), "no-such-command: No such file"),
        ((sys.executable, "-c", "import sys; sys.exit('no\\nroom')"), "exit code 1: no room"),
        ((sys.executable, "-c", "pass"), ""),
    ],
)
def test_failed_command_is_reported_in_one_line(argv: tuple[str, ...], says: str) -> None:
    why = run_command(argv, {"text": "x" * 200_000})
    assert says in why
    assert "\n" not in why
    assert bool(why) == bool(says)


def test_hanging_command_is_ended_after_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "COMMAND_SECONDS", 0.2)
    argv = (sys.executable, "-c", "import time; time.sleep(600)")
    assert "not done in" in run_command(argv, DOCUMENT)


def test_command_is_not_run_through_a_shell(tmp_path: Path) -> None:
    assert run_command(("echo", f"$(touch {tmp_path / 'touched'})", ">", "x"), DOCUMENT) == ""
    assert not list(tmp_path.iterdir())


def test_failure_of_a_command_is_reported_without_its_escape_sequences() -> None:
    argv = (sys.executable, "-c", r"import sys; sys.exit('\x1b[2Jgone')")
    assert "\x1b" not in run_command(argv, DOCUMENT)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1/services/secret x", "http://[::1/secret", "secret", "http://a:b/secret"],
)
def test_invalid_webhook_url_is_reported_in_one_line_without_the_url(url: str) -> None:
    why = post(url, DOCUMENT)
    assert "its URL is not a valid one" in why
    assert "secret" not in why


def test_webhook_answer_that_is_not_http_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"what?\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        why = post(f"http://127.0.0.1:{server.getsockname()[1]}/secret", DOCUMENT)
        thread.join(10)
    assert why == "webhook at 127.0.0.1: its answer is not HTTP (BadStatusLine)"


def test_a_webhook_gets_the_document(hook: Hook) -> None:
    assert post(hook.url, DOCUMENT) == ""
    assert hook.posted == [DOCUMENT]


def test_failed_webhook_is_reported_in_one_line_without_its_path(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.answer = 500
    assert post(hook.url, DOCUMENT) == "webhook at 127.0.0.1: HTTP 500"
    hook.hang.clear()
    monkeypatch.setattr(notify, "WEBHOOK_SECONDS", 0.2)
    why = post(hook.url, DOCUMENT)
    assert "timed out" in why
    assert "secret" not in why
    assert "webhook at 127.0.0.1: " in post("http://127.0.0.1:1/secret", DOCUMENT)


# -- of a run --------------------------------------------------------------------------------------


@pytest.fixture
def client() -> SimulatedCluster:
    return cluster({"t": [(1, 2)]})


def notifications(run: Run) -> list[tuple[str, str, str]]:
    return [
        (record.payload["event"], record.payload["by"], record.payload["why"])
        for record in run.journal.records()
        if record.kind is Kind.NOTIFIED
    ]


def probed(**ways: Any) -> Callable[[], Settings]:
    return lambda: Settings(notify=NotifyBy(**ways))


def serve(run: Run, monkeypatch: pytest.MonkeyPatch, settings: Callable[[], Settings]) -> None:
    def connect(address: Address) -> Connection:
        through: Any = Faulty(run.client)
        return Connection(through, run.client.clock, address)

    monkeypatch.setattr(service, "connect", connect)
    monkeypatch.setattr(SimulatedCluster, "close", lambda self: None)
    monkeypatch.setattr(service, "load_settings", settings)
    assert service.serve(run.path) == ExitCode.DONE


def test_end_of_a_run_is_notified_by_its_own_process(
    client: SimulatedCluster,
    start: Start,
    hook: Hook,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = start(client, {("t", 0): (1, 3)}, cluster_name="prod-eu")
    serve(run, monkeypatch, probed(command=writes(tmp_path / "told"), webhook=hook.url))
    (document,) = hook.posted
    assert json.loads((tmp_path / "told").read_text()) == document
    assert (document["event"], document["outcome"], document["done"]) == ("ended", "done", 1)
    assert document["text"].startswith(f"trimtab: run {run.path.stem} on prod-eu: done (1 of 1")
    assert notifications(run) == [("ended", "command", ""), ("ended", "webhook", "")]
    assert "told by webhook (ended)" in [event.text for event in run.view().events]


def test_failed_notification_is_one_line_in_the_journal(
    client: SimulatedCluster, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(client, {("t", 0): (1, 3)})
    serve(run, monkeypatch, probed(command=("no-such-command",)))
    ((event, by, why),) = notifications(run)
    assert (event, by) == ("ended", "command")
    assert "No such file" in why
    assert run.view().state.value == "done"


def test_run_that_died_of_an_error_is_notified(
    client: SimulatedCluster, start: Start, hook: Hook
) -> None:
    run = start(client, {("t", 0): (1, 3)})
    run.journal.write(client.now, Kind.CRASHED, {"why": "its process stopped"})
    Notifier(NotifyBy(webhook=hook.url)).end(run.journal)
    assert [(p["event"], p["why"]) for p in hook.posted] == [("died", "its process stopped")]


class Watched:
    """A run whose notifier is called as its process would, with what the hook got."""

    def __init__(self, run: Run, hook: Hook) -> None:
        self.run, self.notifier = run, Notifier(NotifyBy(webhook=hook.url))
        self.recorder = run.runner._recorder

    def advance(self, seconds: float) -> None:
        until = self.run.client.now + timedelta(seconds=seconds)
        while self.run.client.now < until:
            self.run.runner.advance()
            self.notifier.look(self.recorder)


def test_run_stalled_by_a_broker_that_is_down_is_notified_once(
    client: SimulatedCluster, start: Start, hook: Hook
) -> None:
    run = start(client, {("t", 0): (1, 3)}, rate=1_000_000)
    watched = Watched(run, hook)
    run.until(lambda step: isinstance(step, Poll))
    watched.advance(2)
    client.stop_broker(3)
    watched.advance(50)
    assert not hook.posted
    watched.advance(120)
    eventually(lambda: watched.notifier.look(watched.recorder) or bool(notifications(run)))
    client.start_broker(3)
    watched.advance(5)
    assert [(p["event"], p["outcome"]) for p in hook.posted] == [("stalled", None)]
    assert "broker 3 is down" in hook.posted[0]["why"]
    assert notifications(run) == [("stalled", "webhook", "")]


def test_run_whose_retention_cannot_be_lowered_is_notified(
    client: SimulatedCluster, start: Start, hook: Hook
) -> None:
    faulty = Faulty(client)
    faulty.replaced["alter_configs"] = answering("REQUEST_TIMED_OUT")
    watched = Watched(start(client, {("t", 0): (1, 3)}, through=faulty, retention_ms=60_000), hook)
    watched.advance(200)
    eventually(lambda: bool(hook.posted))
    assert "the retention of t is not lowered yet" in hook.posted[0]["why"]


def test_paused_run_or_run_scheduled_for_later_is_not_notified_as_stalled(
    client: SimulatedCluster, start: Start, hook: Hook
) -> None:
    later = client.now + timedelta(seconds=200)
    run = start(client, {("t", 0): (1, 3)}, start_at=later)
    watched = Watched(run, hook)
    watched.advance(150)
    assert run.state.waiting
    run.journal.ask(client.now, "pause", {"floor": True, "who": "ann", "host": "here"})
    watched.advance(200)
    assert not hook.posted
    assert not notifications(run)


@pytest.mark.parametrize(("other_share", "stalls"), [(LIMIT, False), (LIMIT // 10, True)])
def test_move_waiting_its_turn_for_the_quota_is_not_notified_as_stalled(
    tmp_path: Path, other_share: int, stalls: bool
) -> None:
    """The second move gets nothing for 70 seconds; the first has their limit, or a tenth of it."""
    clock = SimpleNamespace(now=lambda: sample.at)
    with Journal.create(tmp_path / "a.run") as journal:
        for record in records((1, 2), (5, 5)):
            journal.write(record.at, record.kind, record.payload)
        recorder = RunRecorder(journal, cast(Clock, clock))
        notifier = Notifier(NotifyBy(webhook="http://h/x"))
        sent: list[Mapping[str, Any]] = []
        notifier.send = sent.append  # type: ignore[method-assign]
        for sample in samples((1, 2), lambda s: s * other_share, lambda s: 0, seconds=70):
            recorder.sample(dict(sample.payload))
            notifier.look(recorder)
    assert [document["event"] for document in sent] == (["stalled"] if stalls else [])


@pytest.mark.parametrize(
    ("unheld", "held_back", "stalls"),
    [(None, False, True), (100, False, True), (10, False, False), (None, True, False)],
)
def test_held_move_counts_as_idle_only_from_when_it_resumes(
    client: SimulatedCluster, start: Start, unheld: float | None, held_back: bool, stalls: bool
) -> None:
    """Seconds since it went on; no byte has come for two minutes."""
    run = start(client, {("t", 0): (3, 2)})
    run.until(submitted)
    history, now = run.state, client.now
    if unheld is not None:
        history.unheld_at = now - timedelta(seconds=unheld)
    if held_back:
        history.held_back = {(3, Side.FOLLOWER): MB}
    sample = {"moves": [[0, 2 * MB, 1, [MB], now.timestamp() - 120]]}
    assert bool(idle(history, sample, now, tuple)) is stalls


def test_slow_webhook_does_not_delay_the_run(
    client: SimulatedCluster, start: Start, hook: Hook
) -> None:
    run = start(client, {("t", 0): (1, 3)})
    recorder = RunRecorder(run.journal, client.clock)
    notifier = Notifier(NotifyBy(webhook=hook.url))
    recorder.note_waiting("broker 3 is down")
    hook.hang.clear()
    for _ in range(3):
        notifier.look(recorder)
        client.clock.sleep(STALLED_SECONDS)
    assert not notifications(run), "it goes on, and nothing is known yet"
    hook.hang.set()
    eventually(lambda: bool(hook.posted))
    eventually(lambda: notifier.look(recorder) or bool(notifications(run)))
    assert len(hook.posted) == 1


# -- config.toml -----------------------------------------------------------------------------------


def test_notify_command_and_webhook_are_set_in_config_toml(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[notify]\ncommand = ["page", "--low"]\nwebhook = "https://h/x"\n')
    notify_settings = load_settings(path).notify
    assert (notify_settings.command, notify_settings.webhook) == (("page", "--low"), "https://h/x")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('command = "page --low"', "notify.command must be a list"),
        ("command = [1]", "notify.command must be a list of texts"),
        ('webhook = "hooks/x"', "notify.webhook must be a URL"),
        ("webhook = 1", "notify.webhook must be a text"),
    ],
)
def test_invalid_notify_setting_in_config_toml_is_reported_by_name(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"[notify]\n{text}\n")
    with pytest.raises(UsageError, match=says):
        load_settings(path)


def test_unreadable_config_is_journalled_and_does_not_stop_the_run(
    client: SimulatedCluster, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(client, {("t", 0): (1, 3)})

    def broken() -> Any:
        raise UsageError("config.toml is not TOML.")

    serve(run, monkeypatch, broken)
    assert notifications(run) == [("start", "config.toml", "config.toml is not TOML.")]
