"""What serves a cluster's readers is kept going, and ends with what it started."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from waiting import eventually

from core import files, paths
from core.cluster.connect import Address
from core.daemons import supervisor as serving
from core.daemons.heartbeat import SILENT_SECONDS, Heartbeat, Readers, readers_folder
from core.daemons.process import LOG_BYTES, Process, spawn
from core.errors import TrimtabError
from core.load import daemon as background
from core.load import daemon as collecting
from core.load import load_paths as layout
from core.load.collector.collector import PollResult
from core.load.snapshot.format import Counts
from core.load.snapshot.manifest import forget_cluster
from core.pipeline import service
from core.pipeline.publish import Published
from core.watch.timeline.daemon import start_recording


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.daemons.heartbeat.BEAT_SECONDS", 0.01)


def beating() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "heartbeat"}


def test_reader_heartbeat_swept_during_machine_sleep_is_written_anew(tmp_path: Path) -> None:
    folder = readers_folder(tmp_path, "c")
    beat = Heartbeat(tmp_path, "c")
    (path,) = folder.iterdir()
    path.unlink()  # as `Readers` does with one that was silent for minutes
    eventually(path.exists)
    assert Readers(tmp_path, "c").are_present()
    beat.close()
    assert not Readers(tmp_path, "c").are_present()


def test_heartbeat_silent_for_minutes_is_removed(tmp_path: Path) -> None:
    folder = readers_folder(tmp_path, "c")
    folder.mkdir(parents=True)
    dead = folder / "1-dead.beat"
    dead.touch()
    os.utime(dead, (0, dead.stat().st_mtime - 11 * SILENT_SECONDS))
    assert not Readers(tmp_path, "c").are_present()
    assert not dead.exists()


def test_heartbeat_stops_when_the_readers_folder_is_deleted(tmp_path: Path) -> None:
    before = beating()
    looked: list[int] = []
    Heartbeat(tmp_path, "c", lambda: looked.append(1))
    eventually(lambda: len(looked) > 1)
    forget_cluster(tmp_path, "c")
    eventually(lambda: beating() <= before)
    assert not readers_folder(tmp_path, "c").exists()


def test_short_lived_process_is_restarted_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, runs = 1000.0, False
    monkeypatch.setattr("core.daemons.supervisor.time.monotonic", lambda: now)
    started: list[float] = []

    def start() -> Process | None:
        if runs:
            return None
        started.append(now)
        return Process(os.getpid(), "ended")

    kept = serving.Restarter("collector", start)

    def starts_in(seconds: int) -> list[float]:
        nonlocal now
        began = now
        started.clear()
        while now < began + seconds:
            kept.check()
            now += 5
        return [at - began for at in started]

    assert starts_in(600) == [0, 60, 180, 420]
    starts_in(2 * 3600)
    assert len(starts_in(24 * 3600)) == 24
    runs = True
    assert starts_in(2 * 3600) == []
    runs = False
    assert starts_in(300)[0] <= serving.CHECK_SECONDS


def test_process_without_a_lease_yet_is_not_started_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CHECK_SECONDS", 0.0)
    started: list[Process] = []

    def start() -> Process:
        started.append(Process.this())
        return started[-1]

    kept = serving.Restarter("collector", start)
    kept.check()
    kept.check()
    assert kept.started == Process.this()
    assert len(started) == 1


def test_process_that_temporarily_cannot_be_started_is_retried(tmp_path: Path) -> None:
    before = beating()
    tried: list[int] = []

    def tend() -> None:
        tried.append(1)
        if len(tried) > 1:
            raise OSError(12, "Cannot allocate memory")

    beat = Heartbeat(tmp_path, "c", tend)
    eventually(lambda: len(tried) > 3)
    beat.close()
    eventually(lambda: beating() <= before)


def served() -> tuple[serving.Supervisor, serving.Supervisor]:
    """Read a cluster's load and its timeline."""
    address = Address("127.0.0.1:1")
    reader = background.start_load(address, "c")
    recording = start_recording(address, "c")
    assert reader is not None
    assert recording is not None
    return reader, recording


def test_dead_processes_are_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CHECK_SECONDS", 0.0)
    before = beating()
    spawned: list[str] = []

    def spawn(command: list[str], output: Path, stdin: int | None) -> Process:
        spawned.append(command[3])
        return Process(os.getpid(), "killed for its memory")

    monkeypatch.setattr(serving, "spawn", spawn)
    files.write_text(layout.trouble(paths.load_root(), "c"), "Of an earlier one.\n")
    reader, recording = served()
    assert reader.trouble() is None
    files.write_text(layout.trouble(paths.load_root(), "c"), "Java is missing.\n")
    modules = ("core.load.daemon", "core.pipeline.service", "core.watch.timeline.daemon")
    eventually(lambda: all(spawned.count(module) > 2 for module in modules))
    assert reader.trouble() == "Java is missing."  # said once, not at each start anew
    reader.close()
    recording.close()
    eventually(lambda: beating() <= before)
    spawned.clear()
    assert not Readers(paths.load_root(), "c").are_present()
    assert not spawned


