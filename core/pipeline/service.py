"""The pipeline as a process of its own: `python -P -m core.pipeline.service …`."""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from core import files
from core.bugs import log_bug
from core.clock import SystemClock
from core.errors import TrimtabError
from core.load import layout
from core.load.readers import Readers, held_while_read, stop_signals

if TYPE_CHECKING:
    from core.pipeline.job import Published

log = logging.getLogger("trimtab.pipeline")


def main(argv: list[str] | None = None) -> int:
    """Turn one cluster's samples into snapshots until told to stop or until nobody reads."""
    parser = argparse.ArgumentParser(prog="trimtab-pipeline")
    parser.add_argument("--cluster-id", required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--trigger", type=float, required=True)
    parser.add_argument("--first-trigger", type=float, required=True)
    given = parser.parse_args(argv)
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s"
    )
    log.setLevel(logging.INFO)
    told = stop_signals(detached=True)
    try:
        ours = held_while_read(
            given.root, given.cluster_id, "pipeline", told, lambda: _run(given, told)
        )
    except TrimtabError as error:
        return _broken_off(given, error)
    except Exception as error:  # noqa: BLE001 - whoever reads must learn why no snapshots come
        words = str(error).splitlines() or [type(error).__name__]
        return _broken_off(given, TrimtabError(f"Spark broke off: {words[0]}", next=log_bug()))
    log.info("stopped" if ours else "another pipeline has this cluster")
    return 0


def _broken_off(given: argparse.Namespace, error: TrimtabError) -> int:
    log.error("%s", error)
    files.write_text(layout.trouble(given.root, given.cluster_id), f"{error}\n")
    return int(error.exit_code)


def _run(given: argparse.Namespace, told: threading.Event) -> None:
    readers = Readers(given.root, given.cluster_id)
    from core.pipeline.session import open_session

    # This process serves a dashboard: first rates soon, and cores left to the rest of the machine.
    session = open_session(quick=True)
    try:
        from core.pipeline.job import Job

        job = Job(session.spark, given.root, given.cluster_id, SystemClock(), _note)
        job.run(
            given.trigger,
            lambda: not told.is_set() and not readers.gone(),
            first_seconds=given.first_trigger,
        )
    finally:
        session.stop()


def _note(published: Published) -> None:
    batch = published.batch
    log.info(
        "batch %s: read %d, accepted %d, duplicate %d, quarantined %s; snapshot %s",
        batch.key,
        batch.read,
        batch.accepted,
        batch.duplicate,
        batch.quarantined,
        published.manifest.snapshot_id if published.manifest else "none",
    )


if __name__ == "__main__":
    sys.exit(main())
