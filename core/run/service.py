"""The run's own process: how it is started, brought back when it has died, and what it does.

`python -P -m core.run.service JOURNAL LOCK`: a fresh interpreter, away from the terminal, that
holds the one lock of its cluster on this machine. Nothing depends on whoever started it. One that
was brought back is nothing special: it reads the same journal and goes on.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.cluster.connect import Address, connect
from core.cluster.probe import open_probe
from core.errors import ExitCode, RefusedError, TrimtabError, UnreachableError, UsageError
from core.plan.plan import Plan
from core.process import Process
from core.run import audit
from core.run.audited import audited
from core.run.creation import RunOptions, address_to_json, create_journal
from core.run.history import History
from core.run.journal import SUFFIX, Journal, Kind, Record, journal_path
from core.run.lock import BusyError, take_lock
from core.run.notify import Notifier
from core.run.requests import request
from core.run.runs import read_journal
from core.run.spawning import await_start, log_path, log_size, spawn
from core.run.view import RunState
from core.settings import NotifyBy, load_settings

__all__ = ["RunOptions", "create_journal", "recover", "request", "serve", "start_run"]

GOING_SECONDS = 2.0
"""How long a process that has just died, or another that is being started, may hold the lock."""
AUDITED_MOVES = 200
"""Longer plans are in the audit by their hash; the journal has all of them."""
SIMULATED_PATIENCE_SECONDS = 3.0
"""A simulator that is gone never comes back; real clusters are waited for."""


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
        _note_start(path, cluster_id, plan, options, address)
        spawn(path, lock)
    finally:
        os.close(lock)
    await_start(path, cluster_id)
    return path.name.removesuffix(SUFFIX)


def _note_start(
    path: Path, cluster_id: str, plan: Plan, options: RunOptions, address: Address
) -> None:
    """Write into the audit what is asked for; where that cannot be, there is no run."""
    moves = [[str(move.tp), list(move.before), list(move.after)] for move in plan]
    digest = hashlib.sha256(json.dumps(moves).encode()).hexdigest()
    told = {"moves": moves} if len(moves) <= AUDITED_MOVES else {"moves_sha256": digest}
    try:
        audit.note(
            cluster_id,
            path.name.removesuffix(SUFFIX),
            "apply",
            bootstrap=address.bootstrap,
            count=len(moves),
            **told,
            options=options.to_json(),
        )
    except audit.AuditError:
        path.unlink()
        raise


def _now(address: Address) -> datetime:
    """Return the time by the clock that the run will live by."""
    if not address.simulated:
        return datetime.now(UTC)
    connection = connect(address)
    try:
        return connection.clock.now()
    finally:
        connection.client.close()


# -- bringing it back ------------------------------------------------------------------------------


def recover(cluster_id: str, run: str, *, address: Address | None = None) -> None:
    """Bring a run back whose process has died: another one goes on from its journal.

    `address` is where its brokers are now, if not where they were. Does nothing for a run that
    lives. Raises UsageError for one that has ended, BusyError while another works on the
    cluster, RefusedError when the address leads to another cluster, UnreachableError when it
    leads nowhere, JournalError when the journal cannot be trusted or written.
    """
    path = journal_path(cluster_id, run)
    _refuse_ended(read_journal(cluster_id, run).history)
    lock = _lock_of_dead(cluster_id, run)
    if lock is None:
        return
    try:
        with Journal.open(path) as journal:
            journal.check()
            journal.prove_writable()
            records = journal.records()
        history = History.fold(records)
        _refuse_ended(history)
        where = address or address_of(records)
        _refuse_other(where, history)
        audit.note(cluster_id, run, "bring back", bootstrap=where.bootstrap)
        since = log_size(path)
        spawn(path, lock, address)
    finally:
        os.close(lock)
    await_start(path, cluster_id, after=records[-1].seq, log_from=since)


def _lock_of_dead(cluster_id: str, run: str) -> int | None:
    """Return the cluster's lock, or None when the run lives (again)."""
    deadline = time.monotonic() + GOING_SECONDS
    while read_journal(cluster_id, run).view.state is RunState.DIED:
        try:
            return take_lock(cluster_id)
        except BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    return None


