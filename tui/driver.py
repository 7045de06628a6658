"""Textual's driver, but a terminal that hangs or is gone holds up nothing.

Textual writes through a queue of 30 in which the event loop waits when the terminal takes nothing,
for ever when it is gone; at the end of its input the thread that reads it spins.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from encodings import utf_8
from queue import SimpleQueue
from typing import IO, Any

from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver

from tui.shutdown import Shutdown, open_anew

BEHIND_CHARACTERS = 65_536
"""What may wait to be written; pictures beyond it are left out: who is behind wants the newest."""
LOOK_SECONDS = 0.05
"""How often a writer that waits for its terminal looks whether it is to end."""
LAST_SECONDS = 0.3
"""How long the terminal may take for what is written last."""


class Writer:
    """Writes beside the event loop, which never waits for it; stands in for Textual's thread."""

    def __init__(self, file: IO[str], lost: Callable[[], object], caught_up: Callable[[], object]):
        self._thread = threading.Thread(target=self._run, name="textual-output", daemon=True)
        self._own = False
        try:
            self._handle = open_anew(file.fileno())
            self._own = True
        except OSError:  # another user's: who stands still then holds up this thread
            self._handle = file.fileno()
        self._encoding = str(getattr(file, "encoding", None) or "utf-8")
        self._texts: SimpleQueue[str | None] = SimpleQueue()
        self._lost, self._caught_up = lost, caught_up
        self._lock = threading.Lock()
        self._waiting = 0
        self._left_out = self._gone = self._stopped = False

    @property
    def behind(self) -> bool:
        return self._waiting > BEHIND_CHARACTERS

    @property
    def done(self) -> bool:
        """Return whether nothing is left to be written."""
        return self._gone or not self._waiting

    def start(self) -> None:
        self._thread.start()

    def write(self, text: str) -> None:
        with self._lock:
            if self._gone:
                return
            self._waiting += len(text)
        self._texts.put(text)

    def skip_frame(self) -> bool:
        """Return whether a picture is to be left out; `caught_up` is then called for a new one."""
        with self._lock:
            self._left_out |= self.behind
            return self.behind

    def _run(self) -> None:
        try:
            while (text := self._texts.get()) is not None and self._write(text):
                with self._lock:
                    self._waiting -= len(text)
                    late = self._left_out and not self._waiting
                    self._left_out &= not late
                if late:
                    self._caught_up()
        except OSError:
            with self._lock:
                self._gone = True
            self._lost()
        finally:
            if self._own:
                os.close(self._handle)

    def _write(self, text: str) -> bool:
        """Write all of a text; returns False when it was stopped before. Raises OSError."""
        left = memoryview(text.encode(self._encoding, "replace"))
        while left:
            try:
                left = left[os.write(self._handle, left) :]
            except BlockingIOError:
                if self._stopped:
                    return False
                poll = select.poll()
                poll.register(self._handle, select.POLLOUT)
                poll.poll(LOOK_SECONDS * 1000)
        return True

    def stop(self) -> None:
        """Have it end once all is written; nobody waits long for it."""
        self._texts.put(None)
        self._thread.join(LAST_SECONDS)
        self._stopped = True
        if self._own:
            self._thread.join()


class Decoder(utf_8.IncrementalDecoder):
    """Reads what a terminal sends, also bytes that are not UTF-8 (tmux reattach, Textual #6668)."""

    def __init__(self) -> None:
        super().__init__(errors="replace")

    def decode(self, data: Any, final: bool = False) -> str:
        """Decode; raises EOFError at the end of the input."""
        if not data:
            raise EOFError
        return super().decode(data, final)


class TerminalDriver(LinuxDriver):
    """Textual's driver on a terminal that may go away, or stop to take anything."""

    ending: Shutdown | None = None
    caught_up: Callable[[], object] = staticmethod(lambda: None)
    """Called, from another thread, when pictures were left out and one could be written now."""
    _writer: Writer | None = None

    def skip_frame(self) -> bool:
        """Return whether the terminal is so far behind that a picture is to be left out."""
        return self._writer is not None and self._writer.skip_frame()

    def start_application_mode(self) -> None:
        if self.ending is not None:
            self.ending.on_screen = True
        setattr(linux_driver, "getincrementaldecoder", lambda encoding: Decoder)  # noqa: B010
        setattr(linux_driver, "WriterThread", self._open_writer)  # noqa: B010
        super().start_application_mode()

    def close(self) -> None:
        super().close()
        if self.ending is not None and self._writer is not None and self._writer.done:
            self.ending.on_screen = False

    def _open_writer(self, file: IO[str]) -> Writer:
        self._writer = Writer(file, self._lost, self.caught_up)
        return self._writer

    def run_input_thread(self) -> None:
        try:
            super().run_input_thread()
        except (OSError, EOFError):
            self._lost()

    def _lost(self) -> None:
        if self.ending is not None:
            self.ending.terminal_lost()
