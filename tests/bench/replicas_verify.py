"""A gigabyte of records on three replicas each, verified; then with one byte of one log turned.

Each turn is the command from its start to its end, on four real brokers.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.topics import create_topics
from core.cluster.sandbox.workload import fill
from core.errors import ExitCode
from tests.bench.report import leave
from tests.waiting import eventually

TRIMTAB = str(Path(sys.executable).with_name("trimtab"))
TOPIC = "bench.verified"
PARTITIONS = 8
REPLICAS = 3
BYTES = 1_000_000_000
TURNS = 3
TARGET_SECONDS = 30.0


def verify(sandbox: Sandbox, code: int) -> dict[str, Any]:
    """Return what one verification took, and what it printed."""
    words = [TRIMTAB, "-b", sandbox.bootstrap, "replicas", "verify", "--topics", TOPIC, "--json"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == code, done.stderr
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    told = json.loads(done.stdout)
    return {
        "seconds": round(took, 2),
        "processor_seconds": round(used, 2),
        "compared_bytes": told["compared_bytes"],
        "read_bytes": told["read_bytes"],
        "differences": [p["differences"] for p in told["partitions"] if p["differences"]],
    }


def flip(sandbox: Sandbox, client: KafkaClient) -> dict[str, int]:
    """Turn a byte in the middle of one follower's log; return whose."""
    state = client.describe_cluster()
    row = state.row(state.partitions_of(TOPIC)[PARTITIONS // 2])
    broker = row.replicas[-1]
    sandbox.stop(broker)
    logs = [
        path
        for log_dir in sandbox.node(broker).log_dirs
        for path in (log_dir / str(row.tp)).glob("*.log")
    ]
    log = max(logs, key=lambda path: path.stat().st_size)
    with log.open("r+b") as opened:
        at = log.stat().st_size // 2
        opened.seek(at)
        (before,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([before ^ 1]))
    sandbox.start(broker)
    eventually(lambda: bool(client.describe_cluster().in_sync.all()), seconds=120.0, every=0.5)
    return {"broker": broker, "partition": row.partition}


def measure(sandbox: Sandbox, size: int) -> dict[str, Any]:
    settings = ConnectionSettings(sandbox.bootstrap)
    ids = sandbox.broker_ids
    layout = [
        tuple(ids[(p + step) % len(ids)] for step in range(REPLICAS)) for p in range(PARTITIONS)
    ]
    create_topics(settings, {TOPIC: layout})
    fill(settings, {TopicPartition(TOPIC, p): size // PARTITIONS for p in range(PARTITIONS)})
    client = KafkaClient(settings)
    try:
        turns = [verify(sandbox, ExitCode.DONE) for _ in range(TURNS)]
        flipped = flip(sandbox, client)
        found = verify(sandbox, ExitCode.NO)
    finally:
        client.close()
    ((difference,),) = found["differences"]
    assert difference["brokers"] == [flipped["broker"]], difference
    return {
        "replicas": REPLICAS,
        "target_seconds": TARGET_SECONDS,
        "turns": turns,
        "flipped": flipped,
        "found": found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--bytes", type=int, default=BYTES, help="Of records, counted once.")
    parser.add_argument("--name", default="bench-replicas", help="Name of the sandbox.")
    arguments = parser.parse_args()
    sandbox = Sandbox.up(
        arguments.name, replace=True, say=lambda text: print(text, file=sys.stderr)
    )
    try:
        result = measure(sandbox, arguments.bytes)
    finally:
        sandbox.down()
    leave(result, arguments.output)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