def address_of(records: Iterable[Record]) -> Address:
    """Return where a run's cluster was last reached, by its journal."""
    told = [
        record.payload["address"]
        for record in records
        if record.kind in (Kind.CREATED, Kind.STARTED) and record.payload.get("address")
    ]
    config = told[-1]["command_config"]
    return Address(told[-1]["bootstrap"], Path(config) if config else None)


def _refuse_ended(history: History) -> None:
    if history.ended is not None:
        how = f"Run {history.run} has ended ({history.ended.value})"
        raise UsageError(f"{how}: there is nothing to bring back.", next="Nothing was changed.")


def _refuse_other(address: Address, history: History) -> None:
    """Raise unless this is the cluster that the run works on."""
    try:
        connection = connect(address)
        try:
            found = connection.client.describe().cluster_id
        finally:
            connection.client.close()
    except UnreachableError as error:
        raise UnreachableError(
            error.title,
            detail=f"Run {history.run} stays as it is until its cluster answers.",
            next="If its brokers have other addresses now, say -b HOST:PORT.",
        ) from error
    if found != history.cluster_id:
        raise RefusedError(
            f"{address.bootstrap} is cluster {found}; run {history.run} works on "
            f"{history.cluster_id}.",
            next="Say -b HOST:PORT of that one; nothing was changed.",
        )


# -- the process -----------------------------------------------------------------------------------


def serve(path: Path, elsewhere: Address | None = None, lock: int | None = None) -> int:
    """Carry a run to its end in this process; returns its exit code.

    `elsewhere` is where its cluster is now, if not where the journal says; `lock` is given back
    as the run ends, before anybody is told of it: another run may start meanwhile.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    with Journal.open(path) as journal:
        journal.check()
        notifier = Notifier(_notify_by(journal))
        try:
            return _carry_out(journal, elsewhere, notifier)
        finally:
            if lock is not None:
                os.close(lock)
            notifier.end(journal)


def _carry_out(journal: Journal, elsewhere: Address | None, notifier: Notifier) -> int:
    from core.run.runner import Runner

    path = journal.path
    address = elsewhere or address_of(journal.records())
    connection = None
    try:
        connection = connect(address)
        ours = Process.this()
        journal.write(
            connection.clock.now(),
            Kind.STARTED,
            {"pid": ours.pid, "pid_started": ours.started}
            | ({"address": address_to_json(elsewhere)} if elsewhere else {}),
        )
        patience = SIMULATED_PATIENCE_SECONDS if address.simulated else math.inf
        cluster_id = journal.records()[0].payload["cluster_id"]
        run, clock = path.name.removesuffix(SUFFIX), connection.clock
        Runner(
            journal,
            audited(connection.client, cluster_id, run),
            clock,
            patience_seconds=patience,
            open_probe=lambda brokers: open_probe(address, run, brokers, clock),
            on_look=notifier.look,
        ).run()
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


def _notify_by(journal: Journal) -> NotifyBy:
    """Return whom to tell of this run; a config.toml that cannot be read does not hold it up."""
    try:
        return load_settings().notify
    except UsageError as error:
        told = {"event": "start", "by": "config.toml", "why": error.title}
        journal.write(journal.records()[-1].at, Kind.NOTIFIED, told)
        return NotifyBy()


def _in_a_sentence(error: Exception, path: Path) -> str:
    words = error.title if isinstance(error, TrimtabError) else f"{type(error).__name__}: {error}"
    first = " ".join(words.split())[:200]
    return f"its process stopped on an error of its own ({first}); its log is {log_path(path)}"


def main(argv: list[str]) -> int:
    """Detach, then serve: `JOURNAL LOCK [BOOTSTRAP CONFIG]`, LOCK being its open descriptor."""
    if os.fork():
        os._exit(0)  # whoever started us need not wait for us, and no zombie is left
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    elsewhere = argv[2:]
    address = (
        Address(elsewhere[0], Path(elsewhere[1]) if elsewhere[1] else None) if elsewhere else None
    )
    try:
        return serve(Path(argv[0]), address, int(argv[1]))
    except Exception:
        logging.exception("the run's process ends on an error that it did not expect")
        return ExitCode.FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
