"""What `trimtab estimate` says beside the wall time of `trimtab apply`, on real brokers.

One and several leaders and destinations, 5 to 100 MB/s, with and without producers to what moves;
each row takes 20 s or more. Wall time is that of the whole `apply` process. Rows are written as
they end: what was interrupted goes on where it was, what is complete begins anew. Of a row out of
its range the run's folder, what `apply` said and what its brokers logged stay beside the results.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from core.cluster.client import OffsetAt
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.cluster.sandbox.workload_spec import TopicLoad, Workload
from tests.bench.harness import (
    MB,
    QUIET_LOAD,
    Reassignment,
    arguments,
    begun,
    brokers,
    home_folder,
    leave,
    trimtab,
    wait_for_quiet,
)
from tests.sandbox_data import delete_topics, fill, produced
from tests.waiting import eventually

BATCH_BYTES = 15_000
"""Kafka's own default is 16 kB."""
MESSAGE_BYTES = 1_000
COPY_SECONDS = (20.0, 32.0)
"""What the busiest broker side copies for, drawn for each row: all alike would all end near the
same step of the quota's windows (11.5 s)."""
WINDOWS_SECONDS = 12.0
"""How long brokers remember what was copied: a row that began within it would have the credit that
the one before left unused, at wire speed."""
SKEW = 0.3
SEED = 1

Replicas = tuple[int, ...]
Move = tuple[Replicas, Replicas]
SHAPES: Mapping[str, Sequence[Move]] = {
    "one to one": [((1, 2), (3, 2))] * 16,
    "one to two": [((1, 2), (3, 2)), ((1, 2), (4, 2))] * 8,
    "two to one": [((1, 2), (3, 2)), ((2, 1), (3, 1))] * 8,
    "two to two": [((1, 2), (3, 2))] * 11 + [((2, 1), (4, 1))] * 5,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One plan at one rate; `produced_mb_per_s` goes to all that moves together."""

    shape: str
    rate_mb_per_s: int
    produced_mb_per_s: float = 0.0

    @property
    def name(self) -> str:
        busy = f", {self.produced_mb_per_s:g} produced" if self.produced_mb_per_s else ""
        return f"{self.shape} at {self.rate_mb_per_s}{busy}"

    @property
    def topic(self) -> str:
        return "bench." + self.name.replace(" ", "-").replace(",", "")

    @property
    def moves(self) -> list[Move]:
        """Return the replicas of each partition before and after.

        Without producers followers have nothing to do with the quotas: one replica will do.
        """
        moves = SHAPES[self.shape]
        return list(moves) if self.produced_mb_per_s else [(b[:1], a[:1]) for b, a in moves]

    @property
    def workload(self) -> Workload:
        """Return what is produced, evenly to all partitions."""
        before = tuple(replicas for replicas, _ in self.moves)
        each = (self.produced_mb_per_s * MB / len(before),) * len(before)
        return Workload((TopicLoad(self.topic, before, each, MESSAGE_BYTES),), ())

    def sizes(self) -> list[int]:
        """Return each partition's bytes, uneven, so that the busiest side copies long enough."""
        rng = random.Random(f"{SEED} {self.name}")
        weights = [1 + rng.uniform(-SKEW, SKEW) for _ in self.moves]
        sides: dict[tuple[str, int], float] = {}
        growth: dict[tuple[str, int], float] = {}
        each = self.produced_mb_per_s / len(weights)
        for weight, (before, after) in zip(weights, self.moves, strict=True):
            for side, counted in ((("out", before[0]), len(before)), (("in", after[0]), 1)):
                sides[side] = sides.get(side, 0.0) + weight
                growth[side] = growth.get(side, 0.0) + each * counted
        left = min((self.rate_mb_per_s - growth[side]) / weight for side, weight in sides.items())
        seconds = rng.uniform(*COPY_SECONDS)
        return [round(weight * left * seconds * MB) for weight in weights]


ROWS = (
    Row("one to one", 5),
    Row("one to one", 20),
    Row("one to one", 100),
    Row("one to two", 10),
    Row("one to two", 50),
    Row("two to one", 20),
    Row("two to two", 10),
    Row("two to two", 50),
    Row("one to one", 5, 0.8),
    Row("one to one", 20, 4),
    Row("one to one", 100, 5),
    Row("one to two", 20, 3),
    Row("two to one", 10, 1),
    Row("two to two", 50, 5),
)


class Bench:
    """One sandbox, and the command on it."""

    def __init__(self, sandbox: Sandbox, home: Path, kept: Path) -> None:
        self.sandbox, self.settings = sandbox, ConnectionSettings(sandbox.bootstrap)
        self.home, self.kept = home, kept
        self._ended = -WINDOWS_SECONDS

    def measure(self, row: Row) -> dict[str, Any]:
        """Fill a topic, ask for the estimate, apply, and return both times."""
        load = wait_for_quiet()
        topic, moves, sizes = row.topic, row.moves, row.sizes()
        tps = [TopicPartition(topic, p) for p in range(len(moves))]
        ends = [after for _, after in moves]
        create_topics(self.settings, {topic: [before for before, _ in moves]})
        try:
            fill(self.settings, dict(zip(tps, sizes, strict=True)), batch_bytes=BATCH_BYTES)
            plan = Reassignment(self.sandbox, self.home, dict(zip(tps, ends, strict=True)))
            with produced(self.settings, row.workload) if row.produced_mb_per_s else nullcontext():
                if row.produced_mb_per_s:
                    trimtab(self.sandbox, "collect", "--once", "--interval", "10s")
                time.sleep(max(0.0, self._ended + WINDOWS_SECONDS - time.monotonic()))
                words = ("--throttle", f"{row.rate_mb_per_s}MB/s", "--json")
                estimate = json.loads(trimtab(self.sandbox, "estimate", str(plan.path), *words))
                messages, started = self._messages(tps), time.monotonic()
                events = plan.apply(f"{row.rate_mb_per_s}MB/s")
                self._ended = time.monotonic()
                took = self._ended - started
                came = (self._messages(tps) - messages) * MESSAGE_BYTES / took
            trimtab(self.sandbox, "verify", str(plan.path))
        finally:
            delete_topics(self.settings, [topic])
        assert events[-1]["outcome"] == "done", events[-1]
        low, high = estimate["range_seconds"]
        if not low <= took <= high:
            self._keep(row, events)
        return {
            "row": row.name,
            "shape": row.shape,
            "rate_bytes_per_s": row.rate_mb_per_s * MB,
            "asked_to_produce_bytes_per_s": row.produced_mb_per_s * MB,
            "produced_bytes_per_s": round(came),
            "bytes": estimate["total_bytes"],
            "estimated_seconds": estimate["seconds"],
            "range_seconds": estimate["range_seconds"],
            "took_seconds": round(took, 1),
            "copying_seconds": round(_copying_seconds(events), 1),
            "error": round(estimate["seconds"] / took - 1, 3),
            "in_range": low <= took <= high,
            "load_before": round(load, 1),
            "quiet": load < QUIET_LOAD,
        }

    def _keep(self, row: Row, events: Sequence[Mapping[str, Any]]) -> None:
        """Keep what can explain a row whose time is not within its range."""
        folder = self.kept / row.topic.removeprefix("bench.")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.home / "data", folder / "data")
        for node in self.sandbox.nodes:
            shutil.copytree(node.folder / "logs", folder / f"node-{node.id}")
        (folder / "apply.jsonl").write_text("".join(f"{json.dumps(e)}\n" for e in events))

    def _messages(self, tps: Sequence[TopicPartition]) -> int:
        ends: dict[TopicPartition, int] = {}
        client = KafkaClient(self.settings)

        def all_described() -> bool:  # a leader that has just changed does not
            ends.update(client.fetch_offsets(tps, OffsetAt.LATEST))
            return len(ends) == len(tps)

        try:
            eventually(all_described, every=0.2)
        finally:
            client.close()
        return sum(ends.values())


