"""Leases: which process of this host holds a role for a cluster.

A lease is an flock: it goes with the process that holds it, however that ends. The file says who
holds it, by pid and start time; nobody who only asks writes to it.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from core import files, paths
from core.daemons.process import Process
from core.text.json_text import parse_json

PROBE_SECONDS = 0.2
"""How long a lease may seem taken because somebody asks whether it is."""


def lease_file(root: Path, cluster_id: str, role: str) -> Path:
    """Return the lock file of the one process that has this role for the cluster."""
    return root / "locks" / f"{paths.cluster_folder(cluster_id)}.{role}.lock"


@contextmanager
def hold_lease(path: Path) -> Iterator[bool]:
    """Hold `path` as the only process of this host, or find that another one does (False)."""
    paths.make_folder(path.parent)
    with open(path, "a", opener=files.private) as file:
        deadline = time.monotonic() + PROBE_SECONDS
        while not _lock(file):
            if time.monotonic() > deadline:
                yield False
                return
            time.sleep(PROBE_SECONDS / 20)
        held = Process.this()
        file.truncate(0)
        file.write(json.dumps({"pid": held.pid, "started": held.started}))
        file.flush()
        yield True


def is_leased(path: Path) -> bool:
    """Return whether some process holds this lease."""
    if not path.exists():
        return False
    with open(path, "a", opener=files.private) as file:
        return not _lock(file)


def lease_holder(path: Path) -> Process | None:
    """Return the process that holds this lease; None for nobody, or one that is not known."""
    if not is_leased(path):
        return None
    try:
        held = parse_json(path.read_text(encoding="utf-8"))
        process = Process(int(held["pid"]), str(held["started"]))
    except (ValueError, TypeError, KeyError, FileNotFoundError):
        # It has just begun or is just ending; or who holds it is not known.
        return None
    return process if process.alive else None


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
