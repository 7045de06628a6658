"""A throttled run beside Kafka's own tool: same plan, same rate, same brokers, by turns.

Measured of both: from the command to its end, from the first reassignment listed to the last one
gone, and the bytes that have come in the first three seconds. The tool's end is that of a
`--verify` started as soon as nothing is listed any more; a user would find out later.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median
from typing import Any

from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from tests.bench.harness import MB, Flight, Reassignment, arguments, brokers, home_folder, leave
from tests.sandbox_data import fill
from tests.waiting import eventually

TOPIC = "bench.run"
RATE = 10 * MB
PARTITIONS = 8
PARTITION_BYTES = 80_000_000
"""For a minute and more: whether a last fetch fits into a quota's window makes 2 s either way."""
BATCH_BYTES = 52_000
BEFORE, AFTER = (1, 2), (3, 2)
DESTINATION = 3
QUIET_SECONDS = 14.0
"""Longer than a quota's window, so that no turn pays for the one before it."""
FIRST_SECONDS = 3.0
MOVED_SECONDS = 600.0


class Turns:
    """One sandbox with a topic that goes to and comes back from the destination."""

    def __init__(self, sandbox: Sandbox, home: Path) -> None:
        settings = ConnectionSettings(sandbox.bootstrap)
        self._client = KafkaClient(settings)
        self._partitions = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
        create_topics(settings, {TOPIC: [BEFORE] * PARTITIONS})
        fill(settings, dict.fromkeys(self._partitions, PARTITION_BYTES), batch_bytes=BATCH_BYTES)
        self._plan = Reassignment(sandbox, home, dict.fromkeys(self._partitions, AFTER))

    def turn(self, who: str) -> dict[str, Any]:
        """Let one of both carry the plan out, and put everything back."""
        time.sleep(QUIET_SECONDS)
        arrived = [0]

        def sample(since: float) -> None:
            if since <= FIRST_SECONDS:
                (answer,) = self._client.describe_log_dirs([DESTINATION])
                came = sum(log.size_bytes for log in answer.replicas if log.topic == TOPIC)
                arrived.append(came)

        flight = Flight(self._client, every=0.01, sample=sample)
        began = time.monotonic()
        if who == "trimtab":
            self._plan.apply(f"{RATE // MB}MB/s")
        else:
            self._plan.tool("--execute", "--throttle", str(RATE))
            flight.wait(MOVED_SECONDS)
            output = self._plan.tool("--verify")
            assert output.count("is completed.") == PARTITIONS, output
        whole = time.monotonic() - began
        flight.wait(MOVED_SECONDS)
        flight.close()
        self._client.alter_reassignments(dict.fromkeys(self._partitions, BEFORE))
        eventually(lambda: not self._client.fetch_reassignments(), MOVED_SECONDS, every=0.1)
        return {
            "who": who,
            "whole_seconds": round(whole, 2),
            "moving_seconds": round(flight.ended - flight.began, 2),
            "first_bytes": max(arrived),
            "first_bytes_over_rate": round(max(arrived) / RATE, 2),
        }

    def close(self) -> None:
        self._client.close()


def main() -> None:
    chosen = arguments(__doc__, rounds=3)
    with brokers("run", racks=2) as sandbox, home_folder() as home:
        turns = Turns(sandbox, home)
        order = [["trimtab", "tool"], ["tool", "trimtab"]]
        try:
            rows = [turns.turn(who) for i in range(chosen.rounds) for who in order[i % 2]]
        finally:
            turns.close()
    medians = {
        who: {
            name: median(row[name] for row in rows if row["who"] == who)
            for name in ("whole_seconds", "moving_seconds", "first_bytes_over_rate")
        }
        for who in ("trimtab", "tool")
    }
    report = {
        "rate_bytes_per_s": RATE,
        "bytes": PARTITIONS * PARTITION_BYTES,
        "rounds": rows,
        "medians": medians,
        "ratio": {
            name: round(medians["trimtab"][name] / medians["tool"][name], 3)
            for name in ("whole_seconds", "moving_seconds")
        },
    }
    leave(report, chosen.output)
    print(json.dumps({"medians": medians, "ratio": report["ratio"]}, indent=2))


if __name__ == "__main__":
    main()