def _copying_seconds(events: Sequence[Mapping[str, Any]]) -> float:
    """Return the time from the first submission to the last partition done."""
    first, last = (
        [datetime.fromisoformat(event["at"]) for event in events if event["event"] == kind]
        for kind in ("submitted", "moved")
    )
    return (max(last) - min(first)).total_seconds()


def format_row(row: Mapping[str, Any]) -> str:
    low, high = row["range_seconds"]
    notes = "" if row["in_range"] else "  out of its range"
    if not row["quiet"]:
        notes += f"  beside other work (load {row['load_before']})"
    return (
        f"{row['row']:32} {row['bytes'] / MB:6.0f} MB"
        f"  estimated {row['estimated_seconds']:5.1f} s ({low:.0f} to {high:.0f})"
        f"  took {row['took_seconds']:5.1f} s  error {row['error']:+.1%}{notes}"
    )


def main() -> None:
    chosen = arguments(__doc__)
    order = [row.name for row in ROWS]
    results = begun(chosen.output, "row", order)
    done = {row["row"] for row in results}
    with brokers("estimate") as sandbox, home_folder() as home:
        bench = Bench(sandbox, home, chosen.output.with_suffix(".kept"))
        for row in ROWS:
            if row.name not in done:
                results.append(bench.measure(row))
                leave(sorted(results, key=lambda r: order.index(r["row"])), chosen.output)
                print(format_row(results[-1]), flush=True)
    errors = [abs(row["error"]) for row in results]
    print(f"{len(errors)} rows: median error {median(errors):.1%}, worst {max(errors):.1%}")


if __name__ == "__main__":
    main()
