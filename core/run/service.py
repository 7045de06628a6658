"""The run's own process: how it is started, asked for something, and what it does.

`python -P -m core.run.service JOURNAL`: a fresh interpreter, away from the terminal, that holds
the one lock of its cluster on this machine. Nothing depends on whoever started it.
"""

from __future__ import annotations

import getpass
import logging
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core import paths
from core.cluster.connect import Address, connect
from core.errors import ExitCode, TrimtabError, UsageError
from core.plan.plan import Plan
from core.process import Process
from core.run import logout
from core.run.journal import SUFFIX, Journal, JournalError, Kind, journal_path
from core.run.lock import BusyError, take_lock
from core.run.runs import read_run
from core.run.view import RunState

START_SECONDS = 20.0
BATCH_SIZE = 200
"""KRaft caps one operation at 10,000 records; a few hundred partitions stay far below."""
REQUESTS = ("cancel",)
SIMULATED_PATIENCE_SECONDS = 3.0
"""A simulator that is gone never comes back; real clusters are waited for."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a plan is to be carried out; `allow` are the ids of checks that may speak against it."""

    rate_bytes_per_s: int
    cluster_name: str | None = None
    allow: frozenset[str] = frozenset()
    override_rates: bool = False
    """Set our rate even over a lower one of somebody else's."""
    batch_size: int = BATCH_SIZE


def start_run(
    address: Address,
    cluster_id: str,
    plan: Plan,
    options: RunOptions,
    estimate: Mapping[str, Any] | None,
) -> str:
    """Start a detached process that carries `plan` out; return the run's id.

    `estimate` is its JSON document, kept for the report. Raises BusyError while another run of
    this cluster lives, JournalError when the journal cannot be made, TrimtabError when the
    process does not come up.
    """
    lock = take_lock(cluster_id)
    try:
        at = _now(address)
        journal = create_journal(address, cluster_id, plan, options, estimate, at=at)
        path = journal.path
        journal.close()
        _spawn(path, lock)
    finally:
        os.close(lock)
    _await_start(path, cluster_id)
    return path.name.removesuffix(SUFFIX)


def create_journal(
    address: Address,
    cluster_id: str,
    plan: Plan,
    options: RunOptions,
    estimate: Mapping[str, Any] | None,
    *,
    at: datetime,
) -> Journal:
    """Make the journal of a new run, with everything that was asked, and name the run.

    `at` is by the cluster's clock. The name is its month, day and time in UTC; a second one in a
    second gets -2.
    """
    stem = at.astimezone(UTC).strftime("%m%d-%H%M%S")
    for attempt in range(1, 100):
        run = stem if attempt == 1 else f"{stem}-{attempt}"
        try:
            journal = Journal.create(journal_path(cluster_id, run))
        except FileExistsError:
            continue
        config = address.command_config
        journal.write(
            at,
            Kind.CREATED,
            {
                "run": run,
                "cluster_id": cluster_id,
                "cluster_name": options.cluster_name or cluster_id[:8],
                "address": {
                    "bootstrap": address.bootstrap,
                    "command_config": str(config.absolute()) if config else None,
                },
                "moves": [
                    {
                        "topic": move.tp.topic,
                        "partition": move.tp.partition,
                        "before": list(move.before),
                        "after": list(move.after),
                        "topic_id": move.topic_id,
                    }
                    for move in plan
                ],
                "notes": list(plan.notes),
                "options": {
                    "rate_bytes_per_s": options.rate_bytes_per_s,
                    "allow": sorted(options.allow),
                    "override_rates": options.override_rates,
                    "batch_size": options.batch_size,
                },
                "estimate": estimate,
                "who": _who(),
                "host": socket.gethostname(),
            },
        )
        return journal
    raise JournalError(f"There are too many runs named {stem}.", next="Try again in a second.")


# -- asking it for something ---------------------------------------------------------------------


def request(cluster_id: str, run: str, kind: str) -> None:
    """Ask a run for something; it takes the request up within a second.

    Raises UsageError for a run that has ended, JournalError when its journal cannot be written.
    """
    if kind not in REQUESTS:
        raise UsageError(f"A run cannot be asked to {kind}.", next=f"Known: {', '.join(REQUESTS)}.")
    view = read_run(cluster_id, run)
    if view.state is RunState.DIED:
        raise UsageError(
            f"The process of run {run} has died; nobody is there to {kind} it.",
            next=f"`trimtab runs show {run}` lists what it left.",
        )
    if view.state.ended:
        raise UsageError(f"Run {run} has ended: {view.state.value}.", next="Nothing was changed.")
    with Journal.open(journal_path(cluster_id, run)) as journal:
        _ask(journal, kind)


