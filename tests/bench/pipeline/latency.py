"""P4: from a segment in the spool to the manifest that counts it, at 100,000 partitions."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from core.clock import SystemClock
from core.load.snapshot.manifest import read_manifest
from core.pipeline.job import Job, Published
from core.pipeline.session import Session, open_session
from tests.bench.pipeline.engines import jvm_pid
from tests.bench.pipeline.polls import CLUSTER, POLL_SECONDS, Polls

PARTITIONS = 100_000
WARM_UP = 5
POLLS = 50
LONGEST_SECONDS = 150.0
"""After those that warm it up: a slow machine measures fewer polls, and says so."""
TRIGGER_SECONDS = 0.5
TARGET_SECONDS = 2.0


def measure(partitions: int = PARTITIONS) -> dict[str, Any]:
    """Return the time of each poll; the next one lands when the last can be seen."""
    seen = threading.Event()
    ended = threading.Event()

    def told(published: Published) -> None:
        if published.batch.read:
            seen.set()

    session = open_session()
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        root = Path(folder)
        clock = SystemClock()
        polls = Polls(partitions)
        start = clock.now()
        job = Job(session.spark, root, CLUSTER, clock, told)
        running = threading.Thread(
            target=job.run, args=(TRIGGER_SECONDS, lambda: not ended.is_set())
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
