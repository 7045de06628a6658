"""The recorder as a process of its own: `python -P -m core.watch.timeline.service …`."""

from __future__ import annotations

import logging
import sys

from core import paths
from core.errors import TrimtabError
from core.load.serving import Notes, Service, arguments, serve
from core.watch.timeline.background import ROLE
from core.watch.timeline.events import Event
from core.watch.timeline.recording import record_cluster
from core.watch.timeline.store import Timeline

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
