"""The collector as a process of its own: `python -P -m core.load.service …` (see background)."""

from __future__ import annotations

import logging
import sys

from core.clock import SystemClock
from core.errors import TrimtabError
from core.load.background import COLLECTOR
from core.load.collect import Collector, Polled, collect
from core.load.serving import Notes, Service, arguments, serve

log = logging.getLogger("trimtab.collect")

FIRST_POLLS_SECONDS = 5.0


def main(argv: list[str] | None = None) -> int:
    """Collect for one cluster until told to stop or until nobody reads."""
    parser = arguments(COLLECTOR)
    parser.add_argument("--interval", type=float, required=True)
    return serve(COLLECTOR, parser.parse_args(argv), _collect, log=log)


def _collect(service: Service) -> None:
    with service.connected() as connection:
        collect(
            Collector(connection.client, connection.clock, service.given.root),
            SystemClock(),
            interval_seconds=service.given.interval,
            first_seconds=FIRST_POLLS_SECONDS,
            keep_on=service.keep_on,
            tell=Noting(),
        )


class Noting:
    """Notes polls: whether they come, and of how much."""

    def __init__(self) -> None:
        self._notes = Notes(log)

    def __call__(self, event: Polled | TrimtabError) -> None:
        if isinstance(event, TrimtabError):
            self._notes.note(logging.WARNING, str(event), "%s", event)
            return
        words = (event.poll_id, event.rows, event.with_rates)
        self._notes.note(logging.INFO, event.rows, "poll %d: %d rows, %d with rates", *words)


if __name__ == "__main__":
    sys.exit(main())
