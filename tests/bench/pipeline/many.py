"""P12 and P14: a thousand clusters of a thousand partitions in one job, on two cores.

A batch is a minute of all of them in one file: six polls of leaders, the last with all replicas. It
is timed from when the file is there until the batch is complete. Two windows are played first, so
that as much is carried as ever is; what is measured are the five batches of a window, in one of
which the one before closes, so that closing has the share that it always has.

P12 has a fourth and a half of the clusters, too, in sessions of their own. P14 plays windows in
turn: in each second one a fifth of one cluster's rows cannot be, and another cluster sends nothing.
The others are looked at: how long after the file was there each had its manifest. Their delay is
how much longer that is, in the same minute of a window, than in the window before; noise is how far
two windows differ in which nothing was wrong. So it is with the last of them, too.
"""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from core.clock import SystemClock
from core.load import load_paths as layout
from core.load.snapshot.manifest import read_manifest
from core.load.windows import LENGTH, window_floor
from core.pipeline.job import Job
from core.pipeline.session import Session, open_session
from core.pipeline.source import SCHEMA, Arrived
from tests.bench.pipeline.polls import POLL_SECONDS, REPLICAS, Polls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "all"
CLUSTERS = 1000
PARTITIONS = 1000
POLLS_A_BATCH = 6
BATCHES_A_WINDOW = round(LENGTH.total_seconds()) // (POLLS_A_BATCH * POLL_SECONDS)
WINDOWS_BEFORE = 2
LONGEST_BATCH_SECONDS = 900.0
TRIGGER_SECONDS = 0.1
ROWS_TARGET = 400_000
IN_PROPORTION = 1.1
"""What twice the clusters may take beyond twice the time: two runs of the same differ by it."""
TURNS = 3
"""Of P14: windows in which nothing is wrong, and after each one in which something is."""


class OneFile:
    """A source of the samples of all clusters: what is in one Parquet file is a batch."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stream(self, spark: SparkSession) -> DataFrame:
        return (
            spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length bigint, content binary")
            .option("maxFilesPerTrigger", 1)
            .load(str(self._folder))
            .select("path")
        )

    def arrived(
        self, spark: SparkSession, batch: DataFrame, offsets: Mapping[str, int]
    ) -> Arrived | None:
        units = tuple(row.path for row in batch.collect())
        rows = spark.read.schema(SCHEMA).parquet(*units)
        where = (
            F.col("cluster_id").alias("cluster"),
            F.col("_metadata.file_name").alias("unit"),
            F.lit(0).alias("part"),
            F.lit(True).alias("is_last"),
        )
        return Arrived(rows.select("*", *where), units)

    def settle(self, units: Iterable[str]) -> None:
        for unit in units:
            Path(unit.removeprefix("file:")).unlink(missing_ok=True)

    def sweep(self) -> int:
        return 0


class TimedJob(Job):
    """A job that tells when each of its batches is complete."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.completed: queue.Queue[float] = queue.Queue()

    def process(self, arrived: DataFrame, number: int) -> None:
        super().process(arrived, number)
        self.completed.put(time.monotonic())


@dataclass(slots=True)
class Feeding:
    """A job that runs, and the file of the next batch."""

    root: Path
    polls: Polls
    start: datetime
    job: TimedJob
    running: threading.Thread
    number: int = 0

    def batch(self, rubbish: str | None = None, stalled: str | None = None) -> tuple[float, float]:
        """Let a minute's file land; return when that was, and how many seconds the batch took."""
        aside = self.root / "next.parquet"
        writer = None
        for poll in range(POLLS_A_BATCH):
            number = self.number * POLLS_A_BATCH + poll
            rows = self.polls.rows(
                number,
                self.start + timedelta(seconds=POLL_SECONDS * number),
                followers=poll == POLLS_A_BATCH - 1,
                rubbish=rubbish,
                stalled=stalled,
            )
            table = pa.table(rows)
            writer = writer or pq.ParquetWriter(aside, table.schema, compression="zstd")
            writer.write_table(table)
        assert writer is not None
        writer.close()
        aside.rename(landing(self.root) / f"minute-{self.number:06d}.parquet")
        landed, began = time.time(), time.monotonic()
        self.number += 1
        while True:
            try:
                return landed, self.job.completed.get(timeout=1) - began
            except queue.Empty:
                if not self.running.is_alive():
                    raise RuntimeError("the job broke off") from None
                if time.monotonic() - began > LONGEST_BATCH_SECONDS:
                    raise RuntimeError("the batch takes too long") from None

    @property
    def rows(self) -> int:
        """Return how many rows a batch has in which nothing is wrong."""
        return self.polls.total * (POLLS_A_BATCH - 1 + REPLICAS)


def landing(root: Path) -> Path:
    return root / "landing"


@contextmanager
def feeding(clusters: int, partitions: int, windows: int) -> Iterator[Feeding]:
    """Run a job of so many clusters that has as much to carry as it ever has.

    `windows` are played afterwards, and lie in the past.
    """
    ids = [f"bench-{number:04d}" for number in range(clusters)]
    start = start_of(WINDOWS_BEFORE + windows)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as name:
        root = Path(name)
        landing(root).mkdir()
        with running_job(open_session(), root, Polls(partitions, ids), start) as fed:
            for _ in range(WINDOWS_BEFORE * BATCHES_A_WINDOW):
                fed.batch()
            yield fed


