"""Brings back a run whose process has died: another one goes on from its journal."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import replace

from core.cluster.connect import Address, connect
from core.cluster.known_names import name_and_id
from core.errors import RefusedError, UnreachableError, UsageError
from core.run import audit
from core.run.journal.journal import Journal, journal_path
from core.run.journal.replay import fold
from core.run.journal.run_state import RunState
from core.run.options import (
    address_of,
    with_configured_timeout,
    without_configured_timeout,
)
from core.run.reporting.runs import read_journal
from core.run.reporting.views import RunStatus
from core.run.run_process import BusyError, await_start, log_size, spawn, take_lock

GOING_SECONDS = 2.0
"""How long a process that has just died, or another that is being started, may hold the lock."""


def recover(
    cluster_id: str,
    run: str,
    *,
    address: Address | None = None,
    timeout_seconds: float | None = None,
) -> None:
    """Bring a run back whose process has died: another one goes on from its journal.

    `address` is where its brokers are now, if not where they were; `timeout_seconds` another
    timeout, where only that is another one. Does nothing for a run that
    lives. Raises UsageError for one that has ended, BusyError while another works on the
    cluster, RefusedError when the address leads to another cluster, UnreachableError when it
    leads nowhere, JournalError when the journal cannot be trusted or written.
    """
    path = journal_path(cluster_id, run)
    _refuse_ended(read_journal(cluster_id, run).state)
    lock = _take_lock_if_dead(cluster_id, run)
    if lock is None:
        return
    try:
        with Journal.open(path) as journal:
            journal.check()
            journal.prove_writable()
            records = journal.records()
        state = fold(records)
        _refuse_ended(state)
        where, moved = address_of(records), address is not None or timeout_seconds is not None
        if address is not None:
            where = without_configured_timeout(address, state.cluster_name)
        elif timeout_seconds is not None:
            where = replace(where, timeout_seconds=timeout_seconds)
        _refuse_other_cluster(with_configured_timeout(where, state.cluster_name), state)
        audit.note(cluster_id, run, "bring back", bootstrap=where.bootstrap)
        since = log_size(path)
        spawn(path, lock, where, moved=moved)
    finally:
        os.close(lock)
    await_start(path, cluster_id, after=records[-1].seq, log_from=since)


def _take_lock_if_dead(cluster_id: str, run: str) -> int | None:
    """Return the cluster's lock, or None when the run lives (again)."""
    deadline = time.monotonic() + GOING_SECONDS
    while read_journal(cluster_id, run).view.state is RunStatus.DIED:
        try:
            return take_lock(cluster_id)
        except BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    return None


def _refuse_ended(run: RunState) -> None:
    if run.ended is not None:
        how = f"Run {run.run_id} has ended ({run.ended.value})"
        raise UsageError(f"{how}: there is nothing to bring back.", next="Nothing was changed.")


def _refuse_other_cluster(address: Address, run: RunState) -> None:
    try:
        with closing(connect(address).client) as client:
            cluster_id = client.describe_cluster().cluster_id
    except UnreachableError as error:
        raise UnreachableError(
            error.title,
            detail=f"Run {run.run_id} stays as it is until its cluster answers.",
            next="If its brokers have other addresses now, say -b HOST:PORT.",
        ) from error
    if cluster_id != run.cluster_id:
        raise RefusedError(
            f"{address.bootstrap} is cluster {name_and_id(cluster_id)}; run {run.run_id} works on "
            f"{name_and_id(run.cluster_id)}.",
            next="Give -b HOST:PORT of that one; nothing was changed.",
        )
