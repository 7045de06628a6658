"""Ends the dashboard in time, whatever hangs: by a signal, a lost terminal, or its user.

No Textual in here: signals are in hand before it is imported. A thread of its own hears of them,
asks the dashboard to leave in order, and if that takes too long takes it away from whatever it
hangs in; what was begun outside (brokers of a demo) is then still put in order by its command.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn

IN_ORDER_SECONDS = 0.8
"""How long leaving may take before it is broken off."""
BROKEN_OFF_SECONDS = 0.4
"""And that, before the process ends as it is."""
FAILED_SECONDS = 10.0
"""How long it may take to leave after a failure, which nobody asked for."""
STDIN, STDERR = 0, 2
SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
TEXTUALS = (signal.SIGTSTP, signal.SIGCONT)
"""What Textual heeds, and goes on heeding when its application has ended."""
LEAVE_SCREEN = (
    b"\x18"  # whatever sequence was cut off
    b"\x1b[?2026l\x1b[?2004l\x1b[?7h\x1b[?2048l"
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"
    b"\x1b[<u\x1b[0m\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""Undoes all that Textual's driver asks of a terminal."""


class Shutdown:
    """Guards the dashboard while it is open; a context manager of the main thread.

    `on_screen` is whether the terminal is drawn on; it is put right when the dashboard has not.
    """

    def __init__(self) -> None:
        self.on_screen = False
        self.code: int | None = None
        """What the process ends with when a signal or a lost terminal ended the dashboard."""
        self._leave: Callable[[], object] | None = None
        self._unkept: Callable[[], str] = str
        self._lock = threading.Lock()
        self._deadline: float | None = None
        self._over = threading.Event()
        self._broken_off = False
        self._attributes: list[Any] | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._heard, self._hearing = os.pipe()
        for end in (self._heard, self._hearing):
            os.set_blocking(end, False)

    def __enter__(self) -> Shutdown:
        with suppress(termios.error):
            self._attributes = termios.tcgetattr(STDIN)
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as nohup and shells have it
        heeded = SIGNALS[:2] if ignored else SIGNALS
        self._before = {number: signal.signal(number, self._on_signal) for number in heeded}
        self._before |= {number: signal.getsignal(number) for number in TEXTUALS}
        # The thread hears of a signal also while the main thread waits for something in C.
        signal.set_wakeup_fd(self._hearing, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="ending", daemon=True).start()
        return self

    def attach(self, leave: Callable[[], object], unkept: Callable[[], str] = str) -> None:
        """Have `leave` called, from another thread, when it is to end; it asks and returns.

        `unkept` says what is lost as it ends, "" for nothing: it goes to stderr and is a failure.
        """
        self._leave, self._unkept = leave, unkept

    def begin(self, *, failed: bool = False) -> None:
        """Say that the dashboard is leaving by itself: from now on it has to be quick."""
        with self._lock:
            seconds = FAILED_SECONDS if failed else IN_ORDER_SECONDS
            self._deadline = self._deadline or time.monotonic() + seconds
        self._wake()

    def terminal_lost(self) -> None:
        """Say that nobody can see or type anything any more: as a hang-up."""
        with suppress(BlockingIOError, OSError):
            os.write(self._hearing, bytes([signal.SIGHUP]))

    def seconds_left(self) -> float:
        """Return how long leaving may still take."""
        return max(0.0, (self._deadline or time.monotonic()) - time.monotonic())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()  # before anything else: nothing is broken off from here on
        with self._lock:
            signal.set_wakeup_fd(-1)
            for number, handler in self._before.items():
                signal.signal(number, handler)
        self._wake()
        if self.on_screen and not self._restore_terminal():
            # Whoever says something next must not wait for it.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(nowhere, stream)
        code = self._exit_code
        self._report_losses()
        if code and kind is None:
            raise SystemExit(code)

    # -- the main thread -------------------------------------------------------------------------

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._broken_off and not self._over.is_set():
            raise SystemExit(self._exit_code)

    # -- the thread ------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._over.is_set():
            left = None if self._deadline is None else self.seconds_left()
            ready, _, _ = select.select([self._heard], [], [], left)
            if self._over.is_set():
                return
            if ready:
                for number in os.read(self._heard, 1024):
                    if number in SIGNALS:
                        self._handle_signal(number)
            elif self._broken_off:
                self._exit_at_once()
            else:
                self._interrupt_main()

    def _handle_signal(self, number: int) -> None:
        if self.code is not None:
            return
        self.code = 128 + number
        with self._lock:
            self._deadline = min(
                self._deadline or float("inf"), time.monotonic() + IN_ORDER_SECONDS
            )
        leave = self._leave
        if leave is None:
            self._interrupt_main()
            return
        try:
            leave()
        except RuntimeError:  # its loop has ended
            self._interrupt_main()

    def _interrupt_main(self) -> None:
        """Have the main thread leave whatever it does or waits for."""
        with self._lock:
            if self._over.is_set():
                return
            self._broken_off = True
            self._deadline = time.monotonic() + BROKEN_OFF_SECONDS
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def _exit_at_once(self) -> NoReturn:
        if not self.on_screen or self._restore_terminal():
            self._report_losses()
        os._exit(self._exit_code)

    # -- both ------------------------------------------------------------------------------------

    @property
    def _exit_code(self) -> int:
        return self.code or int(bool(self._unkept()))

    def _report_losses(self) -> None:
        if words := self._unkept():
            with suppress(OSError):  # nobody can read it any more
                os.write(STDERR, f"trimtab: {words}\n".encode())

    def _wake(self) -> None:
        with suppress(BlockingIOError, OSError):
            os.write(self._hearing, b"\0")

    def _restore_terminal(self) -> bool:
        """Give the terminal back as it was, never waiting for it; False when it takes nothing."""
        # In the background this would stop us.
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            if self._attributes is not None:
                termios.tcsetattr(STDIN, termios.TCSANOW, self._attributes)
            termios.tcflush(STDIN, termios.TCIFLUSH)  # what the mouse said is no command
            # It may stand still (XOFF, nobody reads it): room for these words, and on with it.
            termios.tcflush(STDERR, termios.TCOFLUSH)
            termios.tcflow(STDERR, termios.TCOON)
            terminal = open_anew(STDERR)
            try:
                return os.write(terminal, LEAVE_SCREEN) == len(LEAVE_SCREEN)
            finally:
                os.close(terminal)
        except (OSError, termios.error):
            return False
        finally:
            self.on_screen = False
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)


def open_anew(terminal: int) -> int:
    """Return a handle to write to a terminal that never waits for it; raises OSError.

    The one we were given must go on to wait: others have it open, too.
    """
    try:
        path = os.ttyname(terminal)
    except OSError:  # as in some containers
        path = f"/proc/self/fd/{terminal}"
    return os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)


def end_process(code: int | str | None) -> NoReturn:
    """End with SystemExit's `code`, and do not wait for threads, as an interpreter does."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code if isinstance(code, int) else code is not None)
