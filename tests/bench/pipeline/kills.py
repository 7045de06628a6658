"""P8: the job killed with SIGKILL at five points, with many seeds: are the sums still exact?

A seed is one load root. Its polls come in six parts, each of the first five with a window that it
closes; after each of those the job is killed at another point, in an order of the seed's own. What
was killed is half of the time done again before more comes, and else killed once more. What is left
in the end, in closed windows and in samples carried in open ones, in the hour's figures and in
counts, is compared with the samples that were fed.

All of it is done twice: on this machine's Spark, and on a standalone one with two workers, of which
one is killed as each first batch begins, before the driver is; another takes its place.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from core.load import load_paths as layout
from core.load.samples import HOUR_MICROS, from_micros, to_micros
from core.load.snapshot.reader import read_snapshot
from core.pipeline.job import Job
from core.pipeline.session import open_session, suit
from tests.spark.feeding import (
    CLUSTER,
    COLUMNS,
    START,
    Row,
    StillClock,
    batch_records,
    feed,
    random_polls,
    window_of,
    window_rows,
)
from tests.spark.killing import killed_after
from tests.spark.standalone import environment, standalone, worker

POINTS = ("state", "windows", "files", "horizons", "published")
SEEDS = 20
KINDS = ("seeds", "seeds_on_workers")
WORKERS = 2
AT_ONCE = 5
SPACINGS = {10: 240, 60: 90, 120: 90}
"""Seconds between polls, and how many: enough that six parts have a window each."""
Amounts = dict[tuple[int, datetime], Counter[str]]
"""By partition and window: the total of each rate, and `n` intervals."""


def measure(
    known: dict[str, Any] | None,
    keep: Callable[[dict[str, Any]], None],
    seeds: int = SEEDS,
) -> dict[str, Any]:
    """Kill what has not been killed yet; `keep` takes what is known after each few seeds."""
    trials = {kind: dict((known or {}).get(kind, {})) for kind in KINDS}
    os.environ.update({name: environment()[name] for name in ("JAVA_HOME", "SPARK_LOCAL_IP")})
    # The first to end leaves the class-data archive that makes all starts quick.
    open_session(cores=1, quick=True).stop()
    session = open_session(cores=1, quick=True)
    suit(session.spark, 0)
    try:
        for kind, of in trials.items():
            left = [seed for seed in range(seeds) if str(seed) not in of]
            for i in range(0, len(left), AT_ONCE):
                of |= several(session.spark, left[i : i + AT_ONCE], on_workers=kind != "seeds")
                keep(_summed(trials, seeds))
    finally:
        session.stop()
    return _summed(trials, seeds)


def _summed(trials: dict[str, dict[str, Any]], seeds: int) -> dict[str, Any]:
    wanted = seeds * len(POINTS)
    kills = [sum(len(of["killed_after"]) for of in by_seed.values()) for by_seed in trials.values()]
    exact = [
        sum(len(of["killed_after"]) for of in by_seed.values() if not of["wrong"])
        for by_seed in trials.values()
    ]
    here, there = (f"{a} of {b}" for a, b in zip(exact, kills, strict=True))
    return {
        "target": f"{wanted} of {wanted} exact, on each",
        "value": f"{here} exact on this machine's Spark, {there} on two workers of a standalone "
        "one, a worker killed each time, too",
        "met": exact == kills == [wanted] * len(KINDS),
        **trials,
    }


@dataclass(frozen=True)
class Story:
    """A seed's polls in parts, and what is done last before the kill after each but the last."""

    root: Path
    parts: list[list[Row]]
    points: list[str]
    redone: list[bool]
    """Whether what was killed is done before the next part comes."""

    @classmethod
    def of(cls, seed: int, root: Path) -> Story:
        rng = random.Random(seed)
        seconds = rng.choice(sorted(SPACINGS))
        polls = random_polls(seed, polls=SPACINGS[seconds], seconds=seconds)
        points = list(POINTS)
        rng.shuffle(points)
        cuts = _cuts(rng, polls, len(points))
        parts = [polls[a:b] for a, b in zip([0, *cuts], [*cuts, len(polls)], strict=True)]
        return cls(
            root,
            [[row for poll in part for row in poll] for part in parts],
            points,
            [rng.random() < 0.5 for _ in points],
        )


def _cuts(rng: random.Random, polls: list[list[Row]], count: int) -> list[int]:
    """Return after how many polls each part ends: each with a sample that closes a window."""
    by_window: dict[datetime, list[int]] = defaultdict(list)
    for i, poll in enumerate(polls[:-1]):
        by_window[window_of(poll[0]["ts"])].append(i + 1)
    return [rng.choice(by_window[w]) for w in sorted(rng.sample(sorted(by_window)[1:], count))]


