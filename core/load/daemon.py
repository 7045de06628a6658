"""The collector and the pipeline as background processes: start, stop, and the work."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core import paths
from core.clock import SystemClock
from core.cluster.connect import Address, connect
from core.daemons import supervisor as serving
from core.daemons.heartbeat import Heartbeat
from core.daemons.process import Process
from core.daemons.supervisor import Kept, Notes, Service, arguments, serve
from core.errors import TrimtabError
from core.load import layout
from core.load.collector.collector import Collector, Polled, collect

INTERVAL_SECONDS = 10.0
TRIGGER_SECONDS = 15.0
FIRST_TRIGGER_SECONDS = 2.0
"""Until there are rates of a few polls."""
COLLECTOR, PIPELINE = "collector", "pipeline"
ROLES = (COLLECTOR, PIPELINE)
STOP_SECONDS = 45.0
"""A batch at work ends: Spark's longest, and a moment."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of load whose collector and pipeline are kept going until `close`."""

    cluster_id: str
    root: Path
    heartbeat: Heartbeat
    kept: tuple[Kept, ...]

    @property
    def started(self) -> tuple[Process, ...]:
        """What was started for this reader; too young, perhaps, to hold its lease yet."""
        return tuple(process for kept in self.kept for process in kept.started)

    def close(self) -> None:
        self.heartbeat.close()

    def trouble(self) -> str | None:
        """Return why the load is not measured, or not published; None while it is fine."""
        return pipeline_trouble(self.root, self.cluster_id) or next(
            (
                f"The {role} cannot be started: {kept.trouble}."
                for role, kept in zip(ROLES, self.kept, strict=True)
                if kept.trouble is not None
            ),
            None,
        )


def start_load(
    address: Address, cluster_id: str | None = None, *, root: Path | None = None
) -> Reader | None:
    """Keep collector and pipeline going, and count as a reader, until closed.

    Returns at once; None for a simulated cluster, which publishes by itself. Raises
    UnreachableError when the cluster's id is not given and cannot be asked for.
    """
    if address.simulated:
        return None
    if cluster_id is None:
        connection = connect(address)
        try:
            cluster_id = connection.client.describe().cluster_id
        finally:
            connection.client.close()
    root = root or paths.load_root()
    layout.mark(root)
    # Only now: what is started again for the same trouble need not have it told again.
    layout.trouble(root, cluster_id).unlink(missing_ok=True)
    start = partial(serving.start, cluster_id=cluster_id, root=root)
    collector = Kept(
        partial(
            start,
            COLLECTOR,
            "core.load.daemon",
            address=address,
            words=("--interval", str(INTERVAL_SECONDS)),
        )
    )
    pipeline = Kept(
        partial(
            start,
            PIPELINE,
            "core.pipeline.service",
            words=(
                *("--trigger", str(TRIGGER_SECONDS)),
                *("--first-trigger", str(FIRST_TRIGGER_SECONDS)),
            ),
        )
    )

    def tend() -> None:
        collector.look()
        pipeline.look()

    return Reader(cluster_id, root, Heartbeat(root, cluster_id, tend), (collector, pipeline))


def stop_load(reader: Reader, seconds: float = STOP_SECONDS) -> None:
    """Stop this host's pair for a cluster now, whoever else reads; returns when both have ended.

    A batch that takes longer than `seconds` to end is broken off, and done again by the next.
    """
    reader.close()
    serving.stop(reader.root, reader.cluster_id, ROLES, started=reader.started, seconds=seconds)


def pipeline_trouble(root: Path, cluster_id: str) -> str | None:
    """Return why the cluster's pipeline ended, in its own words; None when it has not."""
    try:
        told = layout.trouble(root, cluster_id).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    return told.strip() or None


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
