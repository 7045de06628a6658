"""The pipeline as a process of its own: `python -P -m core.pipeline.service …`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from core import files
from core.clock import SystemClock
from core.daemons.supervisor import Notes, Service, arguments, serve
from core.load import layout
from core.load.daemon import PIPELINE

if TYPE_CHECKING:
    from core.pipeline.job import Published

log = logging.getLogger("trimtab.pipeline")


def main(argv: list[str] | None = None) -> int:
    """Turn one cluster's samples into snapshots until told to stop or until nobody reads."""
    parser = arguments(PIPELINE, asks_cluster=False)
    parser.add_argument("--trigger", type=float, required=True)
    parser.add_argument("--first-trigger", type=float, required=True)
    given = parser.parse_args(argv)
    trouble = layout.trouble(given.root, given.cluster_id)
    return serve(
        PIPELINE,
        given,
        _run,
        log=log,
        broken_off=lambda error: files.write_text(trouble, f"{error}\n"),
    )


def _run(service: Service) -> None:
    from core.pipeline.session import open_session

    # This process serves a dashboard: first rates soon, and cores left to the rest of the machine.
    session = open_session(quick=True)
    try:
        from core.pipeline.job import Job

        given = service.given
        note = Noting(layout.trouble(given.root, given.cluster_id))
        job = Job(session.spark, given.root, given.cluster_id, SystemClock(), note)
        job.run(given.trigger, service.keep_on, first_seconds=given.first_trigger)
    finally:
        session.stop()


class Noting:
    """Notes what was published; with that, why an earlier pipeline ended is over."""

    def __init__(self, trouble: Path) -> None:
        self._trouble = trouble
        self._notes = Notes(log)

    def __call__(self, published: Published) -> None:
        self._trouble.unlink(missing_ok=True)
        batch, manifest = published.batch, published.manifest
        self._notes.note(
            logging.INFO,
            (batch.duplicate > 0, tuple(sorted(batch.quarantined)), manifest is None),
            "batch %s: read %d, accepted %d, duplicate %d, quarantined %s; snapshot %s",
            batch.key,
            batch.read,
            batch.accepted,
            batch.duplicate,
            batch.quarantined,
            manifest.snapshot_id if manifest else "none",
        )


if __name__ == "__main__":
    sys.exit(main())
