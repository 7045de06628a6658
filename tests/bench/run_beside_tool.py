"""A throttled run beside Kafka's own tool: same plan, same rate, same brokers, by turns.

Measured of both: from the command to its end, from the first reassignment listed to the last one
gone, and the bytes that have come in the first three seconds. The tool's end is that of a
`--verify` started as soon as nothing is listed any more; a user would find out later.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.topics import create_topics
from core.cluster.sandbox.workload import fill
from tests.bench.harness import MB, Reassignment, arguments, brokers, home_folder, leave
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


class Watcher:
    """Looks at the moves and at what has come to the destination, as often as it is answered."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self.began = self.ended = 0.0
        self.samples: list[tuple[float, int]] = []
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        deadline = time.monotonic() + MOVED_SECONDS
        while not self.began or self._client.fetch_reassignments():
            if time.monotonic() > deadline:
                return
            if not self.began and self._client.fetch_reassignments():
                self.began = time.monotonic()
            if self.began:
                (answer,) = self._client.describe_log_dirs([DESTINATION])
                arrived = sum(log.size_bytes for log in answer.replicas if log.topic == TOPIC)
                self.samples.append((time.monotonic() - self.began, arrived))
            time.sleep(0.01)
        self.ended = time.monotonic()

    def wait(self) -> None:
        self._thread.join()
        assert self.ended, "the moves did not begin, or do not end"

    def first_bytes(self) -> int:
        """Return what had come when the first seconds were over."""
        return max((size for at, size in self.samples if at <= FIRST_SECONDS), default=0)


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
        watcher = Watcher(self._client)
        began = time.monotonic()
        if who == "trimtab":
            self._plan.apply(f"{RATE // MB}MB/s")
        else:
            self._plan.tool("--execute", "--throttle", str(RATE))
            watcher.wait()
            said = self._plan.tool("--verify")
            assert said.count("is completed.") == PARTITIONS, said
        whole = time.monotonic() - began
        watcher.wait()
        self._client.alter_reassignments(dict.fromkeys(self._partitions, BEFORE))
        eventually(lambda: not self._client.fetch_reassignments(), MOVED_SECONDS, every=0.1)
        return {
            "who": who,
            "whole_seconds": round(whole, 2),
            "moving_seconds": round(watcher.ended - watcher.began, 2),
            "first_bytes": watcher.first_bytes(),
            "first_bytes_over_rate": round(watcher.first_bytes() / RATE, 2),
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
    found = {
        "rate_bytes_per_s": RATE,
        "bytes": PARTITIONS * PARTITION_BYTES,
        "rounds": rows,
        "medians": medians,
        "ratio": {
            name: round(medians["trimtab"][name] / medians["tool"][name], 3)
            for name in ("whole_seconds", "moving_seconds")
        },
    }
    leave(found, chosen.output)
    print(json.dumps({"medians": medians, "ratio": found["ratio"]}, indent=2))


if __name__ == "__main__":
    main()
