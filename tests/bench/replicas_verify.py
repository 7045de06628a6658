"""A gigabyte of records on three replicas each, verified; then with one byte of one log turned.

Each turn is the command from its start to its end, on four real brokers.
"""

from __future__ import annotations

import json
from typing import Any

from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.errors import ExitCode
from tests.bench.harness import arguments, brokers, leave_and_print, run_measured
from tests.sandbox_data import fill
from tests.waiting import eventually

TOPIC = "bench.verified"
PARTITIONS = 8
REPLICAS = 3
BYTES = 1_000_000_000
TURNS = 3
TARGET_SECONDS = 30.0


def verify(sandbox: Sandbox, code: int) -> dict[str, Any]:
    """Return what one verification took, and what it found."""
    words = ("-b", sandbox.bootstrap, "replicas", "verify", "--topics", TOPIC, "--json")
    done = run_measured(*words)
    assert done.code == code
    verification = json.loads(done.output)
    return {
        "seconds": round(done.seconds, 2),
        "processor_seconds": round(done.processor_seconds, 2),
        "compared_bytes": verification["compared_bytes"],
        "read_bytes": verification["read_bytes"],
        "differences": [p["differences"] for p in verification["partitions"] if p["differences"]],
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


def measure(sandbox: Sandbox) -> dict[str, Any]:
    settings = ConnectionSettings(sandbox.bootstrap)
    ids = sandbox.broker_ids
    layout = [
        tuple(ids[(p + step) % len(ids)] for step in range(REPLICAS)) for p in range(PARTITIONS)
    ]
    create_topics(settings, {TOPIC: layout})
    fill(settings, {TopicPartition(TOPIC, p): BYTES // PARTITIONS for p in range(PARTITIONS)})
    client = KafkaClient(settings)
    try:
        turns = [verify(sandbox, ExitCode.DONE) for _ in range(TURNS)]
        flipped = flip(sandbox, client)
        verification = verify(sandbox, ExitCode.NO)
    finally:
        client.close()
    ((difference,),) = verification["differences"]
    assert difference["brokers"] == [flipped["broker"]], difference
    return {
        "replicas": REPLICAS,
        "target_seconds": TARGET_SECONDS,
        "turns": turns,
        "flipped": flipped,
        "found": verification,
    }


def main() -> None:
    chosen = arguments(__doc__)
    with brokers("replicas") as sandbox:
        result = measure(sandbox)
    leave_and_print(result, chosen.output)


if __name__ == "__main__":
    main()
