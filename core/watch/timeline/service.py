"""The recorder as a process of its own: `python -P -m core.watch.timeline.service …`."""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from pathlib import Path

from core import paths
from core.clock import SystemClock
from core.cluster.connect import Address, connect
from core.errors import TrimtabError
from core.load.readers import Readers, held_while_read, stop_signals
from core.watch.timeline.background import ROLE
from core.watch.timeline.events import Event
from core.watch.timeline.recorder import Recorder, record
from core.watch.timeline.store import Timeline

log = logging.getLogger("trimtab.record")


def main(argv: list[str] | None = None) -> int:
    """Record one cluster until told to stop or until nobody reads."""
    parser = argparse.ArgumentParser(prog="trimtab-record")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--command-config", type=Path)
    parser.add_argument("--cluster-id", required=True)
    parser.add_argument("--root", type=Path, required=True)
    given = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    told = stop_signals(detached=True)
    try:
        ours = held_while_read(given.root, given.cluster_id, ROLE, told, lambda: _work(given, told))
    except TrimtabError as error:
        log.error("%s", error)
        return int(error.exit_code)
    log.info("stopped" if ours else "another recorder has this cluster")
    return 0


def _work(given: argparse.Namespace, told: threading.Event) -> None:
    readers = Readers(given.root, given.cluster_id)
    connection = connect(Address(given.bootstrap, given.command_config))
    try:
        timeline = Timeline.write(paths.timeline_file(given.cluster_id))
        try:
            record(
                Recorder(connection.client, connection.clock, timeline),
                SystemClock(),
                keep_on=lambda: not told.is_set() and not readers.gone(),
                tell=_note,
            )
        finally:
            timeline.close()
    finally:
        connection.client.close()


def _note(what: list[Event] | TrimtabError) -> None:
    if isinstance(what, TrimtabError):
        log.warning("%s", what)
    else:
        log.info("%d changes", len(what))


if __name__ == "__main__":
    sys.exit(main())
