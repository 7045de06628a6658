"""The probe as a background process: start, stop, its work, and its newest report."""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from core import files, paths
from core.cluster.connect import Address, add_address_options, address_arguments, connected_by
from core.daemons.heartbeat import Heartbeat
from core.daemons.lease import is_leased, lease_file, lease_holder
from core.daemons.process import Process
from core.daemons.supervisor import Daemon, start_daemon, stop_daemons
from core.errors import DocumentError, TrimtabError
from core.load import load_paths as layout
from core.text.json_text import parse_json
from core.watch.client_health.report import ProbeReport, report_from_json

if TYPE_CHECKING:
    from core.daemons.service import Service

ROLE = "probe"
STOP_SECONDS = 20.0
START_SECONDS = 30.0
SILENT = timedelta(seconds=10)
"""A report older than this is of a probe that hangs or was killed."""

log = logging.getLogger("trimtab.probe")


@dataclass(frozen=True, slots=True)
class Probe:
    """A cluster's probe that was started, or found; `close` ends it if it was started here."""

    cluster_id: str
    root: Path
    heartbeat: Heartbeat
    process: Process | None
    """What was started; None when one ran already."""

    def wait(self) -> None:
        """Return once it has begun. Raises TrimtabError when it has ended, or takes too long."""
        deadline = time.monotonic() + START_SECONDS
        while self.process is not None:
            if layout.clients(self.root, self.cluster_id).exists():
                return
            if not self.process.alive:
                trouble = layout.clients_trouble(self.root, self.cluster_id)
                self._fail(layout.read_trouble(trouble) or "The probe has ended at once.")
            if time.monotonic() > deadline:
                self._fail(f"The probe has not begun within {START_SECONDS:g} s.")
            time.sleep(0.1)

    def _fail(self, why: str) -> NoReturn:
        self.close()
        raise TrimtabError(why, next="Run it in a terminal: trimtab probe.")

    def close(self) -> None:
        """Count as a reader no more, and have what was started here end; it is not waited for."""
        self.heartbeat.close()
        if self.process is not None:
            self.process.signal(15)


def start_probe(address: Address, cluster_id: str) -> Probe:
    """Start the cluster's probe unless one runs on this machine; its topic may be made.

    Returns at once. It ends when told to, or 60 s after the cluster's last reader has gone.
    """
    root = layout.own_root()
    layout.clients_trouble(root, cluster_id).unlink(missing_ok=True)
    if not is_leased(lease_file(root, cluster_id, ROLE)):
        # A killed probe left it, and it would be taken for the next one's.
        layout.clients(root, cluster_id).unlink(missing_ok=True)
    heartbeat = Heartbeat(root, cluster_id)
    daemon = Daemon(
        ROLE, "core.watch.client_health.daemon", address_arguments(address), address.command_config
    )
    return Probe(cluster_id, root, heartbeat, start_daemon(daemon, cluster_id, root=root))


def stop_probe(cluster_id: str) -> None:
    """End the cluster's probe, whoever started it; returns when it has ended."""
    stop_daemons(paths.load_root(), cluster_id, (ROLE,), seconds=STOP_SECONDS)


def write_trouble(root: Path, cluster_id: str, error: TrimtabError) -> None:
    """Leave why the probe ended for whoever started it."""
    files.write_text(layout.clients_trouble(root, cluster_id), error.title)


def probe_process(cluster_id: str) -> Process | None:
    """Return the process that probes this cluster on this machine."""
    return lease_holder(lease_file(paths.load_root(), cluster_id, ROLE))


def read_newest_report(cluster_id: str, now: datetime) -> ProbeReport | None:
    """Return what the cluster's probe reported last; None where none runs."""
    try:
        text = layout.clients(paths.load_root(), cluster_id).read_text(encoding="utf-8")
        report = report_from_json(parse_json(text))
    except (OSError, ValueError, DocumentError):
        return None
    return report if abs(now - report.at) < SILENT else None


def main(argv: list[str] | None = None) -> int:
    """Probe one cluster until told to stop or until nobody reads."""
    from core.daemons.service import build_parser, run_service

    parser = build_parser(ROLE)
    add_address_options(parser)
    options = parser.parse_args(argv)
    return run_service(
        ROLE,
        options,
        _probe,
        log=log,
        on_failure=lambda error: write_trouble(options.root, options.cluster_id, error),
    )


def _probe(service: Service) -> None:
    from core.watch.client_health.probe_loop import run_probe

    with connected_by(service.options) as connection:
        run_probe(
            connection,
            service.options.root,
            keep_on=service.keep_on,
            on_report=_note,
            say=log.warning,
        )


def _note(report: ProbeReport) -> None:
    for event in report.events:
        log.info("%s", event.text)


if __name__ == "__main__":
    sys.exit(main())
