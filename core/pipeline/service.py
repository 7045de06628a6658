"""The pipeline as a process of its own: `python -P -m core.pipeline.service …`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from core import files
from core.clock import SystemClock
from core.daemons.service import ChangeLog, Service, build_parser, run_service
from core.load import load_paths as layout
from core.load.daemon import PIPELINE

if TYPE_CHECKING:
    from core.pipeline.publish import Published

log = logging.getLogger("trimtab.pipeline")


def main(argv: list[str] | None = None) -> int:
    """Turn one cluster's samples into snapshots until told to stop or until nobody reads."""
    parser = build_parser(PIPELINE)
    parser.add_argument("--trigger", type=float, required=True)
    parser.add_argument("--first-trigger", type=float, required=True)
    options = parser.parse_args(argv)
    trouble = layout.trouble(options.root, options.cluster_id)
    return run_service(
        PIPELINE,
        options,
        _run,
        log=log,
        on_failure=lambda error: files.write_text(trouble, f"{error}\n"),
    )


def _run(service: Service) -> None:
    from core.pipeline.session import open_session

    # This process serves a dashboard: first rates soon, and cores left to the rest of the machine.
    session = open_session(quick=True)
    try:
        from core.pipeline.job import Job

        options = service.options
        note = BatchLog(layout.trouble(options.root, options.cluster_id))
        job = Job(session.spark, options.root, options.cluster_id, SystemClock(), note)
        job.run(options.trigger, service.keep_on, first_seconds=options.first_trigger)
    finally:
        session.stop()


class BatchLog:
    """Logs what was published; with that, why an earlier pipeline ended is over."""

    def __init__(self, trouble: Path) -> None:
        self._trouble = trouble
        self._changes = ChangeLog(log)

    def __call__(self, batch: Iterable[Published]) -> None:
        for published in batch:
            self._note(published)

    def _note(self, published: Published) -> None:
        self._trouble.unlink(missing_ok=True)
        counts, snapshot = published.counts, published.snapshot
        self._changes.log(
            logging.INFO,
            (counts.duplicate > 0, tuple(sorted(counts.quarantined)), snapshot is None),
            "batch %s: read %d, accepted %d, duplicate %d, quarantined %s; snapshot %s",
            published.key,
            counts.read,
            counts.accepted,
            counts.duplicate,
            counts.quarantined,
            snapshot.snapshot_id if snapshot else "none",
        )


if __name__ == "__main__":
    sys.exit(main())
