"""The run's own process, which carries a plan to its end.

`python -P -m core.run.service JOURNAL LOCK`: a fresh interpreter, away from the terminal, that
holds the one lock of its cluster on this machine. Nothing depends on whoever started it. One that
was brought back is nothing special: it reads the same journal and goes on.
"""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core import passwords
from core.clock import SteadyClock
from core.cluster.capacity import configured_capacity
from core.cluster.connect import Address, connect
from core.cluster.probe.produce_latency import start_probe
from core.daemons.metrics import open_place
from core.daemons.process import Process
from core.errors import ExitCode, TrimtabError, UsageError
from core.run.audited_client import audited
from core.run.journal.journal import SUFFIX, Journal
from core.run.journal.records import Kind
from core.run.options import (
    address_from_json,
    address_of,
    address_to_json,
    with_configured_timeout,
)
from core.run.reporting.notifier import Notifier
from core.run.reporting.runs import calibration
from core.run.run_process import log_path
from core.settings import Settings, load_settings

if TYPE_CHECKING:
    from core.run.reporting.metrics import RunMetrics

SIMULATED_PATIENCE_SECONDS = 3.0
"""A simulator that is gone never comes back; real clusters are waited for."""


def serve(path: Path, elsewhere: Address | None = None, lock: int | None = None) -> int:
    """Carry a run to its end in this process; returns its exit code.

    `elsewhere` is where its cluster is now, if not where the journal says; `lock` is given back
    as the run ends, before anybody is told of it: another run may start meanwhile.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    with Journal.open(path) as journal:
        journal.check()
        try:
            settings = load_settings()
        except UsageError as error:  # a config.toml that cannot be read does not hold it up
            settings = Settings()
            failed = {"event": "start", "by": "config.toml", "why": error.title}
            journal.write(journal.records()[-1].at, Kind.NOTIFIED, failed)
        notifier = Notifier(settings.notify)
        metrics = _start_metrics(journal)
        try:
            return _carry_out(journal, elsewhere, notifier, settings)
        finally:
            if metrics is not None:
                metrics.end()  # the next run may want the same port
            if lock is not None:
                os.close(lock)
            notifier.end(journal)


def _start_metrics(journal: Journal) -> RunMetrics | None:
    """Publish metrics where that was asked for; a place that fails by now does not hold it up."""
    created = journal.records()[0]
    place = created.payload["options"].get("metrics")
    if place is None:
        return None
    from core.run.reporting.metrics import RunMetrics

    try:
        publisher = open_place(place)
    except UsageError as error:
        failed = {"event": "start", "by": "metrics", "why": error.title}
        journal.write(journal.records()[-1].at, Kind.NOTIFIED, failed)
        return None
    return RunMetrics(publisher, created.payload["cluster_id"], created.payload["run"])


def _carry_out(
    journal: Journal, elsewhere: Address | None, notifier: Notifier, settings: Settings
) -> int:
    from core.run.engine.executor import Executor
    from core.run.engine.preflight import load_as_known

    path = journal.path
    created = journal.records()[0].payload
    known = address_of(journal.records())
    address = elsewhere or known
    if address.timeout_seconds is None:
        address = replace(address, timeout_seconds=known.timeout_seconds)
    name = created["cluster_name"]
    address = replace(
        with_configured_timeout(address, name),
        capacity=configured_capacity(settings, name, address.bootstrap),
        balancer_topics=settings.balancer_topics,
    )
    client = None
    try:
        connection = connect(address)
        client = connection.client
        ours = Process.this()
        unsaved = list(passwords.passwords_of(address.command_config))
        steady = SteadyClock(connection.clock, journal.last_at())
        journal.write(
            steady.now(),
            Kind.STARTED,
            {"pid": ours.pid, "pid_started": ours.started}
            | ({"unsaved_passwords": unsaved} if unsaved else {})
            | ({"address": address_to_json(elsewhere)} if elsewhere else {}),
        )
        patience = SIMULATED_PATIENCE_SECONDS if address.is_simulated else math.inf
        cluster_id, snapshots = created["cluster_id"], created["options"].get("snapshots")
        run = path.name.removesuffix(SUFFIX)
        audit = partial(audited, cluster_id=cluster_id, run=run)
        client = audit(client)
        Executor(
            journal,
            client,
            connection.clock,
            patience_seconds=patience,
            open_probe=lambda brokers: start_probe(address, run, brokers, steady, audit),
            on_look=notifier.look,
            learned=lambda: calibration(cluster_id),
            load=lambda state: load_as_known(state, snapshots),
        ).run()
    except Exception as error:
        records = journal.records()
        at = max(record.at for record in records)  # the clock's own may be gone
        begun = any(record.kind is Kind.PREFLIGHT for record in records)
        if isinstance(error, TrimtabError) and not begun:
            logging.error("%s", error)
            journal.write(at, Kind.ENDED, {"outcome": "failed", "why": error.title})
            return error.exit_code
        title = getattr(error, "title", f"{type(error).__name__}: {error}")
        first = " ".join(title.split())[:200]
        why = f"its process stopped on an error of its own ({first}); its log is {log_path(path)}"
        journal.write(at, Kind.CRASHED, {"why": why})
        raise
    finally:
        if client is not None:
            client.close()
    return ExitCode.DONE


def main(argv: list[str]) -> int:
    """Detach, then serve: `[ON_STDIN] JOURNAL LOCK [ADDRESS]`, LOCK being its open descriptor.

    The address is JSON, in the journal's form, where it is not the journal's own.
    """
    if os.fork():
        os._exit(0)  # whoever started us need not wait for us, and no zombie is left
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if argv[0] == passwords.ON_STDIN:
        passwords.receive()
        argv = argv[1:]
    address = address_from_json(json.loads(argv[2])) if argv[2:] else None
    try:
        return serve(Path(argv[0]), address, int(argv[1]))
    except Exception:
        logging.exception("the run's process ends on an error that it did not expect")
        return ExitCode.FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
