"""A probe as a process of its own: what starting one waits for, and what it says in vain."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from waiting import eventually

from core import files, paths
from core.cluster.connect import Address
from core.daemons.lease import hold_lease, lease_file
from core.daemons.process import Process, spawn
from core.errors import AccessDeniedError, TrimtabError
from core.load import load_paths as layout
from core.watch.client_health import daemon as background

NOWHERE = Address("127.0.0.1:1")
ENDED = Process(2**30, "gone")


class Beat:
    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def left() -> Path:
    """What a probe reported last that had no time to take its report away."""
    report = layout.clients(paths.load_root(), "c")
    files.write_text(report, "{}")
    return report


def test_probe_that_ends_at_its_start_reports_why(tmp_path: Path) -> None:
    beat = Beat()
    ended = background.Probe("c", tmp_path, beat, ENDED)  # type: ignore[arg-type]
    with pytest.raises(TrimtabError, match="ended at once"):
        ended.wait()
    background.write_trouble(tmp_path, "c", AccessDeniedError("This user may not."))
    with pytest.raises(TrimtabError, match="This user may not"):
        ended.wait()
    assert beat.closed


def test_a_probe_that_runs_already_is_not_waited_for(tmp_path: Path) -> None:
    beat = Beat()
    probe = background.Probe("c", tmp_path, beat, None)  # type: ignore[arg-type]
    probe.wait()
    assert not beat.closed
    probe.close()
    assert beat.closed


def test_report_left_by_a_killed_probe_is_ignored_by_the_next_start(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*words: object, **more: object) -> Process:
        background.write_trouble(paths.load_root(), "c", AccessDeniedError("This user may not."))
        return ENDED

    monkeypatch.setattr(background, "start_daemon", start)
    with pytest.raises(TrimtabError, match="This user may not"):
        background.start_probe(NOWHERE, "c").wait()


def test_second_start_keeps_the_report_of_a_running_probe(left: Path) -> None:
    with hold_lease(lease_file(paths.load_root(), "c", background.ROLE)) as ours:
        assert ours
        background.start_probe(NOWHERE, "c").close()
    assert left.exists()


def test_probe_that_hangs_at_its_start_is_terminated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "START_SECONDS", 0.0)
    idle = [sys.executable, "-c", "import signal; signal.pause()"]
    hangs = spawn(idle, output=tmp_path / "log")
    beat = Beat()
    try:
        with pytest.raises(TrimtabError, match="has not begun within 0 s"):
            background.Probe("c", tmp_path, beat, hangs).wait()  # type: ignore[arg-type]
        assert beat.closed
        eventually(lambda: not hangs.alive)
    finally:
        hangs.stop()
