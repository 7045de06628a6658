"""What `trimtab estimate` says beside the wall time of `trimtab apply`, on real brokers.

Three shapes of a plan, each moving at least 400 MB at 10 MB/s: one leader to one destination, one
leader to two destinations, and two leaders to two destinations of unequal share. Wall time is
that of the whole `apply` process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.cluster.kafka.connection import ConnectionSettings
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.state import TopicPartition
from core.cluster.workload import create_topics, delete_topics, fill

TRIMTAB = str(Path(sys.executable).with_name("trimtab"))
RATE = "10MB/s"
PARTITION_BYTES = 26_500_000
BATCH_BYTES = 52_000

# name: (replicas before, replicas after), a partition each
SHAPES: Mapping[str, Sequence[tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "one to one": [((1, 2), (3, 2))] * 16,
    "one to two": [((1, 2), (1, 4)), ((1, 4), (1, 2))] * 8,
    "two to two": [((1, 2), (3, 2))] * 11 + [((2, 1), (4, 1))] * 5,
}


def trimtab(sandbox: Sandbox, home: Path, *words: str) -> list[dict[str, Any]]:
    """Run one command with `--json` and return its documents."""
    done = subprocess.run(
        [TRIMTAB, "-b", sandbox.bootstrap, *words, "--json"],
        env={**os.environ, "TRIMTAB_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if words[0] == "apply":
        return [json.loads(line) for line in done.stdout.splitlines()]
    return [json.loads(done.stdout)]


def measure(sandbox: Sandbox, home: Path, shape: str) -> dict[str, Any]:
    """Fill a topic, ask for the estimate, apply, and return both times."""
    moves = SHAPES[shape]
    topic = f"bench.{shape.replace(' ', '-')}"
    settings = ConnectionSettings(sandbox.bootstrap)
    create_topics(settings, {topic: [before for before, _ in moves]})
    fill(
        settings,
        {TopicPartition(topic, p): PARTITION_BYTES for p in range(len(moves))},
        batch_bytes=BATCH_BYTES,
    )
    plan = home / "plan.json"
    plan.parent.mkdir(parents=True, exist_ok=True)
    plan.write_text(
        json.dumps(
            {
                "version": 1,
                "partitions": [
                    {"topic": topic, "partition": p, "replicas": after}
                    for p, (_, after) in enumerate(moves)
                ],
            }
        )
    )
    (estimate,) = trimtab(sandbox, home, "estimate", str(plan), "--throttle", RATE)
    started = time.monotonic()
    events = trimtab(sandbox, home, "apply", str(plan), "--throttle", RATE, "--yes")
    wall = time.monotonic() - started
    assert events[-1]["outcome"] == "done", events[-1]
    (verified,) = trimtab(sandbox, home, "verify", str(plan))
    delete_topics(settings, [topic])
    return {
        "shape": shape,
        "bytes": estimate["total_bytes"],
        "estimated_seconds": estimate["seconds"],
        "range_seconds": estimate["range_seconds"],
        "wall_seconds": round(wall, 1),
        "error": round(estimate["seconds"] / wall - 1, 3),
        "verified": verified,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--name", default="bench-estimate", help="Name of the sandbox.")
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    arguments = parser.parse_args()
    sandbox = Sandbox.up(
        arguments.name, racks=2, replace=True, say=lambda text: print(text, file=sys.stderr)
    )
    try:
        with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as home:
            results = [measure(sandbox, Path(home), shape) for shape in arguments.shapes]
    finally:
        sandbox.down()
    arguments.output.write_text(json.dumps(results, indent=2) + "\n")
    for row in results:
        print(
            f"{row['shape']:12} {row['bytes'] / 1e6:6.0f} MB"
            f"  estimated {row['estimated_seconds']:5.1f} s"
            f"  took {row['wall_seconds']:5.1f} s  error {row['error']:+.1%}"
        )


if __name__ == "__main__":
    main()
