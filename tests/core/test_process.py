"""Processes that are made to end take what they started with them."""

from __future__ import annotations

from pathlib import Path

from waiting import eventually

from core.process import Process, spawn

DEAF = "trap '' TERM; sleep 600 & echo $! > child; wait; wait"


def test_what_does_not_end_when_asked_ends_with_what_it_started(tmp_path: Path) -> None:
    """A pipeline in the middle of a batch has a JVM, which would go on writing."""
    child = tmp_path / "child"
    deaf = spawn(["sh", "-c", f"cd {tmp_path}; {DEAF}"], output=tmp_path / "log")
    eventually(lambda: child.exists() and child.read_text().strip().isdigit())
    started = Process.of(int(child.read_text()))
    assert started is not None
    deaf.stop(0.1)
    assert not deaf.alive
    eventually(lambda: not started.alive)
