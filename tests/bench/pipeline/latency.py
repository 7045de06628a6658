"""P4: from a segment in the spool to the manifest that counts it, at 100,000 partitions."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from core.clock import SystemClock
from core.load import arrow as columns
from core.load import spool
from core.load.snapshot.manifest import read_manifest
from core.pipeline.intake import Published
from core.pipeline.job import Job
from core.pipeline.session import Session, open_session
from tests.bench.pipeline.engines import jvm_pid

CLUSTER = "bench"
REPLICAS = 3
BROKERS = 30
PARTITIONS_A_TOPIC = 100
POLL_SECONDS = 10
PARTITIONS = 100_000
WARM_UP = 5
POLLS = 50
LONGEST_SECONDS = 150.0
"""After those that warm it up: a slow machine measures fewer polls, and says so."""
TRIGGER_SECONDS = 0.5
TARGET_SECONDS = 5.0


class Polls:
    """Polls of `partitions` partitions with three replicas each, ten seconds apart."""

    def __init__(self, partitions: int, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self.partitions = partitions
        topics = -(-partitions // PARTITIONS_A_TOPIC)
        rows = partitions * REPLICAS
        self._of = np.repeat(np.arange(partitions), REPLICAS)
        self._topics = [f"bench.topic-{t:05}" for t in range(topics)]
        self._ids = [f"id-{t:019}" for t in range(topics)]
        self._topic_of = (self._of // PARTITIONS_A_TOPIC).astype(np.int32)
        self._leads = np.arange(rows) % REPLICAS == 0
        self._broker = (self._of + np.tile([0, 1, 7], partitions)) % BROKERS
        self._mean = self._rng.lognormal(8, 2, partitions)
        self._size = np.full(partitions, 10**8)

    def feed(self, root: Path, number: int, start: datetime) -> Path:
        """Write poll `number` as a segment through the gate, and return where it was spooled."""
        rows, at = len(self._of), start + timedelta(seconds=POLL_SECONDS * number)
        amount = np.round(self._mean * POLL_SECONDS * self._rng.uniform(0.5, 1.5, self.partitions))
        self._size = self._size + amount.astype(np.int64)
        whole, real = pa.int64(), pa.float64()

        def constant(value: str):
            return columns.dictionary_array(np.zeros(rows, np.int32), [value])

        def each(value: float, kind):
            return columns.number_array(np.full(rows, value), kind)

        def led(values, kind):
            return columns.number_array(values[self._of], kind, self._leads)

        segment = spool.write_segment(
            root,
            CLUSTER,
            f"bench-{number:08d}",
            {
                "cluster_id": constant(CLUSTER),
                "topic": columns.dictionary_array(self._topic_of, self._topics),
                "topic_id": columns.dictionary_array(self._topic_of, self._ids),
                "partition": columns.number_array(self._of % PARTITIONS_A_TOPIC, pa.int32()),
                "broker_id": columns.number_array(self._broker, pa.int32()),
                "is_leader": columns.boolean_array(self._leads),
                "leader_epoch": each(1, pa.int32()),
                "ts": each(round(at.timestamp() * 1e6), pa.timestamp("us", "UTC")),
                "dt_ms": led(np.full(self.partitions, POLL_SECONDS * 1000), pa.int32()),
                "end_offset": led(self._size // 100, whole),
                "start_offset": led(np.zeros(self.partitions), whole),
                "offset_delta": led(amount // 100, whole),
                "size_delta": led(amount, whole),
                "size_bytes": columns.number_array(self._size[self._of], whole),
                "in_bytes": led(amount, real),
                "out_bytes": led(amount * 2, real),
                "in_method": each(2, pa.int8()),
                "out_method": each(3, pa.int8()),
                "replica_lag": each(0, whole),
                "group_lag": each(0, whole),
                "log_dir": constant("/var/lib/kafka"),
                "source": constant("admin"),
                "collector_id": constant("bench"),
                "poll_id": each(number, whole),
                "flags": each(0, pa.int32()),
            },
            at,
        )
        if segment is None:
            raise RuntimeError("the gate refused a poll of the bench")
        return segment


def measure(partitions: int = PARTITIONS) -> dict[str, Any]:
    """Return the time of each poll; the next one lands when the last can be seen."""
    seen = threading.Event()
    ended = threading.Event()

    def told(published: Published) -> None:
        if published.counts.read:
            seen.set()

    session = open_session()
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        root = Path(folder)
        clock = SystemClock()
        polls = Polls(partitions)
        start = clock.now()
        job = Job(session.spark, root, CLUSTER, clock, told)
        running = threading.Thread(
            target=job.run,
            args=(TRIGGER_SECONDS, lambda: not ended.is_set()),
            kwargs={"rest": 0.0},
        )
        running.start()
        times: list[float] = []
        worked: list[float] = []
        deadline = float("inf")
        try:
            for number in range(WARM_UP + POLLS):
                if number == WARM_UP:
                    deadline = time.monotonic() + LONGEST_SECONDS
                if time.monotonic() > deadline:
                    break
                seen.clear()
                # As if polls came each ten seconds, whenever they do.
                polls.feed(root, number - (WARM_UP + POLLS), start)
                landed, before = time.monotonic(), processor_seconds(session)
                while not seen.wait(0.1):
                    if not running.is_alive():
                        raise RuntimeError("the job broke off")
                times.append(time.monotonic() - landed)
                worked.append(processor_seconds(session) - before)
            manifest = read_manifest(root, CLUSTER)
            assert manifest is not None
            assert manifest.counts.accepted == len(times) * partitions * 3
        finally:
            ended.set()
            running.join()
            session.stop()
    counted = times[WARM_UP:]
    p95 = float(np.percentile(counted, 95))
    return {
        "target": f"p95 of {POLLS} polls at most {TARGET_SECONDS:g} s",
        "value": f"{p95:.2f} s, {len(counted)} polls",
        "met": p95 <= TARGET_SECONDS and len(counted) == POLLS,
        "partitions": partitions,
        "poll_seconds": POLL_SECONDS,
        "median_seconds": round(float(np.median(counted)), 2),
        "p95_seconds": round(p95, 2),
        "seconds": [round(seconds, 2) for seconds in times],
        "processor_median_seconds": round(float(np.median(worked[WARM_UP:])), 2),
        "processor_seconds": [round(seconds, 2) for seconds in worked],
    }


def processor_seconds(session: Session) -> float:
    """Return what this process and Spark's JVM have worked so far: the same on a busy machine."""
    pid = jvm_pid(session)
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")
