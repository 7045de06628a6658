"""Processes that are made to end take what they started with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from waiting import eventually

from core.daemons.process import Process, spawn

DEAF = "trap '' TERM; sleep 600 & echo $! > child; wait; wait"


INTERRUPTED = """
import signal, sys, threading
from core.daemons.process import set_on_signals
event = threading.Event()
set_on_signals(event, [signal.SIGTERM])
with event._cond:
    signal.raise_signal(signal.SIGTERM)
sys.exit(not event.wait(60))
"""


def test_a_signal_that_comes_while_its_event_is_being_set_is_heeded() -> None:
    """As the second of two does: whoever asks twice must not have it hang."""
    command = [sys.executable, "-P", "-c", INTERRUPTED]
    assert subprocess.run(command, timeout=120, check=False).returncode == 0


def test_what_does_not_end_when_asked_ends_with_what_it_started(tmp_path: Path) -> None:
    """A pipeline in the middle of a batch has a JVM, which would go on writing."""
    child = tmp_path / "child"
    deaf = spawn(["sh", "-c", f"cd {tmp_path}; {DEAF}"], output=tmp_path / "log")
    eventually(lambda: child.exists() and child.read_text().strip().isdigit())
    started = Process.of(int(child.read_text()))
    deaf.stop(0.1)
    assert not deaf.alive
    eventually(lambda: not started.alive)