def _ask(journal: Journal, kind: str) -> None:
    journal.ask(datetime.now(UTC), kind, {"who": _who(), "host": socket.gethostname()})


def _now(address: Address) -> datetime:
    """Return the time by the clock that the run will live by."""
    if not address.simulated:
        return datetime.now(UTC)
    connection = connect(address)
    try:
        return connection.clock.now()
    finally:
        connection.client.close()


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


# -- the process -----------------------------------------------------------------------------------


def _log_path(path: Path) -> Path:
    return paths.log_dir() / f"run-{path.parent.name}-{path.name.removesuffix(SUFFIX)}.log"


def _spawn(path: Path, lock: int) -> None:
    """Start the process and return once it stands on its own (it forks before any import)."""
    where = _log_path(path)
    where.parent.mkdir(parents=True, exist_ok=True)
    package_root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH")))),
        "OPENBLAS_NUM_THREADS": "1",  # so that the process is single-threaded when it forks
    }
    module = ("-P", "-m", "core.run.service")
    with where.open("ab") as output:
        subprocess.run(
            [*logout.look().prefix(), sys.executable, *module, str(path), str(lock)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(lock,),
            env=environment,
            cwd="/",
            start_new_session=True,
            check=False,
        )


def _await_start(path: Path, cluster_id: str) -> None:
    """Return when the process has written its first record; raise when it has died instead."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with Journal.open(path) as journal:
            if journal.records(after=1):
                return
        try:
            os.close(take_lock(cluster_id))
        except BusyError:
            time.sleep(0.02)
        else:
            with Journal.open(path) as journal:
                if journal.records(after=1):
                    return
            break
    else:
        with Journal.open(path) as journal:  # slow, not dead: it is told not to begin any more
            _ask(journal, "cancel")
    tail = _log_path(path).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise TrimtabError(
        "The run's process did not come up; nothing was changed.",
        detail=tail[-1] if tail else "",
        next=f"Its log is {_log_path(path)}.",
    )


def serve(path: Path) -> int:
    """Carry a run to its end in this process; returns its exit code. The lock is held already."""
    from core.run.runner import Runner

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    with Journal.open(path) as journal:
        journal.check()
        created = journal.records()[0].payload["address"]
        config = created["command_config"]
        address = Address(created["bootstrap"], Path(config) if config else None)
        connection = None
        try:
            connection = connect(address)
            ours = Process.this()
            journal.write(
                connection.clock.now(),
                Kind.STARTED,
                {"pid": ours.pid, "pid_started": ours.started},
            )
            patience = SIMULATED_PATIENCE_SECONDS if address.simulated else math.inf
            Runner(journal, connection.client, connection.clock, patience_seconds=patience).run()
        except Exception as error:
            records = journal.records()
            at = max(record.at for record in records)  # the clock's own may be gone
            begun = any(record.kind is Kind.PREFLIGHT for record in records)
            if isinstance(error, TrimtabError) and not begun:
                logging.error("%s", error)
                journal.write(at, Kind.ENDED, {"outcome": "failed", "why": error.title})
                return error.exit_code
            journal.write(at, Kind.CRASHED, {"why": _in_a_sentence(error, path)})
            raise
        finally:
            if connection is not None:
                connection.client.close()
    return ExitCode.DONE


def _in_a_sentence(error: Exception, path: Path) -> str:
    words = error.title if isinstance(error, TrimtabError) else f"{type(error).__name__}: {error}"
    first = " ".join(words.split())[:200]
    return f"its process stopped on an error of its own ({first}); its log is {_log_path(path)}"


def main(argv: list[str]) -> int:
    """Detach, then serve: `JOURNAL LOCK`, where LOCK is the inherited descriptor of the lock."""
    if os.fork():
        os._exit(0)  # whoever started us need not wait for us, and no zombie is left
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return serve(Path(argv[0]))
    except Exception:
        logging.exception("the run's process ends on an error that it did not expect")
        return ExitCode.FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
