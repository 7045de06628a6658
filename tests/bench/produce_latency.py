"""What producers wait while replicas move: a run with `--throttle auto`, and Kafka's own tool.

A producer writes at a fixed pace with acks=all, to partitions that move and to others. By turns a
run and the tool (without a throttle, as it is without being told) carry out the same plan; before
and after each turn is an idle window. What counts is p99 while moves are in flight over p99 in the
two; beside it stands p99 away from the ends of moves, where followers pause for a second whatever
the throttle (docs/explanation/kafka.md). A run is long enough for that not to be more than what it
is.
In a third turn nothing moves: what its ratio is off 1 is the machine's doing, and the bench's.
In a fourth the tool is throttled as low as an adaptive run goes, for some minutes: what replicas
that move cost at that rate whoever moves them.
A turn whose idle windows are disturbed by something else on the machine is rejected, counted, and
played again.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.run.throttles.adaptive_rate import MIN_BYTES_PER_S
from tests.bench.harness import (
    MB,
    Flight,
    Reassignment,
    arguments,
    brokers,
    home_folder,
    leave,
    percentile,
)
from tests.sandbox_data import fill
from tests.waiting import eventually

MOVED, BESIDE = "bench.moved", "bench.beside"
PARTITIONS = 8
PARTITION_BYTES = 400 * MB
MESSAGES_PER_S = 200
MESSAGE_BYTES = 1_000
IDLE_SECONDS = 75.0
"""Before a turn, and after it: that of 45 s before alone was 2.6 to 3.7 ms within an hour, and
brokers fare a little worse or better as time goes by whatever is moved."""
NOTHING_SECONDS = 120.0
THROTTLED_SECONDS = 180.0
"""For so long the throttled tool's turn is watched; then it is cancelled."""
BURST_SECONDS = 30.0
"""So long after the tool has begun is left out: its quota acts late (docs/explanation/kafka.md)."""
SETTLE_SECONDS = 10.0
"""So long after whatever was before is not measured: brokers write back, and quotas forget."""
DISTURBED = 2.0
"""Idle windows with a p99 of so many times the median one tell of the machine."""
TURNS_AT_MOST = 6
"""For each, until enough of them count."""
END_SECONDS = 2.0
"""So long after a move ends, and a look before, messages belong to that end."""
DELIVERED_SECONDS = 330.0
"""librdkafka gives a message up after 300 s."""
MOVED_SECONDS = 600.0
WHO = ("trimtab", "nothing", "throttled-tool", "tool")
ROUNDS_AT_MOST = {"nothing": 2, "throttled-tool": 1, "tool": 1}
"""What is only beside it is not played in every round: hundreds of times is no chance."""


class PacedProducer:
    """Writes to partitions by turns at a fixed pace; keeps when each message left, and its wait."""

    def __init__(self, settings: ConnectionSettings, partitions: Sequence[TopicPartition]) -> None:
        self._settings, self._partitions = settings, tuple(partitions)
        self._waits: list[tuple[float, float]] = []
        self._unheard: dict[int, float] = {}
        self.failed = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    def _produce(self) -> None:
        from confluent_kafka import Producer

        config = self._settings.librdkafka_config()
        logger = config.pop("logger")
        producer = Producer({**config, "acks": "all", "linger.ms": 0}, logger=logger)
        payload, sent, began = bytes(MESSAGE_BYTES), 0, time.monotonic()
        while not self._stop.is_set():
            while sent < (time.monotonic() - began) * MESSAGES_PER_S:
                tp = self._partitions[sent % len(self._partitions)]
                heard = self._hearer(sent, time.monotonic())
                producer.produce(tp.topic, payload, partition=tp.partition, on_delivery=heard)
                sent += 1
            producer.poll(1 / MESSAGES_PER_S)
        producer.flush(10)

    def _hearer(self, number: int, at: float) -> Any:
        self._unheard[number] = at

        def heard(error: Any, message: Any) -> None:
            del self._unheard[number]
            if error is None:
                self._waits.append((at, message.latency() * 1000))
            else:  # it waited for as long as it was tried
                self.failed += 1
                self._waits.append((at, (time.monotonic() - at) * 1000))

        return heard

    def latencies(self, since: float, until: float) -> list[tuple[float, float]]:
        """Return when messages were sent between, and their waits, ms; all are waited for."""
        eventually(
            lambda: all(at > until for at in list(self._unheard.values())),
            DELIVERED_SECONDS,
            every=0.1,
        )
        return [(at, wait) for at, wait in list(self._waits) if since <= at <= until]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def p99(latencies: Iterable[float]) -> float:
    return percentile(list(latencies), 0.99)


