"""The recorder as a background process: start, stop, and its work."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core import paths
from core.cluster.connect import Address
from core.daemons import supervisor as serving
from core.daemons.heartbeat import Heartbeat
from core.daemons.supervisor import Kept, Notes, Service, arguments, serve
from core.errors import TrimtabError
from core.load import layout
from core.watch.timeline.events import Event
from core.watch.timeline.recorder import record_cluster
from core.watch.timeline.store import Timeline

ROLE = "recorder"
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Recording:
    """A cluster that is being recorded for as long as somebody looks at it, and 60 s more."""

    cluster_id: str
    root: Path
    heartbeat: Heartbeat
    kept: Kept

    def trouble(self) -> str | None:
        """Return why nothing is recorded; None while it is fine."""
        why = self.kept.trouble
        return None if why is None else f"The recorder cannot be started: {why}."

    def close(self) -> None:
        """Look no more."""
        self.heartbeat.close()

    def stop(self) -> None:
        """End the recorder now, whoever else looks; returns when it has ended."""
        self.close()
        started = self.kept.started
        serving.stop(self.root, self.cluster_id, (ROLE,), started=started, seconds=STOP_SECONDS)


def start_recording(
    address: Address, cluster_id: str, snapshots: str | None = None, *, root: Path | None = None
) -> Recording | None:
    """Keep the recorder going, and count as a reader, until closed.

    One that is started tells of the load under `snapshots`, else of this machine's own. Returns
    at once; None for a simulated cluster, which is gone with its demo.
    """
    if address.simulated:
        return None
    root = root or paths.load_root()
    layout.mark(root)
    module = "core.watch.timeline.daemon"
    words = () if snapshots is None else (f"--snapshots={snapshots}",)
    start = partial(serving.start, ROLE, module, cluster_id, root=root, address=address)
    kept = Kept(partial(start, words=words))
    return Recording(cluster_id, root, Heartbeat(root, cluster_id, kept.look), kept)


log = logging.getLogger("trimtab.record")


def main(argv: list[str] | None = None) -> int:
    """Record one cluster until told to stop or until nobody reads."""
    parser = arguments(ROLE)
    parser.add_argument("--snapshots")
    return serve(ROLE, parser.parse_args(argv), _record, log=log)


def _record(service: Service) -> None:
    with service.connected() as connection:
        timeline = Timeline.write(paths.timeline_file(service.given.cluster_id))
        try:
            given, keep_on = service.given, service.keep_on
            about = (given.cluster_id, timeline, given.snapshots)
            record_cluster(connection, *about, keep_on=keep_on, tell=Noting())
        finally:
            timeline.close()


class Noting:
    """Notes how much has changed, and what fails for as long as it does."""

    def __init__(self) -> None:
        self._notes = Notes(log)

    def __call__(self, what: list[Event] | TrimtabError) -> None:
        if isinstance(what, TrimtabError):
            self._notes.note(logging.WARNING, str(what), "%s", what)
        else:
            self._notes.note(logging.INFO, what, "%d changes", len(what))


if __name__ == "__main__":
    sys.exit(main())
