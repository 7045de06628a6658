"""The probe as a process of its own: `python -P -m core.watch.clients.service …`."""

from __future__ import annotations

import logging
import sys

from core.load.serving import Service, arguments, serve
from core.watch.clients.background import ROLE, note_trouble
from core.watch.clients.report import Report
from core.watch.clients.work import probe

log = logging.getLogger("trimtab.probe")


def main(argv: list[str] | None = None) -> int:
    """Probe one cluster until told to stop or until nobody reads."""
    given = arguments(ROLE).parse_args(argv)
    return serve(
        ROLE,
        given,
        _probe,
        log=log,
        broken_off=lambda error: note_trouble(given.root, given.cluster_id, error),
    )


def _probe(service: Service) -> None:
    with service.connected() as connection:
        probe(
            connection,
            service.given.root,
            keep_on=service.keep_on,
            tell=_note,
            say=log.warning,
        )


def _note(report: Report) -> None:
    for said in report.told:
        log.info("%s", said.text)


if __name__ == "__main__":
    sys.exit(main())