def several(spark: Any, seeds: Sequence[int], *, on_workers: bool) -> dict[str, Any]:
    """Feed, kill and feed again; return by seed where it was killed and what was wrong in the end.

    The seeds' jobs share the processes that are killed: each waits at its point for the others.
    What is done again is done on this machine's Spark.
    """
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder, ExitStack() as running:
        workers = _Workers(Path(folder), running) if on_workers else None
        stories = {str(seed): Story.of(seed, Path(folder) / str(seed)) for seed in seeds}
        for number in range(len(POINTS)):
            for story in stories.values():
                feed(story.root, f"part-{number}", story.parts[number])
            points = {story.root: story.points[number] for story in stories.values()}
            killed_after(points, *((workers.master, workers.one()) if workers else ()))
            for story in stories.values():
                if story.redone[number]:
                    _process(spark, story.root)
        for story in stories.values():
            feed(story.root, "last", story.parts[-1])
            _process(spark, story.root)
        return {
            seed: {
                "killed_after": story.points,
                "done_again": story.redone,
                "wrong": wrong(story.root, [row for part in story.parts for row in part]),
            }
            for seed, story in stories.items()
        }


class _Workers:
    """The workers of a standalone Spark: one that was killed gets a successor."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self._folder = folder
        self._running = running
        self.master = running.enter_context(standalone(folder, workers=0))
        self._alive: list[subprocess.Popen[bytes]] = []
        self._begun = 0

    def one(self) -> int:
        """Return the process id of one of the two that run."""
        self._alive = [process for process in self._alive if process.poll() is None]
        while len(self._alive) < WORKERS:
            name = f"worker-{self._begun}"
            self._begun += 1
            self._alive.append(self._running.enter_context(worker(self._folder, name, self.master)))
        return self._alive[0].pid


def _process(spark: Any, root: Path) -> None:
    Job(spark, root, CLUSTER, StillClock(START + timedelta(hours=8))).once()


# -- what is left in the end -----------------------------------------------------------------------


def wrong(root: Path, rows: list[Row]) -> list[str]:
    """Return what windows, the hour and counts say otherwise than the samples."""
    fed, windows = _fed(rows), _found(root)
    out = [
        f"{name} of partition {key[0]} in the window of {key[1]:%H:%M} is "
        f"{windows[key][name]}, not {fed[key][name]}"
        for key in sorted(fed.keys() | windows.keys())
        for name in (*COLUMNS, "n")
        if not math.isclose(fed[key][name], windows[key][name], rel_tol=1e-9, abs_tol=1e-6)
    ]
    return [*out, *_wrong_of_snapshot(root, rows)]


def _fed(rows: list[Row]) -> Amounts:
    out: Amounts = defaultdict(Counter)
    for row in rows:
        if row["is_leader"] and row["dt_ms"]:
            of = out[row["partition"], window_of(row["ts"])]
            of["n"] += 1
            of.update({rate: row[column] or 0 for rate, column in COLUMNS.items()})
    return out


def _found(root: Path) -> Amounts:
    """Return what closed windows hold in their files, and what is carried of open ones."""
    out: Amounts = defaultdict(Counter)
    for row in window_rows(root):
        of = out[row["partition"], row["window_start"]]
        of["n"] += row["n"]
        of.update({rate: row[f"{rate}_sum"] or 0 for rate in COLUMNS})
    open_at = _open_at(root)
    for row, sample in _carried(root):
        if sample["at"] >= open_at and sample["dt_ms"]:
            of = out[row["partition"], window_of(from_micros(sample["at"]))]
            of["n"] += 1
            of.update({rate: sample[rate] or 0 for rate in COLUMNS})
    return out


def _open_at(root: Path) -> int:
    return int(batch_records(root)[-1]["carried"]["clusters"][CLUSTER]["open_at"])


def _carried(root: Path) -> Iterator[tuple[Row, Row]]:
    state = batch_records(root)[-1]["carried"]["state"]
    folder = layout.tables(root, CLUSTER) / "state" / f"b={state}"
    for path in sorted(folder.glob("*.parquet")):
        for row in pq.ParquetFile(path).read().to_pylist():
            for sample in row["samples"]:
                yield row, sample


def _wrong_of_snapshot(root: Path, rows: list[Row]) -> list[str]:
    snapshot = read_snapshot(root, CLUSTER)
    if snapshot is None:
        return ["there is no snapshot"]
    out = []
    counts = snapshot.counts
    seen = (counts.read, counts.accepted, counts.duplicate, dict(counts.quarantined))
    if seen != (len(rows), len(rows), 0, {}):
        out.append(f"counts: {counts} of {len(rows)} rows")
    until = _open_at(root)
    hour = [
        row
        for row in rows
        if row["is_leader"] and row["dt_ms"] and until - HOUR_MICROS <= to_micros(row["ts"]) < until
    ]
    for i, partition in enumerate(snapshot.partition.tolist()):
        for rate, column in COLUMNS.items():
            known = [r for r in hour if r["partition"] == partition and r[column] is not None]
            expected = sum(r[column] for r in known) * 1000 / sum(r["dt_ms"] for r in known)
            value = float(snapshot.rate(rate, "1h")[i])
            if not math.isclose(value, expected, rel_tol=1e-9):
                out.append(f"the hour's {rate} of partition {partition} is {value}, not {expected}")
    return out