class Turns:
    """One sandbox whose every broker gives and receives as the moved topic goes to and fro."""

    def __init__(self, sandbox: Sandbox, home: Path) -> None:
        settings = ConnectionSettings(sandbox.bootstrap)
        self._client = KafkaClient(settings)
        ids = sandbox.broker_ids
        ring = [ids[n % len(ids)] for n in range(PARTITIONS + len(ids))]
        self._before = [(ring[p], ring[p + 1]) for p in range(PARTITIONS)]
        after = [(ring[p], ring[p + 2]) for p in range(PARTITIONS)]
        moved = [TopicPartition(MOVED, p) for p in range(PARTITIONS)]
        beside = [TopicPartition(BESIDE, p) for p in range(PARTITIONS)]
        thrice = [(ring[p], ring[p + 1], ring[p + 2]) for p in range(PARTITIONS)]
        create_topics(settings, {MOVED: self._before, BESIDE: thrice})
        fill(settings, dict.fromkeys(moved, PARTITION_BYTES))
        self._plan = Reassignment(sandbox, home, dict(zip(moved, after, strict=True)))
        self.producer = PacedProducer(settings, [*moved, *beside])

    def turn(self, who: str) -> dict[str, Any]:
        """Let one carry the plan out, or nobody, between idle windows, and put everything back."""
        flight = Flight(self._client)  # it looks from now on: its own cost is in both windows
        time.sleep(SETTLE_SECONDS)
        idle = [_slept(IDLE_SECONDS)]
        window = self._carried_out(who)
        time.sleep(SETTLE_SECONDS)
        idle.append(_slept(IDLE_SECONDS))
        flight.close()
        began, ended = window or (flight.began, flight.ended)
        idle_ms = p99(wait for span in idle for _, wait in self.producer.latencies(*span))
        during = self.producer.latencies(began, ended)
        during_ms = p99(wait for _, wait in during)
        away = [wait for at, wait in during if _is_away_from(flight.ends, at)]
        back = {TopicPartition(MOVED, p): r for p, r in enumerate(self._before)}
        self._client.alter_reassignments(back)
        eventually(lambda: not self._client.fetch_reassignments(), MOVED_SECONDS, every=0.1)
        return {
            "who": who,
            "moving_seconds": round(ended - began, 2),
            "messages": len(during),
            "idle_p99_ms": round(idle_ms, 2),
            "moving_p99_ms": round(during_ms, 2),
            "away_messages": len(away),
            "away_p99_ms": round(p99(away), 2) if away else None,
            "ratio": round(during_ms / idle_ms, 2),
            "load": round(os.getloadavg()[0], 2),
        }

    def _carried_out(self, who: str) -> tuple[float, float] | None:
        """Return the window to measure; None for the time that moves are seen in flight."""
        if who == "trimtab":
            self._plan.apply("auto")
            return None
        if who == "nothing":
            return _slept(NOTHING_SECONDS)
        if who == "throttled-tool":
            self._plan.tool("--execute", "--throttle", str(MIN_BYTES_PER_S))
            time.sleep(BURST_SECONDS)
            window = _slept(THROTTLED_SECONDS)
            self._plan.tool("--cancel")
            return window
        self._plan.tool("--execute")
        eventually(lambda: not self._client.fetch_reassignments(), MOVED_SECONDS, every=0.1)
        return None

    def close(self) -> None:
        self.producer.stop()
        self._client.close()


def _is_away_from(ends: Iterable[float], at: float) -> bool:
    return not any(end - END_SECONDS / 4 <= at <= end + END_SECONDS for end in ends)


def _slept(seconds: float) -> tuple[float, float]:
    """Return when a wait of so long began and ended."""
    began = time.monotonic()
    time.sleep(seconds)
    return began, time.monotonic()


def split(rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the turns that count, and those whose idle windows were disturbed."""
    usual = median(row["idle_p99_ms"] for row in rows)
    kept = [row for row in rows if row["idle_p99_ms"] <= DISTURBED * usual]
    return kept, [row for row in rows if row not in kept]


def median_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def measured(turns: Turns, rounds: int) -> list[dict[str, Any]]:
    """Play rounds until so many turns of each count, or there were too many."""
    rows: list[dict[str, Any]] = []
    for number in range(TURNS_AT_MOST):
        left = [who for who in WHO if _round_count(who, rounds) > _kept(rows, who)]
        if not left:
            break
        for who in left if number % 2 == 0 else reversed(left):
            rows.append(turns.turn(who))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def _round_count(who: str, rounds: int) -> int:
    return min(rounds, ROUNDS_AT_MOST.get(who, rounds))


def _kept(rows: Sequence[dict[str, Any]], who: str) -> int:
    kept, _ = split(rows) if rows else ([], [])
    return sum(row["who"] == who for row in kept)


def main() -> None:
    chosen = arguments(__doc__, rounds=3)
    with brokers("latency") as sandbox, home_folder() as home:
        turns = Turns(sandbox, home)
        try:
            rows = measured(turns, chosen.rounds)
        finally:
            turns.close()
    kept, rejected = split(rows)
    medians = {
        who: {
            name: median_known(row[name] for row in kept if row["who"] == who)
            for name in ("moving_seconds", "idle_p99_ms", "moving_p99_ms", "ratio", "away_p99_ms")
        }
        for who in WHO
    }
    report = {
        "bytes": PARTITIONS * PARTITION_BYTES,
        "messages_per_s": MESSAGES_PER_S,
        "least_bytes_per_s": MIN_BYTES_PER_S,
        "turns": kept,
        "rejected": rejected,
        "failed_messages": turns.producer.failed,
        "medians": medians,
    }
    leave(report, chosen.output)
    print(json.dumps({"medians": medians, "rejected": len(rejected)}, indent=2))


if __name__ == "__main__":
    main()
