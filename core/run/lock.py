"""The one lock of a cluster on this machine: one run at a time works on it."""

from __future__ import annotations

import fcntl
import os
import time

from core import paths
from core.errors import ExitCode, TrimtabError
from core.run.record.journal import JournalError
from core.run.tell.runs import list_runs


class BusyError(TrimtabError):
    """Another run works on this cluster, started on this machine."""

    exit_code = ExitCode.REFUSED


def take_lock(cluster_id: str, *, patience_seconds: float = 0.0) -> int:
    """Return a file descriptor that holds this cluster's lock; raises BusyError when it is held.

    It goes with the process that holds it: a run that died does not hold it any more. Whoever has
    just taken it has no journal yet, which would name the run: that is waited for so long.
    """
    folder = paths.runs_dir(cluster_id)
    try:
        paths.make_folder(folder)
        handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JournalError(
            f"A run's journal cannot be made in {folder}: {error.strerror}.",
            detail="No run starts without its journal.",
            next="Free or mount that disk writable, or set TRIMTAB_HOME to another place.",
        ) from error
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            running = [run.run for run in list_runs(cluster_id) if not run.state.ended]
            if not running and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            os.close(handle)
            raise _busy(running) from error
        return handle


def _busy(running: list[str]) -> BusyError:
    who = f"Run {running[0]}" if running else "A run"
    return BusyError(
        f"{who} is in progress on this cluster.",
        next="Wait for its end, or follow it: `trimtab runs attach "
        f"{running[0] if running else 'ID'}`.",
    )
