"""Starts a run with batches of a size of its own: `BOOTSTRAP PLAN RATE BATCH`; prints its id."""

from __future__ import annotations

import sys
from pathlib import Path

from core.cluster.connect import Address, connect
from core.plan.reassignment import read_plan
from core.run.service import RunOptions, start_run

ALLOWED = frozenset({"out-of-sync", "rack-spread", "foreign-move"})


def main(bootstrap: str, plan: str, rate: str, batch: str) -> None:
    address = Address(bootstrap)
    connection = connect(address)
    try:
        state = connection.client.describe()
    finally:
        connection.client.close()
    options = RunOptions(int(rate), allow=ALLOWED, batch_size=int(batch))
    print(start_run(address, state.cluster_id, read_plan(Path(plan), state), options, None))


if __name__ == "__main__":
    main(*sys.argv[1:])
