"""Plans for clusters out of balance: how long, how even, and how many bytes beside a lower bound.

Each is planned by `trimtab --from FILE.arrow plan suggest --json` in a process of its own, timed as
a whole, imports, reading and writing among it; its peak memory is its own, too. The bound is a
linear program's over all measures for 12 brokers, and else the largest single one: what each
measure alone must have moved, the cheapest replicas for it first, counting what is above the band
or lacks below it. Beside it stands what Kafka's `--generate` would do.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from core.cluster.documents import arrow
from core.cluster.documents.cluster_document import ClusterDocument
from core.cluster.state import ClusterState, read_only
from core.load.load import Load
from core.plan.planner.model.measures import REPLICA_MEASURES, SHOWN, Measure
from core.plan.planner.model.placement import Placement
from core.plan.planner.model.problem import build_problem
from tests.bench.harness import arguments, leave, run_measured
from tests.bench.kafka_generate import generated
from tests.bench.least_bytes import least_bytes
from tests.bench.skewed import Shape, skewed

BAND = 0.10
ROUNDS = 3
SMALL = 12
"""Brokers up to which the bound is the linear program's."""
MEMORY = 6e9
SHAPES = (
    (Shape(12, 2_000, "new"), 1.0),
    (Shape(12, 2_000, "skew"), 1.0),
    (Shape(60, 20_000, "new"), 2.0),
    (Shape(60, 20_000, "skew"), 2.0),
    (Shape(200, 100_000, "new"), 6.0),
    (Shape(200, 100_000, "skew"), 6.0),
    (Shape(60, 20_000, "skew", tight=True), 2.0),
    (Shape(270, 433_000, "skew"), 30.0),
    (Shape(215, 933_000, "new"), 60.0),
)
"""Each with the seconds that it may take; the last two hold 1.3 and 2.8 million replicas."""


def lower_bound_bytes(start: Placement) -> float:
    """Return what any plan must copy: the largest of what single measures ask for."""
    items, sizes = start.problem.items, start.problem.items[:, Measure.DISK]
    everything = np.arange(len(items))
    bounds = []
    for measure in REPLICA_MEASURES:
        if measure is Measure.MAY_SEND:  # no goal, only a way to one
            continue
        per = items[:, measure] * start.per_share[start.problem.counts, measure].mean()
        loads = start.loads[:, measure]
        above, below = np.maximum(loads - 1 - BAND, 0), np.maximum(1 - BAND - loads, 0)
        given = sum(_cheapest(per, sizes, start.held(b), above[b]) for b in _rows(above))
        taken = sum(_cheapest(per, sizes, everything, below[b]) for b in _rows(below))
        bounds.append(max(given, taken))
    return float(max(bounds))


def _rows(needs: np.ndarray) -> list[int]:
    return [int(row) for row in np.flatnonzero(needs > 0)]


def _cheapest(per: np.ndarray, sizes: np.ndarray, rows: np.ndarray, need: float) -> float:
    """Return the fewest bytes that bring `need` of a measure, the last replica in part."""
    order = rows[np.argsort(-per[rows] / np.maximum(sizes[rows], 1e-9), kind="stable")]
    brought = np.cumsum(per[order])
    whole = int(np.searchsorted(brought, need))
    bytes_of = float(sizes[order[:whole]].sum())
    if whole < len(order):
        rest = need - (float(brought[whole - 1]) if whole else 0.0)
        bytes_of += float(sizes[order[whole]]) * rest / float(per[order[whole]])
    return bytes_of


def _generated(state: ClusterState, load: Load, start: Placement) -> dict[str, Any]:
    """Return the bytes of Kafka's own proposal for all topics, and how far from even it ends."""
    rows = generated(state, seed=1)
    arriving = (rows[:, :, None] != start.problem.ids[start.at][:, None, :]).all(axis=2)
    sizes = start.problem.items[:, Measure.DISK]
    after = replace(
        state, leader=read_only(rows[:, 0].copy()), replica_broker=read_only(rows.ravel().copy())
    )
    ends = np.abs(Placement(build_problem(after, load, band=BAND)).loads[:, SHOWN] - 1).max(axis=0)
    return {
        "bytes": round(float((arriving.sum(axis=1) * sizes).sum())),
        "off": {m.name.lower(): round(float(off), 4) for m, off in zip(SHOWN, ends, strict=True)},
    }


def play(shape: Shape, most_seconds: float, folder: Path) -> dict[str, Any]:
    state, load = skewed(shape)
    saved = folder / "cluster.arrow"
    arrow.write_arrow(ClusterDocument(state, load.in_bytes_per_s, load.out_bytes_per_s), saved)
    command = ("--from", str(saved), "plan", "suggest", "--json")
    played = [run_measured(*command) for _ in range(ROUNDS)]
    proposal = json.loads(played[-1].output)
    plan = folder / "plan.json"
    plan.write_text(json.dumps(proposal["plan"]))
    estimated = run_measured("--from", str(saved), "estimate", str(plan), "--json")
    start = Placement(build_problem(state, load, band=BAND))
    bound = lower_bound_bytes(start)
    if shape.brokers <= SMALL:
        bound = least_bytes(start) or bound
    return {
        "shape": str(shape),
        "seed": shape.seed,
        "replicas": state.replica_count,
        "seconds": [run.seconds for run in played],
        "processor_seconds": [run.processor_seconds for run in played],
        "most_seconds": most_seconds,
        "memory_bytes": max(run.memory_bytes for run in played),
        "most_memory_bytes": MEMORY,
        "estimate_processor_seconds": estimated.processor_seconds,
        "moves": proposal["moves"],
        "leader_moves": proposal["leader_moves"],
        "bytes": proposal["bytes"],
        "lower_bound_bytes": round(bound),
        "ratio": round(proposal["bytes"] / bound, 4),
        "off": _off(proposal),
        "generate": _generated(state, load, start),
    }


def _off(proposal: dict[str, Any]) -> dict[str, float]:
    """Return by measure how far the worst broker is from its fair share in the end."""
    return {
        measure: round(max(abs(broker[measure] - 1) for broker in proposal["after"]["brokers"]), 4)
        for measure in ("disk", "in", "replicas", "leaders", "leader_in", "out")
    }


def main() -> None:
    chosen = arguments(__doc__, only="")
    rows = []
    for shape, most in SHAPES:
        if chosen.only not in str(shape):
            continue
        with tempfile.TemporaryDirectory() as folder:
            row = play(shape, most, Path(folder))
        rows.append(row)
        leave(rows, chosen.output)
        print(
            f"{row['shape']}: {median(row['seconds']):.2f} s, {row['memory_bytes'] / 1e6:.0f} MB, "
            f"{row['moves']} moves, {row['ratio']:.3f} × the bound, "
            f"furthest off {max(row['off'].values()):.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
