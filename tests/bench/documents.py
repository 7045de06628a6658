"""Saved cluster documents: how long it takes to read one, as Arrow and as JSON.

Each is read by a process of its own, timed as a whole, imports among it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from core.cluster.documents import arrow
from core.cluster.documents.cluster_document import ClusterDocument, document_to_json
from core.text.json_text import json_text
from tests.bench.harness import arguments, leave, run_measured
from tests.bench.skewed import Shape, skewed

BROKERS = 200
CASES = (("JSON", 100_000, None), ("Arrow", 100_000, None), ("Arrow", 1_000_000, 3.0))
"""Form, partitions of three replicas, and the seconds that reading may take."""
ROUNDS = 3
READ = """
import sys
from pathlib import Path
from core.load.load_source import read_saved_cluster
state, load = read_saved_cluster(Path(sys.argv[1]))
print(state.replica_count)
"""


def play(form: str, partitions: int, most_seconds: float | None) -> dict[str, Any]:
    state, load = skewed(Shape(BROKERS, partitions, "skew"))
    document = ClusterDocument(state, load.in_bytes_per_s, load.out_bytes_per_s)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster"
        if form == "JSON":
            path.write_text(json_text(document_to_json(document)), encoding="utf-8")
        else:
            arrow.write_arrow(document, path)
        played = [run_measured(str(path), program=READ) for _ in range(ROUNDS)]
        size = path.stat().st_size
    assert all(int(run.output) == state.replica_count for run in played)
    return {
        "form": form,
        "partitions": partitions,
        "bytes": size,
        "seconds": [run.seconds for run in played],
        "processor_seconds": [run.processor_seconds for run in played],
        "most_seconds": most_seconds,
        "memory_bytes": max(run.memory_bytes for run in played),
    }


def main() -> None:
    chosen = arguments(__doc__)
    rows = []
    for form, partitions, most in CASES:
        rows.append(play(form, partitions, most))
        leave(rows, chosen.output)
        seconds, memory = median(rows[-1]["seconds"]), rows[-1]["memory_bytes"] / 1e6
        print(f"{form}, {partitions:,} partitions: {seconds:.2f} s, {memory:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
