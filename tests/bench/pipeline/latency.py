"""P4: from a segment in the spool to the manifest that counts it, with two days of work behind.

Once at 100,000 partitions, and once at 5,000 with the quick compiler: as a dashboard's pipeline has
it. As after 48 hours, 17,280 small segments lie in the archive and only the newest in the spool.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from core.clock import SystemClock
from core.load import load_paths as layout
from core.load import spool
from core.load.snapshot.manifest import read_manifest
from core.pipeline.job import Job
from core.pipeline.publish import Published
from core.pipeline.session import Session, open_session
from tests.bench.pipeline.engines import jvm_pid
from tests.bench.pipeline.polls import CLUSTER, POLL_SECONDS, REPLICAS, Polls


@dataclass(frozen=True, slots=True)
class Size:
    """A cluster's size, how its session compiles, and what may pass from landed to visible."""

    partitions: int
    quick: bool
    target_seconds: float


SIZES = (Size(100_000, False, 5.0), Size(5_000, True, 1.5))
BEHIND_HOURS = spool.SPOOL_SECONDS // 3600
WARM_UP = 5
POLLS = 50
LONGEST_SECONDS = 300.0
"""After those that warm it up: a slow machine measures fewer polls, and says so."""
TRIGGER_SECONDS = 0.5


def measure(sizes: tuple[Size, ...] = SIZES, polls: int = POLLS) -> dict[str, Any]:
    """Return the time of each poll at each size."""
    timings = [{**measure_size(size, polls), "met": False} for size in sizes]
    for size, of in zip(sizes, timings, strict=True):
        of["met"] = of["p95_seconds"] <= size.target_seconds and of["polls"] == polls
    targets = (f"{s.target_seconds:g} s at {s.partitions:,}" for s in sizes)
    values = (
        f"{of['p95_seconds']:.2f} s at {of['partitions']:,} ({of['polls']} polls)" for of in timings
    )
    return {
        "target": f"p95 of {polls} polls at most {', '.join(targets)}",
        "value": ", ".join(values),
        "met": all(of["met"] for of in timings),
        "poll_seconds": POLL_SECONDS,
        "sizes": timings,
    }


def work_behind(root: Path, before: datetime) -> None:
    """Leave the archive of 48 hours of polls: what is in them no job reads."""
    an_hour = 3600 // POLL_SECONDS
    for hours in range(1, BEHIND_HOURS + 1):
        at = before - timedelta(hours=hours)
        folder = layout.archive(root, CLUSTER) / f"date={at:%Y-%m-%d}" / f"hour={at:%H}"
        folder.mkdir(parents=True)
        for number in range(an_hour):
            (folder / f"behind-{hours * an_hour + number:08d}.parquet").write_bytes(b"PAR1")


def measure_size(size: Size, polls: int) -> dict[str, Any]:
    """Return the time of each poll; the next one lands when the last can be seen."""
    seen = threading.Event()
    ended = threading.Event()

    def on_batch(batch: list[Published]) -> None:
        if any(published.counts.read for published in batch):
            seen.set()

    session = open_session(quick=size.quick)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        root = Path(folder)
        clock = SystemClock()
        feeding = Polls(size.partitions)
        # As if polls came each ten seconds, whenever they do.
        start = clock.now() - timedelta(seconds=POLL_SECONDS * (WARM_UP + polls))
        work_behind(root, start)
        job = Job(session.spark, root, CLUSTER, clock, on_batch)
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
            for number in range(WARM_UP + polls):
                if number == WARM_UP:
                    deadline = time.monotonic() + LONGEST_SECONDS
                if time.monotonic() > deadline:
                    break
                seen.clear()
                feeding.feed(root, number, start + timedelta(seconds=POLL_SECONDS * number))
                landed, before = time.monotonic(), processor_seconds(session)
                while not seen.wait(0.1):
                    if not running.is_alive():
                        raise RuntimeError("the job broke off")
                times.append(time.monotonic() - landed)
                worked.append(processor_seconds(session) - before)
            manifest = read_manifest(root, CLUSTER)
            assert manifest is not None
            assert manifest.counts.accepted == len(times) * size.partitions * REPLICAS
        finally:
            ended.set()
            running.join()
            session.stop()
    counted = times[WARM_UP:]
    return {
        "partitions": size.partitions,
        "quick": size.quick,
        "polls": len(counted),
        "median_seconds": round(float(np.median(counted)), 2),
        "p95_seconds": round(float(np.percentile(counted, 95)), 2),
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
