"""Following a run whose process writes on meanwhile: how it ended is told as it was."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from run_help import move

from core import paths
from core.cli.main import run as command_line
from core.cli.runs import follow_progress as following
from core.cluster.connect import Address
from core.daemons.process import Process
from core.errors import ExitCode, TrimtabError
from core.plan.plan import Plan
from core.run import run_process as spawning
from core.run.journal.journal import Journal
from core.run.journal.records import Kind
from core.run.options import RunOptions, create_journal
from core.run.reporting import documents as events
from core.run.reporting.alerts import Notice
from core.run.reporting.documents import follow
from core.run.reporting.runs import read_run
from core.run.reporting.views import RunStatus
from core.run.run_process import take_lock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CLUSTER = "cluster"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the journal of a run that this very process carries out."""
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    plan = Plan(CLUSTER, (move("t", 0, (1,), (2,)),))
    asked = (Address("b:9092"), CLUSTER, plan, RunOptions(1), None)
    with create_journal(*asked, at=NOON) as journal:
        ours = Process.this()
        journal.write(NOON, Kind.STARTED, {"pid": ours.pid, "pid_started": ours.started})
        return journal.path


def end(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.write(NOON, Kind.ENDED, {"outcome": "done", "why": ""})


def test_run_that_ends_and_exits_while_it_is_read_is_not_reported_as_died(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends_now(process: Process) -> bool:
        end(path)
        return False

    monkeypatch.setattr(Process, "alive", property(ends_now))
    assert read_run(CLUSTER, path.stem).state is RunStatus.DONE


def test_run_that_ends_between_two_polls_is_followed_to_its_actual_outcome(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever look it is: the last event and the last view tell the same end."""
    opened: list[Path] = []
    real = Journal.open

    def open_second(path: Path) -> Any:
        opened.append(path)
        if len(opened) == 2:
            with real(path) as journal:
                journal.write(NOON, Kind.ENDED, {"outcome": "done", "why": ""})
        return real(path)

    monkeypatch.setattr(Journal, "open", open_second)
    *_, (view, events) = follow(CLUSTER, path.stem)
    assert view.state is RunStatus.DONE
    assert (events[-1]["event"], events[-1]["outcome"]) == ("ended", "done")


@pytest.mark.parametrize(
    ("becomes", "code"),
    [
        ("cancelled", ExitCode.DONE),
        ("done", ExitCode.DONE),
        ("incomplete", ExitCode.INCOMPLETE),
        ("failed", ExitCode.FAILED),
        ("died", ExitCode.INCOMPLETE),
        ("let go of", following.DETACHED),
    ],
)
def test_cancel_exits_with_the_code_of_the_outcome(
    path: Path, monkeypatch: pytest.MonkeyPatch, becomes: str, code: int
) -> None:
    def answer(journal: Journal, *_: Any) -> int:
        match becomes:
            case "died":
                monkeypatch.setattr(Process, "alive", property(lambda _: False))
            case "let go of":
                monkeypatch.setattr(following, "follow", interrupted)
            case _:
                journal.write(NOON, Kind.ENDED, {"outcome": becomes, "why": ""})
        return 1

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "ask", answer)
    argv = ["runs", "cancel", path.stem, "--yes", "--json"]
    assert command_line(lambda context: None, argv) == code


def test_closed_event_pipe_detaches_from_a_run_which_continues(path: Path) -> None:
    """As `runs attach … --json | head -1`: 0 would tell a script that the run is done."""
    code = (
        "import os, sys; from core.cli.runs.follow_progress import follow_run;"
        "read, write = os.pipe(); os.dup2(write, 1); os.close(write); os.close(read);"
        "sys.exit(follow_run(sys.argv[1], sys.argv[2], as_json=True))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, CLUSTER, path.stem], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 128 + signal.SIGPIPE
    assert done.stderr.splitlines() == [
        f"Detached; the run continues. Follow it again: trimtab runs attach {path.stem}",
        f"Cancel it: trimtab runs cancel {path.stem}",
    ]
    assert read_run(CLUSTER, path.stem).state.ended is False


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_signal_that_ends_following_a_run_restores_the_cursor(
    path: Path, number: signal.Signals
) -> None:
    code = (
        "import sys; from core.cli.runs.follow_progress import follow_run;"
        "follow_run(*sys.argv[1:], as_json=False)"
    )
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code, CLUSTER, path.stem], stderr=theirs) as child:
        os.close(theirs)
        seen = b""
        try:
            while b"\x1b[?25l" not in seen:
                seen += os.read(ours, 4096)
            child.send_signal(number)
            assert child.wait(30) == 128 + number
        finally:
            child.kill()
    after = os.read(ours, 4096)
    os.close(ours)
    assert after.rindex(b"\x1b[?25h") > after.rfind(b"\x1b[?25l")
    assert b"Traceback" not in after
    assert read_run(CLUSTER, path.stem).state.ended is False


def test_process_that_does_not_start_in_time_is_requested_to_cancel(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be slow, not dead: what is said of it (nothing was changed) must stay true."""
    with Journal.open(path) as journal:
        (created, _) = journal.records()
    slow = path.with_name("0101-120001.run")
    with Journal.create(slow) as journal:
        journal.write(NOON, created.kind, dict(created.payload) | {"run": slow.stem})
    (log := spawning.log_path(slow)).parent.mkdir(parents=True)
    log.touch()
    lock = take_lock(CLUSTER)
    monkeypatch.setattr(spawning, "START_SECONDS", 0.1)
    try:
        with pytest.raises(TrimtabError, match="did not come up"):
            spawning.await_start(slow, CLUSTER)
    finally:
        os.close(lock)
    with Journal.open(slow) as journal:
        assert [request.kind for request in journal.requests()] == ["cancel"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("config", "bell", "desktop"),
    [("", True, True), ("[notify]\nbell = false\n", False, True),
     ("[notify]\ndesktop = false\n", True, False)],
)  # fmt: skip
def test_notice_is_sent_to_a_terminal_by_bell_and_desktop_as_configured(
    path: Path, monkeypatch: pytest.MonkeyPatch, config: str, bell: bool, desktop: bool
) -> None:
    paths.config_file().parent.mkdir(parents=True)
    paths.config_file().write_text(config)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("TMUX", raising=False)
    terminal = Terminal()
    following.notify_terminal(Notice("trimtab: prod-eu", "run 1 done"), terminal)
    assert terminal.getvalue().startswith("\a") is bell
    assert ("\x1b]9;trimtab: prod-eu: run 1 done\x07" in terminal.getvalue()) is desktop
    following.notify_terminal(None, terminal)
    elsewhere = io.StringIO()
    following.notify_terminal(Notice("trimtab: prod-eu", "run 1 done"), elsewhere)
    assert not elsewhere.getvalue()


def test_end_of_a_followed_run_notifies_the_terminal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices: list[Notice | None] = []
    monkeypatch.setattr(following, "notify_terminal", lambda notice, stream: notices.append(notice))
    seen: list[int] = []

    def sleep(seconds: float) -> None:
        seen.append(1)
        end(path)

    monkeypatch.setattr(events.time, "sleep", sleep)
    assert following.follow_run(CLUSTER, path.stem, as_json=False) == ExitCode.DONE
    assert next(notice.text for notice in notices if notice).startswith(f"run {path.stem} done")


@pytest.mark.parametrize(
    ("followed", "read", "left", "expected_pause"),
    [
        (0.0, 0.002, 60.0, 0.2),  # a short run is followed closely
        (25.0, 0.005, 60.0, 0.5),
        (300.0, 0.005, 600.0, 3.0),
        (300.0, 0.005, None, 3.0),
        (300.0, 0.005, 20.0, 1.0),  # its end is near
        (300.0, 0.005, 0.0, 0.2),
        (300.0, 0.2, 0.0, 4.0),  # one of thousands of moves takes long to read
        (3600.0, 2.0, 600.0, 10.0),
    ],
)
def test_pause_between_journal_reads_depends_on_run_age_read_cost_and_time_left(
    followed: float, read: float, left: float | None, expected_pause: float
) -> None:
    assert events.pause(followed, read, left) == pytest.approx(expected_pause)
