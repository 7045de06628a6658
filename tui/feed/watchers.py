"""What the feed follows beside the cluster's picture: runs, groups, whether it is for drills."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event as Flag
from typing import TYPE_CHECKING

from core.errors import AccessDeniedError, TrimtabError, UnreachableError
from tui.feed.events import (
    AutopilotChanged,
    CalibrationChanged,
    ClientsChanged,
    Deliver,
    DrillTargetDetected,
    GroupsChanged,
    RunChanged,
    Trouble,
)

if TYPE_CHECKING:
    from core.cluster.connect import Address, Connection
    from core.cluster.documents.cluster_document import DocumentGroup
    from core.cluster.state import ClusterState
    from core.run.reporting.views import RunView
    from core.watch.client_health.report import ProbeReport

RUN_POLL_SECONDS = 1.0
GROUPS_POLL_SECONDS = 30.0
CLIENTS_POLL_SECONDS = 1.0
AUTOPILOT_POLL_SECONDS = 2.0


class Attempts:
    """Lets what follows something go on through what fails; `what` names it where a file does.

    Each trouble is told once, and again only after an attempt that succeeded. Of a lost cluster
    what reads the picture tells, and nothing else does.
    """

    def __init__(self, send: Deliver, what: str) -> None:
        self._send, self._what = send, what
        self._reported: set[str] = set()

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Run one look; what it raises as TrimtabError or OSError is told."""
        try:
            yield
        except UnreachableError:
            pass
        except TrimtabError as error:
            self._report(error)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            self._report(
                TrimtabError(
                    f"{self._what} cannot be read: {place}{error.strerror or error}.",
                    next="It is tried again until it can.",
                )
            )
        else:
            self._reported.clear()

    def _report(self, error: TrimtabError) -> None:
        if str(error) not in self._reported:
            self._reported.add(str(error))
            self._send(Trouble(error))


def watch_runs(state: Callable[[], ClusterState | None], send: Deliver, stopped: Flag) -> None:
    """Follow the newest run of this cluster, and what all of them teach, until `stopped`."""
    from core.plan.estimate.calibration import NOTHING_LEARNED
    from core.run.reporting.runs import calibration, list_runs, read_run, runs_named, unreadable

    last: RunView | None = None
    learned = NOTHING_LEARNED
    newest, known = "", tuple[str, ...]()
    damaged: tuple[str, ...] = ()
    reported: set[str] = set()
    taught = none_sent = False
    attempts = Attempts(send, "The newest run")
    while not stopped.is_set():
        now = state()
        with attempts.attempt():
            if now is not None:
                names = runs_named(now.cluster_id, "")
                if names != known:  # all of them are read only as one comes or goes
                    taught = True
                    runs = list_runs(now.cluster_id)
                    newest = runs[0].run if runs else ""
                    known = names if len(runs) == len(names) else ()  # one may not be readable yet
                    before, damaged = damaged, () if known else unreadable(now.cluster_id)
                    # At the second look: one that is being created is not whole for a moment.
                    for why in sorted({*before} & {*damaged} - reported):
                        reported.add(why)
                        send(Trouble(TrimtabError(why, next="That run is not shown.")))
                if newest:
                    view = read_run(now.cluster_id, newest)
                    if view != last:
                        taught |= view.state.ended and not (last is not None and last.state.ended)
                        last = view
                        send(RunChanged(view))
                elif not none_sent:
                    send(RunChanged(None))
                    none_sent = True
                if taught:
                    new_calibration, taught = calibration(now.cluster_id), False
                    if new_calibration != learned:
                        learned = new_calibration
                        send(CalibrationChanged(learned))
        stopped.wait(RUN_POLL_SECONDS)


def watch_groups(
    connection: Callable[[], Connection | None], send: Deliver, running: Flag, stopped: Flag
) -> None:
    """Follow consumer groups slowly; when they cannot be listed they stay what they were."""
    from core.cluster.documents.cluster_document import fetch_document_groups

    known: tuple[DocumentGroup, ...] | None = None
    attempts = Attempts(send, "The list of groups")
    while not stopped.is_set():
        running.wait()
        now = connection()
        with attempts.attempt():
            try:
                if now is not None:
                    groups = fetch_document_groups(now.client, known)
                    if groups is not None or known is not None:
                        send(GroupsChanged(groups))
                    known = known if groups is None else groups
            except AccessDeniedError as error:
                why = f"Consumer groups and their lag are not shown: {error.title}"
                raise AccessDeniedError(why, next=error.next) from error
        stopped.wait(GROUPS_POLL_SECONDS)


def watch_clients(cluster_id: str, send: Deliver, stopped: Flag) -> None:
    """Follow what this cluster's probe on this machine reports, whoever began it."""
    from core.clock import SystemClock
    from core.watch.client_health.daemon import read_newest_report

    last: ProbeReport | None = None
    while not stopped.is_set():
        report = read_newest_report(cluster_id, SystemClock().now())
        if report != last:
            last = report
            send(ClientsChanged(report))
        stopped.wait(CLIENTS_POLL_SECONDS)


def watch_autopilot(state: Callable[[], ClusterState | None], send: Deliver, stopped: Flag) -> None:
    """Follow the autopilot's switch, process and decisions, whoever set it, until `stopped`."""
    from core.autopilot.daemon import is_running, read_status
    from core.autopilot.log import DecisionLog
    from core.autopilot.switch import read, switch_file

    last: object = None
    attempts = Attempts(send, "The autopilot")
    while not stopped.is_set():
        now = state()
        with attempts.attempt():
            if now is not None and (path := switch_file(now.cluster_id)).exists():
                files = (path, DecisionLog(now.cluster_id).path)
                stamps = [f.stat().st_mtime_ns if f.exists() else 0 for f in files]
                current = (now.cluster_id, stamps, is_running(now.cluster_id))
                if current != last:
                    if (switch := read(now.cluster_id)) is not None:
                        send(AutopilotChanged(read_status(switch)))
                    last = current
        stopped.wait(AUTOPILOT_POLL_SECONDS)


def find_ground(address: Address, cluster_id: str, send: Deliver, stopped: Flag) -> None:
    """Tell whether this cluster was made for drills; what is opened for them is closed at last."""
    from core.cluster.drills.target import find_drill_target

    try:
        ground = find_drill_target(address, cluster_id)
    except UnreachableError:
        return
    if ground is not None:
        send(DrillTargetDetected(ground))
        stopped.wait()
        ground.close()
