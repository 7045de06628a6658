"""The timeline: how soon a change is on it, how large it gets, and how long a jump takes.

On real brokers: fifty changes (`tests.bench.change_delays`). Simulated: a month of a large cluster,
written through the recorder's own parts.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from core.cluster.metadata import Broker, PartitionRow
from core.cluster.state import ClusterState, read_only
from core.watch.timeline.changes import find_changes
from core.watch.timeline.store import Timeline
from tests.bench.change_delays import change_delays
from tests.bench.harness import arguments, brokers, leave_and_print

BROKERS, TOPICS, PARTITIONS = 60, 2_000, 100
DAYS = 30
CHANGES = 1_000_000
CHANGES_A_LOOK = 500
JUMPS = 40


def month() -> Iterator[ClusterState]:
    """Yield pictures of a large cluster in which leaders and ISRs change all the time."""
    rng = np.random.default_rng(1)
    rows = [
        PartitionRow(f"topic-{t:04}", p, held[0], held, held)
        for t in range(TOPICS)
        for p in range(PARTITIONS)
        for held in [tuple(1 + (t * 7 + p * 3 + step) % BROKERS for step in (0, 11, 29))]
    ]
    began = datetime(2026, 1, 1, tzinfo=UTC)
    state = ClusterState.build(
        cluster_id="month",
        fetched_at=began,
        brokers=[Broker(b, f"r{b % 3}") for b in range(1, BROKERS + 1)],
        topics=[],
        partitions=rows,
        controller=1,
    )
    yield state
    looks = CHANGES // CHANGES_A_LOOK
    for look in range(looks):
        chosen = rng.choice(state.partition_count, CHANGES_A_LOOK, replace=False)
        leader, in_sync = state.leader.copy(), state.in_sync.copy()
        first = state.replica_start[chosen]
        fell = first + rng.integers(1, 3, CHANGES_A_LOOK)
        in_sync[fell] ^= True
        subset = chosen[::3]
        leader[subset] = state.replica_broker[state.replica_start[subset] + rng.integers(0, 3)]
        at = began + timedelta(days=DAYS) * (look + 1) / looks
        state = replace(state, fetched_at=at, leader=read_only(leader), in_sync=read_only(in_sync))
        yield state


def kept_month(folder: Path) -> dict[str, Any]:
    path = folder / "month.timeline"
    timeline = Timeline.write(path)
    count, appending = 0, 0.0
    last: ClusterState | None = None
    for state in month():
        if last is None:
            timeline.begin(state)
        else:
            began = time.process_time()
            changes = find_changes(last, state)
            timeline.append(changes, state)
            appending += time.process_time() - began
            count += len(changes)
        last = state
    timeline.close()
    reader = Timeline.read(path)
    span = reader.span
    assert span is not None
    rng, jumps = random.Random(1), []
    for _ in range(JUMPS):
        moment = span[0] + (span[1] - span[0]) * rng.random()
        began = time.perf_counter()
        assert reader.state_at(moment) is not None
        jumps.append(1000 * (time.perf_counter() - began))
    reader.close()
    return {
        "partitions": TOPICS * PARTITIONS,
        "days": DAYS,
        "changes": count,
        "bytes": path.stat().st_size,
        "look_ms": round(1000 * appending / (count / CHANGES_A_LOOK), 2),
        "jump_ms": {"median": round(median(jumps), 1), "worst": round(max(jumps), 1)},
    }


def main() -> None:
    chosen = arguments(__doc__)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        kept = kept_month(Path(folder))
        with brokers("timeline") as sandbox:
            took = change_delays(sandbox, Path(folder))
    leave_and_print({"month": kept, "seen_seconds": took}, chosen.output)


if __name__ == "__main__":
    main()
