"""Saved cluster documents: how long it takes to read one, as Arrow and as JSON.

Each is read by a process of its own, timed as a whole, imports among it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from core.cluster.documents import arrow
from core.cluster.documents.cluster_document import ClusterDocument, document_to_json
from core.text.json_output import json_text
from tests.bench.measured import run_measured
from tests.bench.report import leave
from tests.bench.skewed import Shape, skewed

BROKERS = 200
CASES = (("JSON", 100_000, None), ("Arrow", 100_000, None), ("Arrow", 1_000_000, 3.0))
"""Form, partitions of three replicas, and the seconds that reading may take."""
READ = """
import sys
from pathlib import Path
from core.load.load_source import picture_of_document
state, load = picture_of_document(Path(sys.argv[1]))
print(state.replica_count)
"""


def play(form: str, partitions: int, most_seconds: float | None, rounds: int) -> dict[str, Any]:
    state, load = skewed(Shape(BROKERS, partitions, "skew"))
    document = ClusterDocument(state, load.in_bytes_per_s, load.out_bytes_per_s)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster"
        if form == "JSON":
            path.write_text(json_text(document_to_json(document)), encoding="utf-8")
        else:
            arrow.write_arrow(document, path)
        played = [run_measured(str(path), program=READ) for _ in range(rounds)]
        size = path.stat().st_size
    assert all(int(one.output) == state.replica_count for one in played)
    return {
        "form": form,
        "partitions": partitions,
        "bytes": size,
        "seconds": [one.seconds for one in played],
        "processor_seconds": [one.processor_seconds for one in played],
        "most_seconds": most_seconds,
        "memory_bytes": max(one.memory_bytes for one in played),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    rows = []
    for form, partitions, most in CASES:
        rows.append(play(form, partitions, most, chosen.rounds))
        leave(rows, chosen.output)
        print(
            f"{form}, {partitions:,} partitions: {median(rows[-1]['seconds']):.2f} s"
            f"{f' (≤ {most:g})' if most else ''}, {rows[-1]['memory_bytes'] / 1e6:.0f} MB",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
