"""Starts a run's process, away from whoever asked, and waits until its journal tells of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from core import files, passwords, paths
from core.cluster.connect import Address
from core.errors import TrimtabError
from core.run import logout
from core.run.creation import address_to_json
from core.run.lock import BusyError, take_lock
from core.run.record.journal import SUFFIX, Journal
from core.run.who import asker

START_SECONDS = 20.0


def log_path(path: Path) -> Path:
    """Return where the process of the run with this journal logs to."""
    return paths.log_dir() / f"run-{path.parent.name}-{path.name.removesuffix(SUFFIX)}.log"


def log_size(path: Path) -> int:
    """Return how much is in that log now."""
    where = log_path(path)
    return where.stat().st_size if where.exists() else 0


def spawn(path: Path, lock: int, address: Address, *, moved: bool = False) -> None:
    """Start the process and return once it stands on its own (it forks before any import).

    It is told the address where the cluster has `moved`; the journal's is it otherwise.
    """
    where = log_path(path)
    paths.make_folder(where.parent)
    package_root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH")))),
        "OPENBLAS_NUM_THREADS": "1",  # so that the process is single-threaded when it forks
    }
    module = ("-P", "-m", "core.run.service")
    elsewhere = (json.dumps(address_to_json(address)),) if moved else ()
    with (
        open(where, "ab", opener=files.private) as output,
        passwords.open_pipe(address.command_config) as pipe,
    ):
        handed = () if pipe is None else (passwords.ON_STDIN,)
        subprocess.run(
            [
                *(*logout.look().prefix(), sys.executable, *module, *handed, str(path), str(lock)),
                *elsewhere,
            ],
            stdin=subprocess.DEVNULL if pipe is None else pipe,
            stdout=output,
            stderr=output,
            pass_fds=(lock,),
            env=environment,
            cwd="/",
            start_new_session=True,
            check=False,
        )


def await_start(path: Path, cluster_id: str, *, after: int = 1, log_from: int = 0) -> None:
    """Return when the process has written a record after `after`; raise when it has died instead.

    Its log is read from `log_from` for the reason.
    """

    def has_begun() -> bool:
        with Journal.open(path) as journal:
            return bool(journal.records(after=after))

    deadline = time.monotonic() + START_SECONDS
    slow = True
    while slow and time.monotonic() < deadline:
        if has_begun():
            return
        try:
            os.close(take_lock(cluster_id))
        except BusyError:
            time.sleep(0.02)
        else:
            if has_begun():
                return
            slow = False
    if slow and after > 1:
        raise TrimtabError(
            f"The run's process has not come up in {START_SECONDS:.0f} s; it may yet.",
            next=f"Look again in a minute; its log is {log_path(path)}.",
        )
    if slow:
        with Journal.open(path) as journal:  # not dead: it is told not to begin any more
            journal.ask(datetime.now(UTC), "cancel", asker())
    written = log_path(path).read_bytes()[log_from:].decode("utf-8", "replace")
    tail = written.strip().splitlines()
    raise TrimtabError(
        "The run's process did not come up; nothing was changed.",
        detail=tail[-1] if tail else "",
        next=f"Its log is {log_path(path)}.",
    )
