"""The collector as a process of its own: `python -P -m core.load.service …` (see background)."""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from pathlib import Path

from core.clock import SystemClock
from core.cluster.connect import Address, connect
from core.errors import TrimtabError
from core.load.collect import Collector, Polled, collect
from core.load.readers import Readers, held_while_read, stop_signals

log = logging.getLogger("trimtab.collect")

FIRST_POLLS_SECONDS = 5.0


def main(argv: list[str] | None = None) -> int:
    """Collect for one cluster until told to stop or until nobody reads."""
    parser = argparse.ArgumentParser(prog="trimtab-collect")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--command-config", type=Path)
    parser.add_argument("--cluster-id", required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--interval", type=float, required=True)
    given = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    told = stop_signals(detached=True)
    try:
        ours = held_while_read(
            given.root, given.cluster_id, "collector", told, lambda: _collect(given, told)
        )
    except TrimtabError as error:
        log.error("%s", error)
        return int(error.exit_code)
    log.info("stopped" if ours else "another collector has this cluster")
    return 0


def _collect(given: argparse.Namespace, told: threading.Event) -> None:
    readers = Readers(given.root, given.cluster_id)
    connection = connect(Address(given.bootstrap, given.command_config))
    try:
        collector = Collector(connection.client, connection.clock, given.root)
        collect(
            collector,
            SystemClock(),
            interval_seconds=given.interval,
            first_seconds=FIRST_POLLS_SECONDS,
            keep_on=lambda: not told.is_set() and not readers.gone(),
            tell=_note,
        )
    finally:
        connection.client.close()


def _note(event: Polled | TrimtabError) -> None:
    if isinstance(event, TrimtabError):
        log.warning("%s", event)
    else:
        log.info("poll %d: %d rows, %d with rates", event.poll_id, event.rows, event.with_rates)


if __name__ == "__main__":
    sys.exit(main())
