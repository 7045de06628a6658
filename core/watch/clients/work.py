"""A probe at work on real brokers: its clients, its topic, and who is told of what it finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from core import files
from core.cluster.connect import Connection
from core.cluster.probe.round_trip import Pinger
from core.load import layout
from core.run.audited_client import audited
from core.watch.clients.following import Follower
from core.watch.clients.places import TOPIC
from core.watch.clients.probing import Probing
from core.watch.clients.report import Report, to_json
from core.watch.clients.topic import make
from core.watch.timeline.events import Event, Kind, Told
from core.watch.timeline.telling import Teller

BY = "probe"
"""Who the timeline names."""


class Kept:
    """Keeps reports: what happened on the timeline, the last one in the file `place`.

    What cannot be kept ends no probe: it is said once, and tried again with the next report.
    """

    def __init__(self, teller: Teller, place: Path, say: Callable[[str], None]) -> None:
        self._teller, self._place, self._say = teller, place, say
        self._failed = False

    def take(self, report: Report) -> None:
        self._teller.tell_all(
            [
                Event(said.at, Kind.CLIENT, None, Told(BY, said.text, said.brokers))
                for said in report.told
            ]
        )
        try:
            files.replace_text(self._place, json.dumps(to_json(report)))
        except OSError as error:
            if not self._failed:
                why = error.strerror or str(error)
                self._say(f"No dashboard can show this: {self._place} cannot be written: {why}.")
            self._failed = True
        else:
            self._failed = False


def probe(
    connection: Connection,
    root: Path,
    *,
    keep_on: Callable[[], bool],
    tell: Callable[[Report], None],
    say: Callable[[str], None],
) -> None:
    """Probe until `keep_on` says no; for whoever holds the cluster's lease in this role.

    What happens goes on the timeline; the last report is a file below `root`, which `tell` beside
    it gets each second. Raises UnreachableError, AccessDeniedError, IncompleteError.
    """
    state = connection.client.describe()
    make(connection.client, state, connection.clock)
    place = layout.clients(root, state.cluster_id)
    pinger = Pinger(connection.address, TOPIC)
    follower = Follower(pinger, audited(connection.client, state.cluster_id, None), say)
    with Teller(state.cluster_id) as teller:
        kept = Kept(teller, place, say)

        def report(found: Report) -> None:
            kept.take(found)
            tell(found)

        try:
            Probing(pinger, follower.layout, state.cluster_id, connection.clock).run(
                keep_on, report
            )
        finally:
            follower.close()
            pinger.close()
            place.unlink(missing_ok=True)
