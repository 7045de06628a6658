"""Processes that outlive the one that starts them, known by pid and start time.

A pid alone is never trusted: pids are used again, so every signal checks the start time first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue


@dataclass(frozen=True, slots=True)
class Process:
    """One process: `started` is what the system says of its start, an opaque text."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Return the live process with this pid; None when there is none (or a zombie)."""
        started = _start_time(pid)
        return None if started is None else cls(pid, started)

    @classmethod
    def this(cls) -> Process:
        """Return the process that asks."""
        ours = cls.of(os.getpid())
        assert ours is not None
        return ours

    @property
    def alive(self) -> bool:
        return _start_time(self.pid) == self.started

    def signal(self, number: int) -> bool:
        """Send a signal; returns False when the process is gone."""
        if not self.alive:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait(self, seconds: float) -> bool:
        """Return whether it has ended within `seconds`."""
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def stop(self, seconds: float = 10.0) -> None:
        """Ask it to end, then make it end, with what it has started in its session."""
        if self.signal(signal.SIGTERM) and not self.wait(seconds):
            with suppress(ProcessLookupError):
                if self.alive and os.getpgid(self.pid) == self.pid:
                    os.killpg(self.pid, signal.SIGKILL)
            self.signal(signal.SIGKILL)
            self.wait(seconds)


def set_on_signals(event: threading.Event, numbers: Iterable[int]) -> None:
    """Have an event be set once one of these signals comes.

    By a thread: a handler runs within whatever the main thread does, and where that holds the
    event's own lock (it waits, or sets it for an earlier signal) it would wait for itself.
    """
    heard: SimpleQueue[int] = SimpleQueue()  # the one that a handler may put into at any time
    for number in numbers:
        signal.signal(number, lambda caught, _: heard.put(caught))

    def set_once_heard() -> None:
        heard.get()
        event.set()

    threading.Thread(target=set_once_heard, name="signals", daemon=True).start()


def stop_signals(*, detached: bool = False) -> threading.Event:
    """Return an event that SIGTERM and SIGINT set; SIGHUP too, but for a detached process.

    A signal that the parent process has ignored (nohup, a script's background) stays ignored.
    """
    stop_requested = threading.Event()
    if detached:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    set_on_signals(stop_requested, heeded)
    return stop_requested


LOG_BYTES = 1_000_000
"""What a process writes to begins anew with the next one once it is longer."""


def spawn(command: Sequence[str | Path], *, output: Path, stdin: int | None = None) -> Process:
    """Start `command` in a session of its own, its output appended to a file.

    It reads from the descriptor `stdin`, or nothing. A file that has grown long is set aside
    before, with `.1` behind its name. Raises OSError when it cannot be started.
    """
    with suppress(FileNotFoundError):
        if output.stat().st_size > LOG_BYTES:
            output.replace(output.with_name(f"{output.name}.1"))
    argv = [str(part) for part in command]
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    reads: tuple[object, ...] = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    if stdin is not None:
        reads = (os.POSIX_SPAWN_DUP2, stdin, 0)
    pid = os.posix_spawnp(
        argv[0],
        argv,
        os.environ,
        file_actions=[
            reads,
            (os.POSIX_SPAWN_OPEN, 1, str(output), flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    # A child that has died already is a zombie without a start time: any other text will do.
    return Process.of(pid) or Process(pid, "ended")


def running_with(arguments: Collection[str]) -> list[Process]:
    """Return the processes whose command line has one of these as a whole argument."""
    processes = []
    for pid, words in _command_lines():
        if pid != os.getpid() and any(word in arguments for word in words):
            process = Process.of(pid)
            if process is not None:
                processes.append(process)
    return processes


def age_seconds() -> float | None:
    """Return how long ago this process was started; None where the system does not tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    started = Process.this().started
    if clock is None or not started.isdecimal():
        return None
    return float(time.clock_gettime(clock) - int(started) / os.sysconf("SC_CLK_TCK"))


def _start_time(pid: int) -> str | None:
    try:
        # A child of ours that has ended is reaped here, else it would stay a zombie.
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return None
    except ChildProcessError:
        pass
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return _start_time_by_ps(pid) if not Path("/proc/self").exists() else None
    # The command's name may hold anything, so count from the last bracket: state, …, start time.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def _start_time_by_ps(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(None, 1)
    return None if len(answer) < 2 or answer[0].startswith("Z") else answer[1].strip()


def _command_lines() -> list[tuple[int, list[str]]]:
    if not Path("/proc/self").exists():
        listed = subprocess.run(
            ["ps", "-axww", "-o", "pid=,args="], capture_output=True, text=True, check=False
        ).stdout
        rows = (line.split() for line in listed.splitlines())
        return [(int(row[0]), row[1:]) for row in rows if row]
    lines = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                raw = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            lines.append((int(folder.name), raw.decode(errors="replace").split("\0")))
    return lines


def resident_bytes(pid: int) -> int | None:
    """Return the memory that a process and all that it started hold; None where /proc tells not."""
    parents: dict[int, list[int]] = {}
    held: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except (OSError, ValueError):  # it has just ended
            continue
        parents.setdefault(int(fields[1]), []).append(int(folder.name))
        held[int(folder.name)] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    if pid not in held:
        return None
    tree, at = [pid], 0
    while at < len(tree):
        tree += parents.get(tree[at], [])
        at += 1
    return sum(held[member] for member in tree)
