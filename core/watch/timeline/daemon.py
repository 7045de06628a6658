"""The recorder as a background process: start, stop, and its work."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from core import paths
from core.cluster.connect import Address, add_address_options, address_arguments, connected_by
from core.daemons.supervisor import Daemon, Supervisor
from core.errors import TrimtabError
from core.load import load_paths as layout

if TYPE_CHECKING:
    from core.daemons.service import Service
    from core.watch.timeline.events import Event

ROLE = "recorder"
STOP_SECONDS = 10.0

log = logging.getLogger("trimtab.record")


def start_recording(
    address: Address, cluster_id: str, snapshots: str | None = None
) -> Supervisor | None:
    """Keep the recorder going, and count as a reader, until closed.

    A recorder that is started tells of the load under `snapshots`, else of this machine's own.
    Returns at once; None for a simulated cluster, which is gone with its demo.
    """
    if address.is_simulated:
        return None
    arguments = address_arguments(address)
    if snapshots is not None:
        arguments += (f"--snapshots={snapshots}",)
    recorder = Daemon(ROLE, "core.watch.timeline.daemon", arguments, address.command_config)
    return Supervisor(layout.own_root(), cluster_id, (recorder,), stop_seconds=STOP_SECONDS)


def main(argv: list[str] | None = None) -> int:
    """Record one cluster until told to stop or until nobody reads."""
    from core.daemons.service import build_parser, run_service

    parser = build_parser(ROLE)
    add_address_options(parser)
    parser.add_argument("--snapshots")
    return run_service(ROLE, parser.parse_args(argv), _record, log=log)


def _record(service: Service) -> None:
    from core.daemons.service import ChangeLog
    from core.watch.timeline.recorder import record_cluster
    from core.watch.timeline.store import Timeline

    options, changes = service.options, ChangeLog(log)

    def note(what: list[Event] | TrimtabError) -> None:
        if isinstance(what, TrimtabError):
            changes.log(logging.WARNING, str(what), "%s", what)
        else:
            changes.log(logging.INFO, what, "%d changes", len(what))

    with connected_by(options) as connection:
        timeline = Timeline.write(paths.timeline_file(options.cluster_id))
        try:
            about = (options.cluster_id, timeline, options.snapshots)
            record_cluster(connection, *about, keep_on=service.keep_on, report=note)
        finally:
            timeline.close()


if __name__ == "__main__":
    sys.exit(main())
