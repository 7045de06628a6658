"""The dashboard ends, whatever hangs, and gives the terminal back: in a real one.

Nothing here measures how long that takes: what hangs hangs for good.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from encrypted_key import properties_with_key
from installed import TRIMTAB
from terminal import Terminal

PATCHED = """
import sys, time
{patch}
from tui.__main__ import main
sys.argv = ["trimtab", "--from", {saved!r}]
main()
"""

Open = Callable[..., Terminal]


@pytest.fixture
def shown(environment: dict[str, str], saved: str) -> Open:
    """Open the dashboard on a document, with a patch that breaks something in it."""

    def open_(patch: str = "") -> Terminal:
        argv = [TRIMTAB, "--from", saved]
        if patch:
            code = PATCHED.format(patch=patch, saved=saved)
            argv = [sys.executable, "-P", "-c", code]
        return Terminal(argv, environment=environment)

    return open_


def tty_of(terminal: Terminal) -> int:
    """Open the program's own side of its terminal."""
    name = subprocess.run(
        ["ps", "-o", "tty=", "-p", str(terminal.pid)], capture_output=True, text=True, check=True
    ).stdout.strip()
    return os.open(f"/dev/{name}", os.O_RDWR | os.O_NOCTTY)


@pytest.mark.parametrize(
    "numbers",
    [
        (signal.SIGHUP, signal.SIGHUP),
        (signal.SIGTERM, signal.SIGHUP, signal.SIGTERM),
        (signal.SIGINT, signal.SIGTERM, signal.SIGINT),
    ],
)
def test_signals_in_any_order_end_the_dashboard_and_restore_the_terminal(
    shown: Open, numbers: tuple[signal.Signals, ...]
) -> None:
    with shown() as terminal:
        terminal.wait_for("leaders")
        for number in numbers:
            os.kill(terminal.pid, number)
        # The one that is heard first: not always the one that was sent first.
        assert terminal.wait_for_exit() in {128 + number for number in numbers}
        assert terminal.gave_back


def test_closed_terminal_ends_the_dashboard(shown: Open) -> None:
    with shown() as terminal:
        terminal.wait_for("leaders")
        terminal.close()
        assert terminal.wait_for_exit() == 128 + signal.SIGHUP


@pytest.mark.parametrize(
    ("how", "code"),
    [("\x1b", 130), ("\tq", 130), ("\x11", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
)
def test_key_or_signal_ends_the_dashboard_during_a_password_prompt(
    environment: dict[str, str], tmp_path: Path, how: str | signal.Signals, code: int
) -> None:
    words = ("-b", "127.0.0.1:1", "--command-config", str(properties_with_key(tmp_path)))
    with Terminal([TRIMTAB, *words], environment=environment) as terminal:
        terminal.wait_for("Password of")
        terminal.send("hus")
        terminal.wait_for("•••")
        if isinstance(how, str):
            terminal.send(how)
        else:
            os.kill(terminal.pid, how)
        assert terminal.wait_for_exit() == code
        assert terminal.gave_back


@pytest.mark.parametrize("key", ["q", "\x11"])
def test_key_quits_during_suspended_output_and_the_terminal_is_restored(
    shown: Open, key: str
) -> None:
    with shown() as terminal:
        terminal.wait_for("leaders")
        tty = tty_of(terminal)
        termios.tcflow(tty, termios.TCOOFF)
        os.close(tty)
        terminal.send("2132" + key)
        assert terminal.wait_for_exit() == 0
        assert terminal.gave_back


def test_terminal_resumed_after_suspended_output_shows_the_current_view(shown: Open) -> None:
    with shown() as terminal:
        terminal.wait_for("leaders")
        tty = tty_of(terminal)
        termios.tcflow(tty, termios.TCOOFF)
        terminal.send("2134" * 10)
        termios.tcflow(tty, termios.TCOON)
        os.close(tty)
        terminal.wait_for("4 Load")
        terminal.send("1")
        terminal.wait_for("leaders")


HANGING = {
    "a thread": """
from tui.app import TrimtabApp
def painted(self):
    self.run_in_background("work", lambda: time.sleep(3600), None)
TrimtabApp.painted = painted
""",
    "the event loop": """
from tui.app import TrimtabApp
TrimtabApp.action_refresh_now = lambda self: time.sleep(3600)
""",
    "what lets nothing through": """
from tui.app import TrimtabApp
def hang(self):
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            pass
TrimtabApp.action_refresh_now = hang
""",
}


@pytest.mark.parametrize("patch", HANGING.values(), ids=HANGING)
def test_hanging_thread_or_event_loop_does_not_prevent_exit_on_sigterm(
    shown: Open, patch: str
) -> None:
    with shown(patch) as terminal:
        terminal.wait_for("leaders")
        terminal.send("r")
        terminal.settle()
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.wait_for_exit() == 128 + signal.SIGTERM
        assert terminal.gave_back


def test_hanging_thread_does_not_delay_quitting_by_key(shown: Open) -> None:
    with shown(HANGING["a thread"]) as terminal:
        terminal.wait_for("leaders")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0


CONTINUED = """
import os, signal
from tui import shutdown
end = shutdown.end_process
def clean_up_first(code):
    os.kill(os.getpid(), signal.SIGCONT)  # as the kernel sends when the terminal goes away
    end(code)
shutdown.end_process = clean_up_first
"""


def test_sigcont_of_the_terminal_during_shutdown_does_not_disturb_the_exit(shown: Open) -> None:
    with shown(CONTINUED) as terminal:
        terminal.wait_for("leaders")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0


STALLED = """
from core.cluster.state import TopicPartition
from core.plan.plan import Move, Plan
from tui.global_actions import leave as leaving
from tui.app import TrimtabApp
leaving.save_plan = lambda plan: time.sleep(3600)
def edit(self):
    move = Move(TopicPartition("t", 0), (1, 2), (1, 3))
    self.session.edit(Plan.of([move], cluster_id="saved"))
TrimtabApp.action_refresh_now = edit
"""


def test_plan_that_could_not_be_written_to_disk_is_reported_as_not_kept(shown: Open) -> None:
    with shown(STALLED) as terminal:
        terminal.wait_for("leaders")
        terminal.send("rq")
        terminal.wait_for("Leave, keep it")
        terminal.send("\x1b[C\r")
        terminal.wait_for("is being kept")
        terminal.send("q")
        assert terminal.wait_for_exit() == 1
        assert "The plan of 1 move is not kept: the disk did not answer" in terminal.text()


@pytest.mark.parametrize("module", ["tui.feed.feed", "textual.app", "textual.drivers.linux_driver"])
def test_sighup_during_startup_ends_the_dashboard(shown: Open, module: str) -> None:
    patch = f"""
import os, signal
class Signal:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(3600)
sys.meta_path.insert(0, Signal())
"""
    with shown(patch) as terminal:
        assert terminal.wait_for_exit() == 128 + signal.SIGHUP
