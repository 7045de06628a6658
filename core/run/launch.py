"""Starts a run: options completed, journal made, process started."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.cluster.connect import Address, connect
from core.cluster.state import ClusterState
from core.daemons.metrics import check_place
from core.load.load import Load
from core.plan.batches import BatchInput
from core.plan.estimate.estimate import Estimate
from core.plan.estimate.estimate_json import format_estimate
from core.plan.plan import Plan
from core.run import audit
from core.run.external.leftovers import refuse_conflicts
from core.run.journal.journal import SUFFIX, remove_journal
from core.run.options import (
    RunOptions,
    create_journal,
    with_configured_metrics,
)
from core.run.run_process import await_start, spawn, take_lock
from core.run.throttles.adaptive_rate import spare_rates

AUDITED_MOVES = 200
"""Longer plans are in the audit by their hash; the journal has all of them."""
NAMING_SECONDS = 10.0
"""How long a run that is just being started may take to have a name."""


def launch(
    address: Address,
    state: ClusterState,
    plan: Plan,
    options: RunOptions,
    estimate: Estimate | None,
    *,
    load: Load,
) -> str:
    """Start a run of `plan`, in batches in the order that helps most; return its id.

    The command line, the dashboard and the autopilot all start runs by this. Raises what
    `start_run` does.
    """
    options = with_batches(options, state, load, plan)
    document = None if estimate is None else format_estimate(estimate)
    return start_run(address, state.cluster_id, plan, options, document)


def start_run(
    address: Address,
    cluster_id: str,
    plan: Plan,
    options: RunOptions,
    estimate: Mapping[str, Any] | None,
) -> str:
    """Start a detached process that carries `plan` out; return the run's id.

    `estimate` is its JSON document, kept for the report. Raises BusyError while another run of
    this cluster lives, RefusedError while something is left that another did, IncompleteError
    when that is not known, UsageError where its metrics cannot be published, JournalError when
    the journal cannot be made, TrimtabError when the process does not come up.
    """
    lock = take_lock(cluster_id, patience_seconds=NAMING_SECONDS)
    try:
        refuse_conflicts(cluster_id, address)
        options = with_configured_metrics(options, address)
        if options.metrics is not None:
            check_place(options.metrics)
        at = _now(address)
        journal = create_journal(address, cluster_id, plan, options, estimate, at=at)
        path = journal.path
        journal.close()
        _note_start(path, cluster_id, plan, options, address)
        try:
            spawn(path, lock, address)
        except OSError:
            remove_journal(path)  # nothing was begun, and nothing can go on
            raise
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
    listed = {"moves": moves} if len(moves) <= AUDITED_MOVES else {"moves_sha256": digest}
    try:
        audit.note(
            cluster_id,
            path.name.removesuffix(SUFFIX),
            "apply",
            bootstrap=address.bootstrap,
            count=len(moves),
            **listed,
            options=options.to_json(),
        )
    except audit.AuditError:
        remove_journal(path)
        raise


def _now(address: Address) -> datetime:
    """Return the time by the clock that the run will live by."""
    if not address.is_simulated:
        return datetime.now(UTC)
    connection = connect(address)
    with closing(connection.client):
        return connection.clock.now()


def with_batches(options: RunOptions, state: ClusterState, load: Load, plan: Plan) -> RunOptions:
    """Return options with batches in the order that helps most, and with bounds that know spares.

    An adaptive run is reckoned with the rate that is expected, but begins at its least.
    """
    auto = options.auto and replace(options.auto, spare_bytes_per_s=spare_rates(state, load))
    schedule = BatchInput.of(state, load, plan).in_batches(
        rate_bytes_per_s=options.rate_bytes_per_s,
        first_bytes_per_s=auto.min_bytes_per_s if auto else None,
        max_moves=options.batch_size,
        max_extra_bytes=options.max_extra_bytes,
    )
    rows = ((index, state.find(move.tp)) for index, move in enumerate(plan))
    rates = {i: float(load.in_bytes_per_s[row]) for i, row in rows if row is not None}
    produced = {index: round(rate, 1) for index, rate in rates.items() if rate > 0}
    return replace(
        options, auto=auto, batches=schedule.batches, long=schedule.long, produced=produced
    )
