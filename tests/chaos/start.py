"""Starts a run with options of its own: `BOOTSTRAP PLAN OPTIONS`; prints its id.

OPTIONS is JSON: `rate`, `batch`, and maybe `auto` (least and most), `retention_ms`, `elect`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from core.cluster.connect import Address, connect
from core.plan.formats.plan_file import read_plan
from core.run.journal.rates import RateBounds
from core.run.launch import start_run
from core.run.options import RunOptions

ALLOWED = frozenset({"out-of-sync", "rack-spread", "foreign-move"})


def main(bootstrap: str, plan: str, options: str) -> None:
    wanted = json.loads(options)
    address = Address(bootstrap)
    connection = connect(address)
    try:
        state = connection.client.describe_cluster()
    finally:
        connection.client.close()
    run_options = RunOptions(
        wanted["rate"],
        allow=ALLOWED,
        batch_size=wanted["batch"],
        auto=RateBounds(*wanted["auto"]) if "auto" in wanted else None,
        retention_ms=wanted.get("retention_ms"),
        elect=wanted.get("elect", False),
    )
    print(start_run(address, state.cluster_id, read_plan(Path(plan), state), run_options, None))


if __name__ == "__main__":
    main(*sys.argv[1:])
