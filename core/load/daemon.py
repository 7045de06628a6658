"""The collector and the pipeline as background processes: start, stop, and the collector's work."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.cluster.connect import Address, add_address_options, address_arguments, connected_by
from core.daemons.supervisor import Daemon, Supervisor
from core.errors import TrimtabError
from core.load import load_paths as layout

if TYPE_CHECKING:
    from core.daemons.service import Service
    from core.load.collector.collector import PollResult

INTERVAL_SECONDS = 10.0
FIRST_INTERVAL_SECONDS = 5.0
TRIGGER_SECONDS = 15.0
FIRST_TRIGGER_SECONDS = 2.0
"""Until there are rates of a few polls."""
COLLECTOR, PIPELINE = "collector", "pipeline"
STOP_SECONDS = 45.0
"""A batch at work ends: Spark's longest, and a moment."""

log = logging.getLogger("trimtab.collect")


def start_load(address: Address, cluster_id: str) -> Supervisor | None:
    """Keep collector and pipeline going, and count as a reader, until closed.

    Returns at once; None for a simulated cluster, which publishes by itself. A batch that takes
    longer than STOP_SECONDS to end is broken off, and done again by the next pipeline.
    """
    if address.is_simulated:
        return None
    root = layout.own_root()
    # Only now: a pipeline that is started again for the same trouble need not report it again.
    layout.trouble(root, cluster_id).unlink(missing_ok=True)
    collector = Daemon(
        COLLECTOR,
        "core.load.daemon",
        (*address_arguments(address), f"--interval={INTERVAL_SECONDS}"),
        address.command_config,
    )
    pipeline = Daemon(
        PIPELINE,
        "core.pipeline.service",
        (f"--trigger={TRIGGER_SECONDS}", f"--first-trigger={FIRST_TRIGGER_SECONDS}"),
        instead=(layout.EVERY,),
    )
    return Supervisor(
        root,
        cluster_id,
        (collector, pipeline),
        stop_seconds=STOP_SECONDS,
        failure=partial(pipeline_trouble, root, cluster_id),
    )


def pipeline_trouble(root: Path, cluster_id: str) -> str | None:
    """Return why the cluster's pipeline ended, in its own words; None when it has not."""
    return layout.read_trouble(layout.trouble(root, cluster_id))


def main(argv: list[str] | None = None) -> int:
    """Collect for one cluster until told to stop or until nobody reads."""
    from core.daemons.service import build_parser, run_service

    parser = build_parser(COLLECTOR)
    add_address_options(parser)
    parser.add_argument("--interval", type=float, required=True)
    return run_service(COLLECTOR, parser.parse_args(argv), _collect, log=log)


def _collect(service: Service) -> None:
    from core.clock import SystemClock
    from core.load.collector.collector import Collector, collect

    options = service.options
    with connected_by(options) as connection:
        collect(
            Collector(connection.client, connection.clock, options.root),
            SystemClock(),
            interval_seconds=options.interval,
            first_seconds=FIRST_INTERVAL_SECONDS,
            keep_on=service.keep_on,
            report=PollLog(),
        )


class PollLog:
    """Logs polls: whether they come, and of how much."""

    def __init__(self) -> None:
        from core.daemons.service import ChangeLog

        self._changes = ChangeLog(log)

    def __call__(self, event: PollResult | TrimtabError) -> None:
        if isinstance(event, TrimtabError):
            self._changes.log(logging.WARNING, str(event), "%s", event)
            return
        counts = (event.poll_id, event.rows, event.with_rates)
        self._changes.log(logging.INFO, event.rows, "poll %d: %d rows, %d with rates", *counts)


if __name__ == "__main__":
    sys.exit(main())
