"""A real terminal for end-to-end tests and benchmarks: a pty, and pyte to read its screen."""

from __future__ import annotations

import os
import select
import signal
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import pexpect
import pyte

PATIENCE_SECONDS = 120.0
"""How long a program may take where everything else runs beside it."""

END_OF_SCREEN = b"\x1b[?1049l"
TAIL_BYTES = 1000


class Terminal:
    """One program in a terminal of `columns` × `lines`; waits for what is shown, never sleeps."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        columns: int = 120,
        lines: int = 40,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        variables = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            **(environment or {}),
        }
        # pytest-xdist's workers have them, and Textual would take them for this terminal's size.
        for name in ("COLUMNS", "LINES"):
            variables.pop(name, None)
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.received = 0
        self.started = time.monotonic()
        self._child = pexpect.spawn(
            argv[0],
            list(argv[1:]),
            dimensions=(lines, columns),
            env=variables,  # type: ignore[arg-type]
            timeout=None,
        )
        self._ended = False
        self._tail = b""
        self.gave_back = False
        """Whether the terminal was as a shell needs it when the program had ended."""

    @property
    def pid(self) -> int:
        return int(self._child.pid)

    def pump(self, seconds: float) -> int:
        """Read for at most `seconds` or until something came; returns the bytes read."""
        if self._ended:
            return 0
        ready, _, _ = select.select([self._child.child_fd], [], [], seconds)
        if not ready:
            return 0
        try:
            data = os.read(self._child.child_fd, 65536)
        except OSError:
            data = b""
        if not data:
            self._ended = True
            return 0
        self.received += len(data)
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        self._stream.feed(data)
        return len(data)

    def text(self) -> str:
        return "\n".join(self._screen.display)

    def send(self, keys: str) -> None:
        self._child.send(keys)

    def wait_for(
        self, expected: str | Callable[[str], bool], *, seconds: float = PATIENCE_SECONDS
    ) -> str:
        """Return the screen's text once it shows `expected`; else fails with what it shows."""
        shows = (lambda text: expected in text) if isinstance(expected, str) else expected
        deadline = time.monotonic() + seconds
        while not shows(self.text()):
            left = deadline - time.monotonic()
            if left <= 0 or self._ended:
                why = "the program ended" if self._ended else f"not within {seconds:.0f} s"
                raise AssertionError(f"{expected!r} is not shown: {why}\n{self.text()}")
            self.pump(min(left, 0.2))
        return self.text()

    def read_for(self, seconds: float) -> int:
        """Read everything that comes within `seconds`; returns the bytes."""
        before, deadline = self.received, time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self._ended:
            self.pump(left)
        return self.received - before

    def settle(self, *, quiet: float = 0.3, seconds: float = 10.0) -> int:
        """Read until nothing came for `quiet` seconds; returns the bytes."""
        before, deadline = self.received, time.monotonic() + seconds
        while time.monotonic() < deadline and self.pump(quiet):
            pass
        return self.received - before

    def reaction(self, *, quiet: float, seconds: float = 60.0) -> int:
        """Return the bytes of what comes next, however late it begins, until it is quiet again."""
        before, deadline = self.received, time.monotonic() + seconds
        while self.received == before and time.monotonic() < deadline and not self._ended:
            self.pump(0.2)
        self.settle(quiet=quiet, seconds=seconds)
        return self.received - before

    def wait_for_exit(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Return the exit code of the program once it has ended."""
        deadline = time.monotonic() + seconds
        while not self._ended and time.monotonic() < deadline:
            self.pump(0.2)
        while self._child.isalive() and time.monotonic() < deadline:
            time.sleep(0.02)
        if not self._ended or self._child.isalive():
            raise AssertionError(f"still running after {seconds:.0f} s\n{self.text()}")
        if not self._child.ptyproc.fileobj.closed:
            echoes = termios.tcgetattr(self._child.child_fd)[3] & termios.ECHO
            self.gave_back = bool(echoes) and END_OF_SCREEN in self._tail
        self._child.close()
        status = self._child.exitstatus
        return int(status) if status is not None else -int(self._child.signalstatus or 0)

    def close(self) -> None:
        """Take the terminal away from the program, as when its window is closed."""
        self._child.ptyproc.fileobj.close()
        self._ended = True

    def kill(self) -> None:
        """Kill the program as a crash would."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait_for_exit()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Closing by itself gives a program a few tenths of a second to die, then fails.
        deadline = time.monotonic() + 10.0
        self._child.kill(signal.SIGHUP)
        while self._child.isalive() and time.monotonic() < deadline:
            self.pump(0.05)
        self._child.close(force=True)
