"""What `trimtab estimate` says beside the wall time of `trimtab apply`, on real brokers.

One and several leaders and destinations, 5 to 100 MB/s, with and without producers to what moves;
each row takes 20 s or more. Wall time is that of the whole `apply` process. Rows are written as
they end: what was interrupted goes on where it was, what is complete begins anew. Of a row out of
its range the run's folder, what `apply` said and what its brokers logged stay beside the results.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from core.cluster.sandbox.topics import create_topics, delete_topics
from core.cluster.sandbox.workload import fill, run_workload
from core.cluster.sandbox.workload_spec import TopicLoad, Workload
from tests.bench.report import leave
from tests.waiting import eventually

TRIMTAB = str(Path(sys.executable).with_name("trimtab"))
MB = 1_000_000
BATCH_BYTES = 15_000
"""Kafka's own default is 16 kB."""
MESSAGE_BYTES = 1_000
COPY_SECONDS = (20.0, 32.0)
"""What the busiest broker side copies for, drawn for each row: all alike would all end near the
same step of the quota's windows (11.5 s)."""
WINDOWS_SECONDS = 12.0
"""How long brokers remember what was copied: a row that began within it would have the credit that
the one before left unused, at wire speed."""
QUIET_LOAD = 2.5
"""What the machine may be busy with else: above it a row waits, and then says so."""
SKEW = 0.3

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

    def sizes(self, seed: int) -> list[int]:
        """Return each partition's bytes, uneven, so that the busiest side copies long enough."""
        rng = random.Random(f"{seed} {self.name}")
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

    def __init__(self, sandbox: Sandbox, home: Path, kept: Path, seed: int) -> None:
        self.settings = ConnectionSettings(sandbox.bootstrap)
        self.home, self.kept, self.seed = home, kept, seed
        self._nodes = sandbox.nodes
        self._ended = -WINDOWS_SECONDS

    def trimtab(self, *words: str) -> str:
        """Run one command and return what it printed."""
        done = subprocess.run(
            [TRIMTAB, "-b", self.settings.bootstrap, *words],
            env={**os.environ, "TRIMTAB_HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def measure(self, row: Row) -> dict[str, Any]:
        """Fill a topic, ask for the estimate, apply, and return both times."""
        load = os.getloadavg()[0]
        topic, moves, sizes = row.topic, row.moves, row.sizes(self.seed)
        tps = [TopicPartition(topic, p) for p in range(len(moves))]
        create_topics(self.settings, {topic: [before for before, _ in moves]})
        try:
            fill(self.settings, dict(zip(tps, sizes, strict=True)), batch_bytes=BATCH_BYTES)
            plan = self._plan(topic, moves)
            with self._produced(row):
                if row.produced_mb_per_s:
                    self.trimtab("collect", "--once", "--interval", "10s")
                time.sleep(max(0.0, self._ended + WINDOWS_SECONDS - time.monotonic()))
                rate = ("--throttle", f"{row.rate_mb_per_s}MB/s", "--json")
                estimate = json.loads(self.trimtab("estimate", plan, *rate))
                messages, started = self._messages(tps), time.monotonic()
                told = self.trimtab("apply", plan, *rate, "--yes")
                self._ended = time.monotonic()
                took = self._ended - started
                produced = (self._messages(tps) - messages) * MESSAGE_BYTES / took
            self.trimtab("verify", plan)
        finally:
            delete_topics(self.settings, [topic])
        events = [json.loads(line) for line in told.splitlines()]
        assert events[-1]["outcome"] == "done", events[-1]
        low, high = estimate["range_seconds"]
        if not low <= took <= high:
            self._keep(row, told)
        return {
            "row": row.name,
            "shape": row.shape,
            "rate_bytes_per_s": row.rate_mb_per_s * MB,
            "asked_to_produce_bytes_per_s": row.produced_mb_per_s * MB,
            "produced_bytes_per_s": round(produced),
            "bytes": estimate["total_bytes"],
            "estimated_seconds": estimate["seconds"],
            "range_seconds": estimate["range_seconds"],
            "took_seconds": round(took, 1),
            "copying_seconds": round(_copying_seconds(events), 1),
            "error": round(estimate["seconds"] / took - 1, 3),
            "in_range": low <= took <= high,
            "load_before": round(load, 1),
            "quiet": load < QUIET_LOAD,
            "seed": self.seed,
        }

    def _keep(self, row: Row, told: str) -> None:
        """Keep what can explain a row whose time is not within its range."""
        folder = self.kept / row.topic.removeprefix("bench.")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.home / "data", folder / "data")
        for node in self._nodes:
            shutil.copytree(node.folder / "logs", folder / f"node-{node.id}")
        (folder / "apply.jsonl").write_text(told)

    def _plan(self, topic: str, moves: Sequence[Move]) -> str:
        rows = [
            {"topic": topic, "partition": p, "replicas": after}
            for p, (_, after) in enumerate(moves)
        ]
        plan = self.home / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": rows}))
        return str(plan)

    def _messages(self, tps: Sequence[TopicPartition]) -> int:
        ends: dict[TopicPartition, int] = {}
        client = KafkaClient(self.settings)

        def all_told() -> bool:  # a leader that has just changed does not
            ends.update(client.fetch_offsets(tps, OffsetAt.LATEST))
            return len(ends) == len(tps)

        try:
            eventually(all_told, every=0.2)
        finally:
            client.close()
        return sum(ends.values())

    @contextmanager
    def _produced(self, row: Row) -> Iterator[None]:
        """Produce evenly to all partitions meanwhile."""
        if not row.produced_mb_per_s:
            yield
            return
        before = tuple(replicas for replicas, _ in row.moves)
        each = row.produced_mb_per_s * MB / len(before)
        workload = Workload(
            (TopicLoad(row.topic, before, (each,) * len(before), MESSAGE_BYTES),), ()
        )
        stop = threading.Event()
        producer = threading.Thread(target=run_workload, args=(self.settings, workload, stop))
        producer.start()
        try:
            yield
        finally:
            stop.set()
            producer.join()


def _copying_seconds(events: Sequence[Mapping[str, Any]]) -> float:
    """Return the time from the first submission to the last partition done."""
    first, last = (
        [datetime.fromisoformat(event["at"]) for event in events if event["event"] == kind]
        for kind in ("submitted", "moved")
    )
    return (max(last) - min(first)).total_seconds()


def wait_for_quiet(patience_seconds: float) -> None:
    """Wait until the machine has little else to do, but not for ever."""
    until = time.monotonic() + patience_seconds
    while os.getloadavg()[0] >= QUIET_LOAD and time.monotonic() < until:
        time.sleep(1)


def begun(output: Path, seed: int) -> list[dict[str, Any]]:
    """Return the rows of an interrupted run with this seed; none when it was complete."""
    if not output.exists():
        return []
    rows = [row for row in json.loads(output.read_text()) if row.get("seed") == seed]
    names = {row.name for row in ROWS}
    done = [row for row in rows if row["row"] in names]
    return [] if len(done) == len(ROWS) else done


def told(row: Mapping[str, Any]) -> str:
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--name", default="bench-estimate", help="Name of the sandbox.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", metavar="ROW", choices=[r.name for r in ROWS])
    parser.add_argument("--patience", type=float, default=60.0, help="For a quiet machine, s.")
    arguments = parser.parse_args()
    results = begun(arguments.output, arguments.seed)
    if arguments.only and not results and arguments.output.exists():
        results = json.loads(arguments.output.read_text())
    done = {row["row"] for row in results}
    wanted = [
        row
        for row in ROWS
        if (row.name in arguments.only if arguments.only else row.name not in done)
    ]
    sandbox = Sandbox.up(
        arguments.name, replace=True, say=lambda text: print(text, file=sys.stderr)
    )
    try:
        with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as home:
            kept = arguments.output.with_suffix(".kept")
            bench = Bench(sandbox, Path(home), kept, arguments.seed)
            for row in wanted:
                wait_for_quiet(arguments.patience)
                measured = bench.measure(row)
                results = [other for other in results if other["row"] != row.name] + [measured]
                order = [row.name for row in ROWS]
                results.sort(key=lambda r: order.index(r["row"]))
                leave(results, arguments.output)
                print(told(measured), flush=True)
    finally:
        sandbox.down()
    errors = [abs(row["error"]) for row in results]
    print(f"{len(errors)} rows: median error {median(errors):.1%}, worst {max(errors):.1%}")


if __name__ == "__main__":
    main()
