"""The autopilot as a process of its own: `python -P -m core.auto.service …`, until it is off."""

from __future__ import annotations

import logging
import sys

from core.auto import switch as switches
from core.auto.flying import ROLE, fly_cluster
from core.auto.log import Entry
from core.load import serving
from core.load.serving import Service

log = logging.getLogger("trimtab.autopilot")


def main(argv: list[str] | None = None) -> int:
    """Fly one cluster until its switch is off, or told to stop."""
    given = serving.arguments(ROLE).parse_args(argv)
    return serving.serve(ROLE, given, _fly, log=log)


def _fly(service: Service) -> None:
    switch = switches.read(service.given.cluster_id)
    if switch is not None:
        with service.connected(switch.address.capacity) as connection:
            fly_cluster(connection, switch, keep_on=lambda: not service.told.is_set(), tell=_note)
    # Who reads its load keeps other processes going; this one goes on for nobody.
    service.told.set()


def _note(entry: Entry) -> None:
    log.info("%s: %s", entry.what.value, entry.text)


if __name__ == "__main__":
    sys.exit(main())