def start_of(windows: int) -> datetime:
    """Return when the first of so many windows starts that all lie in the past."""
    return window_floor(SystemClock().now() - LENGTH * (windows + 1))


@contextmanager
def running_job(
    session: Session, root: Path, polls: Polls, start: datetime, number: int = 0
) -> Iterator[Feeding]:
    """Run a job in a session, to the end of both; the next batch is the one of this number."""
    job = TimedJob(session.spark, root, NAME, SystemClock(), source=OneFile(landing(root)))
    ended = threading.Event()
    running = threading.Thread(
        target=job.run,
        args=(TRIGGER_SECONDS, lambda: not ended.is_set()),
        kwargs={"rest": 0.0},
    )
    running.start()
    try:
        yield Feeding(root, polls, start, job, running, number)
    finally:
        ended.set()
        running.join()
        session.stop()


# -- P12 -------------------------------------------------------------------------------------------


def measure(most: int = CLUSTERS, partitions: int = PARTITIONS) -> dict[str, Any]:
    """Return what a window's batches take at each number of clusters, up to `most`."""
    timings = []
    for clusters in (most // 4, most // 2, most):
        with feeding(clusters, partitions, windows=1) as fed:
            seconds = [fed.batch()[1] for _ in range(BATCHES_A_WINDOW)]
            timings.append(
                {
                    "clusters": clusters,
                    "partitions_each": partitions,
                    "rows_a_batch": fed.rows,
                    "seconds": [round(of, 2) for of in seconds],
                    "rows_per_s": round(fed.rows * len(seconds) / sum(seconds)),
                }
            )
    speed = timings[-1]["rows_per_s"]
    grown = max(
        (sum(more["seconds"]) / more["clusters"]) / (sum(fewer["seconds"]) / fewer["clusters"])
        for fewer, more in pairwise(timings)
    )
    each = ", ".join(f"{np.mean(of['seconds']):.1f} s at {of['clusters']:,}" for of in timings)
    return {
        "target": f"at least {ROWS_TARGET:,}; a batch's time grows at most in proportion",
        "value": f"{speed:,}; {each}",
        "met": speed >= ROWS_TARGET and grown <= IN_PROPORTION,
        "most_for_as_many_more": round(grown, 3),
        "sizes": timings,
    }


# -- P14 -------------------------------------------------------------------------------------------


def measure_isolation(
    clusters: int = CLUSTERS, partitions: int = PARTITIONS, turns: int = TURNS
) -> dict[str, Any]:
    """Return how long the other clusters wait for their manifests with two that misbehave."""
    windows_by_kind: dict[str, list[list[list[float]]]] = {"nothing wrong": [], "trouble": []}
    with feeding(clusters, partitions, windows=2 * turns) as fed:
        rubbish, stalled, *others = fed.polls.clusters
        for _ in range(turns):
            for kind, windows in windows_by_kind.items():
                wrong = (rubbish, stalled) if kind == "trouble" else (None, None)
                window = []
                for _ in range(BATCHES_A_WINDOW):
                    landed, _ = fed.batch(*wrong)
                    window.append([waited(fed.root, other, landed) for other in others])
                windows.append(window)
        manifest = read_manifest(fed.root, rubbish)
        assert manifest is not None
        assert manifest.counts.quarantined, "all of its rows could be"
    fine, trouble = (np.array(windows) for windows in windows_by_kind.values())
    middle, worst = (_delay(how(fine, axis=2), how(trouble, axis=2)) for how in (np.median, np.max))
    return {
        "target": "none beyond noise",
        "value": f"{middle}; of the worst {worst}",
        "met": middle.is_noise and worst.is_noise,
        "clusters": clusters,
        "partitions_each": partitions,
        "quarantined": dict(manifest.counts.quarantined),
        "seconds": {
            kind: {
                "median": np.median(of, axis=2).round(3).tolist(),
                "worst": np.max(of, axis=2).round(3).tolist(),
            }
            for kind, of in (("nothing wrong", fine), ("trouble", trouble))
        },
    }


@dataclass(frozen=True, slots=True)
class Delay:
    """How much longer a wait is beside trouble, and how much it differs without any; seconds."""

    wait: float
    delay: float
    noise: float

    @property
    def is_noise(self) -> bool:
        return self.delay <= self.noise

    def __str__(self) -> str:
        return f"{self.delay:+.2f} s of {self.wait:.2f} s (noise: {self.noise:.2f} s)"


def waited(root: Path, cluster_id: str, landed: float) -> float:
    """Return how many seconds after `landed` a cluster had its manifest, which must be new."""
    seconds = layout.current(root, cluster_id).stat().st_mtime - landed
    if seconds <= 0:
        raise RuntimeError(f"{cluster_id} was not published")
    return seconds


def _delay(fine: Any, trouble: Any) -> Delay:
    """Return the delay of waits by window and by minute in it.

    Windows differ by the median over their minutes. Noise is the most that two windows differ by in
    which nothing was wrong.
    """
    delay = float(np.median(np.median(trouble - fine, axis=1)))
    noise = max(abs(float(np.median(a - b))) for a, b in combinations(fine, 2))
    return Delay(float(np.median(fine)), delay, noise)
