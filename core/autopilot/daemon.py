"""The autopilot as a background process: start, switch, status, and its work."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from core import files, paths
from core.autopilot import switch as switches
from core.autopilot.history import DecisionHistory
from core.autopilot.log import (
    DecisionLog,
    Entry,
    EntryKind,
    build_history,
    entry_brokers,
    format_clause,
    timeline_clause,
)
from core.autopilot.loop import Autopilot, elect_leaders, run_loop, start_plan
from core.autopilot.observer import ClusterObserver, ConfigReader
from core.autopilot.settings import Mode
from core.autopilot.switch import Switch
from core.clock import Clock, SystemClock
from core.cluster.connect import Connection, add_address_options, address_arguments, connected_by
from core.daemons import metrics
from core.daemons.lease import is_leased, lease_file, lease_holder
from core.daemons.process import Process
from core.daemons.service import Service, build_parser, run_service
from core.daemons.supervisor import Daemon, start_daemon
from core.errors import DocumentError, TrimtabError, UsageError
from core.load import load_paths as layout
from core.load.daemon import start_load
from core.plan.formats.plan_file import format_plan_file
from core.plan.plan import Plan
from core.run import run_process
from core.run.control import request
from core.run.journal.journal import JournalError, journal_path
from core.run.reporting.runs import read_run
from core.run.reporting.views import RunStatus
from core.watch.timeline.daemon import start_recording
from core.watch.timeline.events import Kind
from core.watch.timeline.publisher import Publisher

ROLE = "autopilot"
PUBLISHER = "autopilot"
STOP_SECONDS = 30.0
"""How long a run that is just being started may take to be known, or to have failed."""
ENDING_SECONDS = 3.0
"""How long a process that has read *off* may take to end."""
POLL_SECONDS = 0.2

log = logging.getLogger("trimtab.autopilot")


def run_autopilot(
    connection: Connection,
    switch: Switch,
    *,
    keep_on: Callable[[], bool],
    report: Callable[[Entry], None],
) -> None:
    """Balance one cluster until `keep_on` says no or its switch is off; the caller holds the lease.

    Its load and its timeline are kept going meanwhile. Raises TrimtabError when its log cannot be
    written, UsageError when its metrics cannot be published.
    """
    cluster_id = switch.cluster_id
    suggestion = paths.autopilot_dir(cluster_id) / "suggested.json"
    with (
        _open_metrics(switch.metrics) as scraped,
        _run_daemons(switch),
        Publisher(cluster_id) as publisher,
    ):

        def record_and_report(entry: Entry) -> None:
            report(entry)
            clause = timeline_clause(entry)
            if clause and not switch.address.is_simulated:  # such a cluster has no timeline
                publisher.report(
                    Kind.AUTOPILOT, by=PUBLISHER, text=clause, brokers=entry_brokers(entry)
                )

        autopilot = Autopilot(
            ClusterObserver(
                connection.client,
                connection.clock,
                cluster_id,
                layout.root_of(switch.snapshots),
                ConfigReader(switch).read,
            ),
            connection.clock,
            DecisionLog(cluster_id),
            switch=lambda: _read_switch(cluster_id),
            start=start_plan,
            elect=lambda partitions, goes_on: elect_leaders(
                connection.client, connection.clock, cluster_id, partitions, goes_on
            ),
            suggest=lambda plan: write_suggestion(suggestion, plan),
            report=record_and_report,
            patient=not switch.address.is_simulated,  # a simulator that is gone never comes back
        )
        after_look = None
        if scraped is not None:
            after_look = _build_publish_callback(autopilot, switch, connection, scraped)
        run_loop(autopilot, SystemClock(), keep_on=keep_on, after_look=after_look)


@contextmanager
def _open_metrics(place: str | None) -> Iterator[metrics.Publisher | None]:
    if place is None:
        yield None
        return
    publisher = metrics.open_place(place)
    try:
        yield publisher
    finally:
        publisher.close()


def _build_publish_callback(
    autopilot: Autopilot, switch: Switch, connection: Connection, publisher: metrics.Publisher
) -> Callable[[], None]:
    """Return what publishes how an autopilot stands, to be called after each look."""
    from core.autopilot.metrics import (
        AutopilotReading,
        ClusterThrottles,
        autopilot_metrics,
        read_runs,
    )

    cluster_id = switch.cluster_id
    throttles = ClusterThrottles(connection.client, connection.clock, cluster_id)

    def publish() -> None:
        observed = autopilot.observed
        reading = AutopilotReading(
            _read_switch(cluster_id) or switch,
            autopilot.last,
            autopilot.history,
            observed,
            read_runs(cluster_id, observed),
            throttles.look(observed),
        )
        publisher.publish(autopilot_metrics(reading, connection.clock.now()))

    return publish


@contextmanager
def _run_daemons(switch: Switch) -> Iterator[None]:
    own = switch.starts_load and switch.snapshots is None
    reader = start_load(switch.address, switch.cluster_id) if own else None
    recording = start_recording(switch.address, switch.cluster_id, switch.snapshots)
    try:
        yield
    finally:
        for serving in (reader, recording):
            if serving is not None:
                serving.close()


def _read_switch(cluster_id: str) -> Switch | None:
    try:
        return switches.read(cluster_id)
    except DocumentError:
        return None


def write_suggestion(path: Path, plan: Plan | None) -> None:
    """Keep the plan that holds now in a file; one that holds no more is not left to be applied."""
    with suppress(OSError):  # the decision is in the log, and its moves with it
        if plan is None:
            path.unlink(missing_ok=True)
        else:
            files.write_text(path, format_plan_file(plan))


@dataclass(frozen=True, slots=True)
class AutopilotStatus:
    """How an autopilot stands; `process` is None while none runs."""

    switch: Switch
    process: Process | None
    last: Entry | None
    history: DecisionHistory


def set_switch(switch: Switch) -> None:
    """Set the switch, and write down in the log and on the timeline who did.

    Raises OSError or TrimtabError.
    """
    switches.write(switch)
    entry = Entry(switch.changed_at, EntryKind.SWITCH, switches.describe(switch))
    DecisionLog(switch.cluster_id).add(entry)
    if not switch.address.is_simulated:
        with Publisher(switch.cluster_id) as publisher:
            text = format_clause(EntryKind.SWITCH, f"{switch.mode.value} by {switch.who}")
            publisher.report(Kind.AUTOPILOT, by=PUBLISHER, text=text)


def switch_on(switch: Switch, clock: Clock) -> bool:
    """Set the switch to a mode in which it works; return whether a process is there for it.

    Else `start_autopilot` is due. Raises as `set_switch`.
    """
    before = _read_switch(switch.cluster_id)
    was_on = before is not None and before.mode is not Mode.OFF
    set_switch(switch)
    # A process that has read *off* already is about to end, and will not read this.
    deadline = clock.monotonic() + (0.0 if was_on else ENDING_SECONDS)
    while (running := is_running(switch.cluster_id)) and clock.monotonic() < deadline:
        clock.sleep(POLL_SECONDS)
    return running


def start_autopilot(switch: Switch) -> Process | None:
    """Start the process unless the cluster has one already; returns at once."""
    daemon = Daemon(
        ROLE,
        "core.autopilot.daemon",
        address_arguments(switch.address),
        switch.address.command_config,
        launcher=tuple(run_process.logout_policy().prefix()),
    )
    return start_daemon(daemon, switch.cluster_id, root=layout.own_root())


def is_running(cluster_id: str) -> bool:
    return is_leased(lease_file(paths.load_root(), cluster_id, ROLE))


def read_status(switch: Switch) -> AutopilotStatus:
    """Return how an autopilot stands, from its files alone."""
    entries = list(DecisionLog(switch.cluster_id).entries())
    return AutopilotStatus(
        switch,
        lease_holder(lease_file(paths.load_root(), switch.cluster_id, ROLE)),
        entries[-1] if entries else None,
        build_history(entries),
    )


def runs_in_progress(switch: Switch, clock: Clock) -> tuple[str, ...]:
    """Return the runs that go on after one was turned off.

    One that is just being started is waited for, STOP_SECONDS at most; raises TrimtabError when it
    is not known then.
    """
    deadline = clock.monotonic() + STOP_SECONDS
    was_running = running = is_running(switch.cluster_id)
    # Whether it runs is asked before the log is read: then what it wrote last is in there.
    while (history := read_status(switch).history).is_starting_run and running:
        if clock.monotonic() > deadline:
            break
        clock.sleep(POLL_SECONDS)
        running = is_running(switch.cluster_id)
    if history.is_starting_run and was_running:
        raise TrimtabError(
            f"The autopilot of {switch.name} is starting a run that is not known yet.",
            next="See `trimtab runs ls`.",
        )
    open_ = (act.run for act in history.acts if act.ended_at is None)
    return tuple(run for run in open_ if _may_be_running(switch.cluster_id, run))


def _may_be_running(cluster_id: str, run: str) -> bool:
    """Return whether a run has not ended since: nobody writes that down once it is off."""
    if not journal_path(cluster_id, run).exists():
        return False
    with suppress(JournalError):  # one that cannot be read may well go on
        state = read_run(cluster_id, run).state
        return not state.ended or state is RunStatus.DIED
    return True


def cancel_runs(switch: Switch, runs: Iterable[str]) -> str:
    """Cancel runs of an autopilot's; return why one could not be, "" when all are."""
    trouble = ""
    for run in runs:
        try:
            request(switch.cluster_id, run, "cancel")
        except UsageError as error:  # it has ended meanwhile, or is being cancelled already
            trouble = str(error.title)
    return trouble


def main(argv: list[str] | None = None) -> int:
    """Balance one cluster until its switch is off, or told to stop."""
    parser = build_parser(ROLE)
    add_address_options(parser)
    return run_service(ROLE, parser.parse_args(argv), _run, log=log)


def _run(service: Service) -> None:
    switch = switches.read(service.options.cluster_id)
    stop_requested = service.stop_requested
    if switch is not None:
        with connected_by(service.options, switch.address.capacity) as connection:
            run_autopilot(
                connection,
                switch,
                keep_on=lambda: not stop_requested.is_set(),
                report=lambda entry: log.info("%s: %s", entry.what.value, entry.text),
            )
    # Readers of its load keep other processes going; this one goes on for nobody.
    stop_requested.set()


if __name__ == "__main__":
    sys.exit(main())
