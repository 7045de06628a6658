"""Heartbeat files of those who need a cluster's background processes, and how long they count.

Whoever reads a cluster's load or timeline beats every few seconds; a process that serves readers
ends a minute after the last beat, however the reader went.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from core import paths

BEAT_SECONDS = 5.0
SILENT_SECONDS = 20.0
"""A reader that has not beaten for so long is gone (killed, suspended)."""
GRACE_SECONDS = 60.0


def readers_folder(root: Path, cluster_id: str) -> Path:
    """Return where readers of the cluster leave their heartbeats."""
    return root / "readers" / paths.cluster_folder(cluster_id)


class Readers:
    """The readers of one cluster, as its background processes see them."""

    def __init__(self, root: Path, cluster_id: str, grace_seconds: float = GRACE_SECONDS) -> None:
        self._folder = readers_folder(root, cluster_id)
        self._grace = grace_seconds
        self._last_present = time.monotonic()

    def are_gone(self) -> bool:
        """Return whether nobody has read for the grace time."""
        if self.are_present():
            self._last_present = time.monotonic()
        return time.monotonic() - self._last_present > self._grace

    def are_present(self) -> bool:
        """Return whether anybody reads now; heartbeats that stopped long ago are removed."""
        now, present = time.time(), False
        for path in self._folder.glob("*.beat"):
            try:
                silent_seconds = now - path.stat().st_mtime
            except FileNotFoundError:
                continue
            if silent_seconds < SILENT_SECONDS:
                present = True
            elif silent_seconds > 10 * SILENT_SECONDS:
                path.unlink(missing_ok=True)
        return present


class Heartbeat:
    """One reader: beats in a thread of its own until it is closed or the process ends.

    With each beat it calls `check`, the first time at once; an OSError is raised then, and later
    has `check` called again.
    """

    def __init__(
        self, root: Path, cluster_id: str, check: Callable[[], None] = lambda: None
    ) -> None:
        folder = readers_folder(root, cluster_id)
        paths.make_folder(folder)
        self._path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.beat"
        self._closed = threading.Event()
        self._check = check
        self._beating = threading.Lock()
        """Held by a beat, so that nothing is touched or started once it is closed."""
        self._path.touch()
        check()
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

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
                    # Somebody has deleted all load of this cluster, and wants none.
                    return
                # What fails for now (no room, no memory) is tried again at the next beat.
                with suppress(OSError):
                    # Removed while the machine slept: it is there again.
                    self._path.touch()
                    self._check()
