"""P9: rates of 5-minute windows beside what a simulated cluster's producers really sent.

Ours come from the collector through Spark, by the Admin API alone. Beside them is Cruise
Control's way at its best: each broker's exact counter of a topic, split evenly over the
partitions that it leads. Both are measured in the same run, partition by partition. What the
simulator makes easier than life: the messages of a topic are all of one size.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from core.cluster.log_dirs import BrokerLogs
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.spec import (
    BrokerSpec,
    ClusterSpec,
    GroupSpec,
    PartitionSpec,
    TopicSpec,
)
from core.load.collector.collector import Collector
from core.load.windows import LENGTH, window_files
from core.pipeline.job import Job
from core.pipeline.session import open_session

BROKERS = (1, 2, 3, 4)
PARTITIONS = 12
POLL_SECONDS = 10.0
MINUTES = 40
RESTART_AT, RESTART_SECONDS = 15 * 60.0, 90.0
CLEANED_EACH_SECONDS = 300.0
CLEANED_SHARE = 0.6
TOPICS = {
    "one hot partition": "one of 12 partitions takes 10 times what the others do",
    "retention": "segments are deleted each few minutes",
    "compaction": "the log shrinks each 5 minutes, its offsets do not",
    "even": "all partitions take the same; the way of least error for an even split",
}
WAYS = ("trimtab", "even split")
TARGETS = {"median": 0.05, "p99": 0.15}
"""Of errors, of each topic."""


def cluster() -> SimulatedCluster:
    """Return four brokers with a topic for each thing that is hard to measure."""

    def topic(name: str, rates: list[float], **configs: str) -> TopicSpec:
        return TopicSpec(
            name,
            tuple(
                PartitionSpec(
                    (BROKERS[p % 4], BROKERS[(p + 1 + p // 4) % 4]),
                    size_bytes=round(rate * 900),
                    in_bytes_per_s=rate,
                )
                for p, rate in enumerate(rates)
            ),
            configs,
            rhythm=0.3,
            jitter=0.3,
        )

    return SimulatedCluster(
        ClusterSpec(
            "bench",
            tuple(BrokerSpec(b) for b in BROKERS),
            (
                topic("one hot partition", [10e6] + [1e6] * (PARTITIONS - 1)),
                topic(
                    "retention",
                    [2e6] * PARTITIONS,
                    **{"retention.ms": "600000", "segment.bytes": "100000000"},
                ),
                topic(
                    "compaction",
                    [1e6] * PARTITIONS,
                    # Its size is what `Compacting` says; the simulator is to take nothing away.
                    **{"cleanup.policy": "compact", "segment.bytes": str(10**15)},
                ),
                topic("even", [1e6] * PARTITIONS),
            ),
            groups=(GroupSpec("readers", tuple(TOPICS)),),
        ),
        seed=1,
    )


class Compacting:
    """The cluster's client, but the logs of one topic lose size as a log cleaner makes them."""

    def __init__(self, client: SimulatedCluster) -> None:
        self._client = client
        self._seen: dict[tuple[int, int], int] = {}
        self._removed: dict[tuple[int, int], int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def clean(self) -> None:
        """Take away most of what has come since the last time."""
        for answer in self._client.describe_log_dirs(BROKERS):
            for log in answer.replicas:
                if log.topic == "compaction":
                    key = (answer.broker, log.partition)
                    came = log.size_bytes - self._seen.get(key, log.size_bytes)
                    self._removed[key] = self._removed.get(key, 0) + round(CLEANED_SHARE * came)
                    self._seen[key] = log.size_bytes

    def describe_log_dirs(self, brokers: Collection[int]) -> tuple[BrokerLogs, ...]:
        return tuple(
            replace(
                answer,
                replicas=tuple(
                    replace(log, size_bytes=log.size_bytes - self._removed[answer.broker, p])
                    if log.topic == "compaction"
                    and (answer.broker, p := log.partition) in self._removed
                    else log
                    for log in answer.replicas
                ),
            )
            for answer in self._client.describe_log_dirs(brokers)
        )


class Truth:
    """What was produced to each partition in each window, and led by whom; bytes."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._simulated = simulated
        self._logs = simulated._engine.logs
        self._ends: dict[datetime, Any] = {}
        self._read: dict[datetime, Any] = {}
        self.leaders: dict[datetime, Any] = {}

    def look(self) -> None:
        """Note where the logs end, if a window begins now."""
        now = self._simulated.now
        if now.timestamp() % LENGTH.total_seconds() == 0:
            self._ends[now] = self._logs.end.copy()
            self.leaders[now] = self._simulated.describe_cluster().leader.copy()

    def rates(self, start: datetime) -> Any:
        """Return bytes/s of the window that starts at `start`."""
        return (self._ends[start + LENGTH] - self._ends[start]) / LENGTH.total_seconds()


def even_split(truth: Any, topic_of: Any, leader: Any) -> Any:
    """Return each broker's true rate of a topic over the partitions of it that it leads."""
    key = topic_of.astype(np.int64) * 1000 + leader
    _, group = np.unique(key, return_inverse=True)
    return (np.bincount(group, truth) / np.bincount(group))[group]


def live(simulated: SimulatedCluster, root: Path) -> Truth:
    """Let the cluster live while it is polled: a broker restarts, a topic is compacted."""
    client = Compacting(simulated)
    collector = Collector(client, simulated.clock, root)
    truth = Truth(simulated)
    while simulated.elapsed_seconds < MINUTES * 60 + 2 * POLL_SECONDS:
        truth.look()
        if simulated.elapsed_seconds % CLEANED_EACH_SECONDS == 0:
            client.clean()
        if simulated.elapsed_seconds == RESTART_AT:
            simulated.stop_broker(2)
        if simulated.elapsed_seconds == RESTART_AT + RESTART_SECONDS:
            simulated.start_broker(2)
        # A few seconds off the windows' grid, as polls are.
        simulated.advance(3)
        collector.poll()
        simulated.advance(POLL_SECONDS - 3)
    return truth


def measure() -> dict[str, Any]:
    """Return each topic's errors of both ways, over all its partitions and whole windows."""
    simulated = cluster()
    session = open_session(cores=2, quick=True)
    try:
        with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
            root = Path(folder)
            truth = live(simulated, root)
            Job(session.spark, root, "bench", simulated.clock).once()
            return _compared(simulated, truth, root)
    finally:
        session.stop()


def _compared(simulated: SimulatedCluster, truth: Truth, root: Path) -> dict[str, Any]:
    state = simulated.describe_cluster()
    names = [topic.name for topic in state.topics]
    errors: dict[str, dict[str, list[float]]] = {n: {who: [] for who in WAYS} for n in names}
    hot: dict[str, list[float]] = {who: [] for who in ("true", *WAYS)}
    began, ends = simulated.spec.started_at, simulated.spec.started_at + timedelta(minutes=MINUTES)
    for start in [began + LENGTH * i for i in range(1, (ends - began) // LENGTH)]:
        (path,) = window_files(root, "bench", start, start + LENGTH)
        rows = {
            (r["topic"], r["partition"]): r["in_bytes_per_s_avg"]
            for r in pq.ParquetFile(path).read().to_pylist()
        }
        real = truth.rates(start)
        # CC knows leaders as they are when it samples; here as they are when the window ends.
        split = even_split(real, state.topic_of, truth.leaders[start + LENGTH])
        for i in range(state.partition_count):
            topic, partition = state.tp(i)
            ours = rows[topic, partition]
            errors[topic]["trimtab"].append(abs(ours / real[i] - 1))
            errors[topic]["even split"].append(abs(split[i] / real[i] - 1))
            if (topic, partition) == ("one hot partition", 0):
                for who, value in (("true", real[i]), ("trimtab", ours), ("even split", split[i])):
                    hot[who].append(float(value))
    summaries = {
        name: {
            "what": TOPICS[name],
            **{
                who: {
                    "median": round(float(np.median(of)), 4),
                    "p99": round(float(np.percentile(of, 99)), 4),
                    "worst": round(float(np.max(of)), 4),
                }
                for who, of in errors[name].items()
            },
        }
        for name in TOPICS
    }
    worst = {
        who: {name: max(row[who][name] for row in summaries.values()) for name in TARGETS}
        for who in WAYS
    }

    def words(of: dict[str, float]) -> str:
        return ", ".join(f"{name} {value:.1%}" for name, value in of.items())

    bounds = ", ".join(f"{name} at most {value:.0%}" for name, value in TARGETS.items())
    return {
        "target": f"errors of every topic: {bounds}",
        "value": f"{words(worst['trimtab'])} (even split: {words(worst['even split'])})",
        "met": all(worst["trimtab"][name] <= bound for name, bound in TARGETS.items()),
        "windows": len(hot["true"]),
        "topics": summaries,
        "hot_partition_mb_per_s": {
            who: round(float(np.mean(of)) / 1e6, 2) for who, of in hot.items()
        },
    }
