"""The autopilot as a background process: start, switch, status, and its work."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from core import paths
from core.autopilot import switch as switches
from core.autopilot.assembly import ROLE, record_switch, run_autopilot
from core.autopilot.history import DecisionHistory
from core.autopilot.log import DecisionLog, Entry, build_history
from core.autopilot.settings import Mode
from core.autopilot.switch import Switch
from core.clock import Clock
from core.cluster.connect import add_address_options, address_arguments, connected_by
from core.daemons.lease import is_leased, lease_file, lease_holder
from core.daemons.process import Process
from core.daemons.service import Service, build_parser, run_service
from core.daemons.supervisor import Daemon, start_daemon
from core.errors import DocumentError, TrimtabError, UsageError
from core.load import load_paths as layout
from core.run import run_process
from core.run.control import request
from core.run.journal.journal import JournalError, journal_path
from core.run.reporting.runs import read_run
from core.run.reporting.views import RunStatus

STOP_SECONDS = 30.0
"""How long a run that is just being started may take to be known, or to have failed."""
ENDING_SECONDS = 3.0
"""How long a process that has read *off* may take to end."""
POLL_SECONDS = 0.2

log = logging.getLogger("trimtab.autopilot")


@dataclass(frozen=True, slots=True)
class AutopilotStatus:
    """How an autopilot stands; `process` is None while nobody flies."""

    switch: Switch
    process: Process | None
    last: Entry | None
    history: DecisionHistory


def set_switch(switch: Switch) -> None:
    """Set the switch and write down who did; raises OSError or TrimtabError."""
    switches.write(switch)
    record_switch(switch)


def switch_on(switch: Switch, clock: Clock) -> bool:
    """Set the switch to a mode that flies; return whether somebody flies on by it.

    Else nobody does, and `start_autopilot` is due. Raises as `set_switch`.
    """
    was_on = _is_on(switch.cluster_id)
    set_switch(switch)
    # Who has read *off* already is about to end, and will not read this.
    deadline = clock.monotonic() + (0.0 if was_on else ENDING_SECONDS)
    while (flies := is_running(switch.cluster_id)) and clock.monotonic() < deadline:
        clock.sleep(POLL_SECONDS)
    return flies


def start_autopilot(switch: Switch) -> Process | None:
    """Start the process unless one flies this cluster already; returns at once."""
    root = paths.load_root()
    layout.mark(root)
    daemon = Daemon(
        ROLE,
        "core.autopilot.daemon",
        address_arguments(switch.address),
        switch.address.command_config,
        launcher=tuple(run_process.logout_policy().prefix()),
    )
    return start_daemon(daemon, switch.cluster_id, root=root)


def is_running(cluster_id: str) -> bool:
    return is_leased(lease_file(paths.load_root(), cluster_id, ROLE))


def _is_on(cluster_id: str) -> bool:
    try:
        before = switches.read(cluster_id)
    except DocumentError:
        return False
    return before is not None and before.mode is not Mode.OFF


def read_status(switch: Switch) -> AutopilotStatus:
    """Return how an autopilot stands, from its files alone."""
    entries = list(DecisionLog(switch.cluster_id).entries())
    return AutopilotStatus(
        switch,
        lease_holder(lease_file(paths.load_root(), switch.cluster_id, ROLE)),
        entries[-1] if entries else None,
        build_history(entries),
    )


def switch_off(switch: Switch, *, at: datetime, who: str) -> None:
    """Turn an autopilot off; needs neither the cluster nor its process.

    Raises OSError or TrimtabError.
    """
    set_switch(switch.turned(Mode.OFF, at=at, who=who))


def runs_in_progress(switch: Switch, clock: Clock) -> tuple[str, ...]:
    """Return the runs that go on after one was turned off.

    One that is just being started is waited for, STOP_SECONDS at most; raises TrimtabError when it
    is not known then.
    """
    deadline = clock.monotonic() + STOP_SECONDS
    flew = flies = is_running(switch.cluster_id)
    # Whether it flies is asked before the log is read: then what it wrote last is in there.
    while (history := read_status(switch).history).is_starting_run and flies:
        if clock.monotonic() > deadline:
            break
        clock.sleep(POLL_SECONDS)
        flies = is_running(switch.cluster_id)
    if history.is_starting_run and flew:
        raise TrimtabError(
            f"The autopilot of {switch.name} is starting a run that is not known yet.",
            next="Look: trimtab runs ls.",
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


# -- the process -----------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Fly one cluster until its switch is off, or told to stop."""
    parser = build_parser(ROLE)
    add_address_options(parser)
    return run_service(ROLE, parser.parse_args(argv), _run, log=log)


def _run(service: Service) -> None:
    switch = switches.read(service.options.cluster_id)
    stop_requested = service.stop_requested
    if switch is not None:
        with connected_by(service.options, switch.address.capacity) as connection:
            run_autopilot(
                connection, switch, keep_on=lambda: not stop_requested.is_set(), report=_note
            )
    # Readers of its load keep other processes going; this one goes on for nobody.
    stop_requested.set()


def _note(entry: Entry) -> None:
    log.info("%s: %s", entry.what.value, entry.text)


if __name__ == "__main__":
    sys.exit(main())