def test_reason_a_process_cannot_be_started_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CHECK_SECONDS", 0.0)
    full: list[OSError] = []

    def spawn(command: list[str], output: Path, stdin: int | None) -> Process:
        if full:
            raise full[0]
        return Process(os.getpid(), "killed for its memory")

    monkeypatch.setattr(serving, "spawn", spawn)
    reader, recording = served()
    full.append(OSError(28, "No space left on device"))
    why = "cannot be started: No space left on device."
    eventually(lambda: reader.trouble() == f"The collector {why}")
    eventually(lambda: recording.trouble() == f"The recorder {why}")
    full.clear()
    eventually(lambda: reader.trouble() is None and recording.trouble() is None)
    reader.close()
    recording.close()


def test_pipeline_that_resumes_publishing_clears_its_trouble(tmp_path: Path) -> None:
    files.write_text(layout.trouble(tmp_path, "c"), "No space left on device.\n")
    note = service.BatchLog(layout.trouble(tmp_path, "c"))
    note([Published("q-1", "c", Counts(), None, None)])
    assert background.pipeline_trouble(tmp_path, "c") is None


# -- what they write into their logs ---------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("core.daemons.service.time.monotonic", lambda: now[0])
    return now


def test_collector_logs_changed_row_counts_and_errors_else_one_line_an_hour(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    note = collecting.PollLog()
    away = TrimtabError("No broker answers.")

    def lines(event: PollResult | TrimtabError, count: int = 3) -> int:
        before = len(caplog.records)
        for _ in range(count):
            note(event)
            clock[0] += 10
        return len(caplog.records) - before

    def poll(number: int, rows: int, with_rates: int) -> PollResult:
        return PollResult(number, datetime(2026, 3, 1, tzinfo=UTC), rows, with_rates, None)

    assert lines(poll(1, 120, 118), 360) == 1
    assert lines(poll(2, 120, 117), 360) == 1
    assert lines(poll(3, 126, 118)) == 1
    assert lines(away) == 1
    assert lines(poll(4, 126, 118)) == 1


def test_pipeline_logs_changes_and_otherwise_one_line_an_hour(
    tmp_path: Path, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    note = service.BatchLog(layout.trouble(tmp_path, "c"))

    def batches(count: int, **what: Mapping[str, int]) -> int:
        before = len(caplog.records)
        for n in range(count):
            note([Published(f"q-{n}", "c", Counts(read=n, **what), None, None)])
            clock[0] += 15
        return len(caplog.records) - before

    assert batches(240) == 1
    assert batches(10) == 1
    assert batches(3, quarantined={"future": 7}) == 1
    assert batches(3) == 1


@pytest.mark.parametrize(("size", "moved"), [(LOG_BYTES + 1, True), (LOG_BYTES, False)])
def test_log_above_the_size_limit_is_rotated_at_start(
    tmp_path: Path, size: int, moved: bool
) -> None:
    log, old = tmp_path / "role-c.log", tmp_path / "role-c.log.1"
    log.write_bytes(b"-" * size)
    old.write_text("of long ago")
    process = spawn([sys.executable, "-c", "print('begun')"], output=log)
    assert process.wait(30)
    assert log.read_bytes() == (b"" if moved else b"-" * size) + b"begun\n"
    assert (old.stat().st_size == size) is moved


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


def test_signal_arriving_while_its_event_is_being_set_does_not_hang() -> None:
    """As the second of two does: whoever asks twice must not have it hang."""
    command = [sys.executable, "-P", "-c", INTERRUPTED]
    assert subprocess.run(command, timeout=120, check=False).returncode == 0


def test_process_that_ignores_the_stop_signal_is_killed_with_its_children(tmp_path: Path) -> None:
    """A pipeline in the middle of a batch has a JVM, which would go on writing."""
    child = tmp_path / "child"
    deaf = spawn(["sh", "-c", f"cd {tmp_path}; {DEAF}"], output=tmp_path / "log")
    eventually(lambda: child.exists() and child.read_text().strip().isdigit())
    started = Process.of(int(child.read_text()))
    deaf.stop(0.1)
    assert not deaf.alive
    eventually(lambda: not started.alive)
