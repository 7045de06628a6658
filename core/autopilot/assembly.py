"""Builds an autopilot from its observer, log, switch and runs, and runs it until it is off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from core import files, paths
from core.autopilot import switch as switches
from core.autopilot.act import elect_leaders, start_plan
from core.autopilot.log import Clause, DecisionLog, Entry, EntryKind, entry_brokers, timeline_clause
from core.autopilot.loop import Autopilot, run_loop
from core.autopilot.observer import ClusterObserver, ConfigReader
from core.autopilot.switch import Switch
from core.clock import SystemClock
from core.cluster.connect import Connection
from core.errors import DocumentError
from core.load.daemon import start_load
from core.load.load_source import load_root
from core.plan.formats.plan_file import format_plan_file
from core.plan.plan import Plan
from core.watch.timeline.daemon import start_recording
from core.watch.timeline.events import Kind
from core.watch.timeline.publisher import Publisher

ROLE = "autopilot"
PUBLISHER = "autopilot"


def suggestion_file(cluster_id: str) -> Path:
    """Return the file of the plan that mode `write_suggestion` would have carried out now."""
    return paths.autopilot_dir(cluster_id) / "suggested.json"


def run_autopilot(
    connection: Connection,
    switch: Switch,
    *,
    keep_on: Callable[[], bool],
    report: Callable[[Entry], None],
) -> None:
    """Fly one cluster until `keep_on` says no or its switch is off; whoever calls holds the lease.

    Its load and its timeline are kept going meanwhile. Raises TrimtabError when its log cannot be
    written.
    """
    cluster_id = switch.cluster_id
    with _keep_daemons(switch), Publisher(cluster_id) as publisher:

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
                load_root(switch.snapshots),
                ConfigReader(switch).read,
            ),
            connection.clock,
            DecisionLog(cluster_id),
            switch=lambda: _read_switch(cluster_id),
            start=start_plan,
            elect=lambda wanted, goes_on: elect_leaders(
                connection.client, connection.clock, cluster_id, wanted, goes_on
            ),
            suggest=lambda plan: write_suggestion(suggestion_file(cluster_id), plan),
            report=record_and_report,
            patient=not switch.address.is_simulated,  # a simulator that is gone never comes back
        )
        run_loop(autopilot, SystemClock(), keep_on=keep_on)


def record_switch(switch: Switch) -> None:
    """Write down, in the log and on the timeline, that somebody has set the switch."""
    entry = Entry(switch.changed_at, EntryKind.SWITCH, switches.describe(switch))
    DecisionLog(switch.cluster_id).add(entry)
    if switch.address.is_simulated:
        return
    with Publisher(switch.cluster_id) as publisher:
        text = Clause.SET.with_(f"{switch.mode.value} by {switch.who}")
        publisher.report(Kind.AUTOPILOT, by=PUBLISHER, text=text)


@contextmanager
def _keep_daemons(switch: Switch) -> Iterator[None]:
    """Keep collector, Spark and recorder going for as long as it flies."""
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
