"""A probe at work on real brokers: its clients, its topic, and who is told of what it finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from core import files
from core.cluster.connect import Connection
from core.cluster.pinger import Pinger
from core.load import layout
from core.run.audited import audited
from core.watch.clients.following import Follower
from core.watch.clients.places import TOPIC
from core.watch.clients.probing import Probing
from core.watch.clients.report import Report, to_json
from core.watch.clients.topic import make
from core.watch.timeline.events import Event, Kind, Told
from core.watch.timeline.telling import Teller

BY = "probe"
"""Who the timeline names."""


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

        def report(found: Report) -> None:
            teller.tell_all(
                [
                    Event(said.at, Kind.CLIENT, None, Told(BY, said.text, said.brokers))
                    for said in found.told
                ]
            )
            files.replace_text(place, json.dumps(to_json(found)))
            tell(found)

        try:
            Probing(pinger, follower.layout, state.cluster_id, connection.clock).run(
                keep_on, report
            )
        finally:
            follower.close()
            pinger.close()
            place.unlink(missing_ok=True)
