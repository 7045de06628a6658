"""Who reads the load of a cluster: heartbeat files, and how long a pair outlives the last one."""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from core import files, paths
from core.daemons.process import set_on_signals
from core.load import layout

BEAT_SECONDS = 5.0
SILENT_SECONDS = 20.0
"""A reader that has not beaten for so long is gone (killed, suspended)."""
GRACE_SECONDS = 60.0


class Readers:
    """The readers of one cluster's load, as its collector and pipeline see them."""

    def __init__(self, root: Path, cluster_id: str, grace_seconds: float = GRACE_SECONDS) -> None:
        self._folder = layout.readers(root, cluster_id)
        self._grace = grace_seconds
        self._last_seen = time.monotonic()

    def gone(self) -> bool:
        """Return whether nobody has read for the grace time."""
        if self.present():
            self._last_seen = time.monotonic()
        return time.monotonic() - self._last_seen > self._grace

    def present(self) -> bool:
        """Return whether anybody reads now."""
        now, found = time.time(), False
        for path in self._folder.glob("*.beat"):
            try:
                silent = now - path.stat().st_mtime
            except FileNotFoundError:
                continue
            if silent < SILENT_SECONDS:
                found = True
            elif silent > 10 * SILENT_SECONDS:
                path.unlink(missing_ok=True)
        return found


def held_while_read(
    root: Path, cluster_id: str, role: str, told: threading.Event, work: Callable[[], None]
) -> bool:
    """Do `work` as the one process of this host in `role`; False when another one is.

    A reader that came while `work` was ending found the role taken and started nobody, so who
    reads is looked at once more after it has been given back.
    """
    while True:
        with files.lease(layout.lock(root, cluster_id, role)) as ours:
            if not ours:
                return False
            work()
        if told.is_set() or not Readers(root, cluster_id).present():
            return True


class Heartbeat:
    """One reader: beats in a thread of its own until it is closed or the process ends.

    With each beat it looks after what serves it, by `tend`, the first time at once; OSError is
    raised then, and later has `tend` called again.
    """

    def __init__(
        self, root: Path, cluster_id: str, tend: Callable[[], None] = lambda: None
    ) -> None:
        folder = layout.readers(root, cluster_id)
        paths.make_folder(folder)
        self._path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.beat"
        self._closed = threading.Event()
        self._tend = tend
        self._beating = threading.Lock()
        """Held by a beat, so that nothing is touched or started once it is closed."""
        self._path.touch()
        tend()
        threading.Thread(target=self._beat, name="load-heartbeat", daemon=True).start()

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()
        with self._beating:
            self._path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._closed.wait(BEAT_SECONDS):
            with self._beating:
                if self._closed.is_set():
                    return
                if not self._path.parent.is_dir():
                    # It was deleted below it: whoever did that wants no load.
                    return
                # What cannot be done for now (no room, no memory) is done at a later beat.
                with suppress(OSError):
                    # Made anew when it is gone: it was silent while the machine slept.
                    self._path.touch()
                    self._tend()


def stop_signals(*, detached: bool = False) -> threading.Event:
    """Return an event that SIGTERM and SIGINT set; SIGHUP too, but for a detached process.

    What whoever started it has ignored (nohup, a script's background) stays so.
    """
    told = threading.Event()
    if detached:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    set_on_signals(told, heeded)
    return told
