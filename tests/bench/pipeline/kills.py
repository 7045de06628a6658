"""P8: the job killed with SIGKILL at five points, with many seeds: are the sums still exact?

A seed is one load root. Its polls come in six parts; after each of the first five the job is
killed at another point, in an order of the seed's own. What is left in the end, in windows, hours
and counts, is compared with the samples that were fed.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from core.pipeline.hours import floor_hour

from core.load import load_paths as layout
from core.load.snapshot.reader import read_snapshot
from core.pipeline.job import Job
from core.pipeline.session import open_session
from tests.spark.feeding import (
    CLUSTER,
    START,
    Row,
    StillClock,
    feed,
    for_few_rows,
    random_polls,
    window_rows,
)
from tests.spark.killing import killed_after

POINTS = ("write_partial", "complete", "write_brokers", "roll_up", "publish")
SEEDS = 20
AT_ONCE = 5
AMOUNTS = {
    "messages_per_s": "offset_delta",
    "in_bytes_per_s": "in_bytes",
    "out_bytes_per_s": "out_bytes",
}


def measure(known: dict[str, Any] | None, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Kill what has not been killed yet; `keep` takes what is known after each few seeds."""
    seeds: dict[str, Any] = dict((known or {}).get("seeds", {}))
    # The first to end leaves the class-data archive that makes all starts quick.
    open_session(cores=1, quick=True).stop()
    session = open_session(cores=1, quick=True)
    for_few_rows(session.spark)
    try:
        left = [seed for seed in range(SEEDS) if str(seed) not in seeds]
        for i in range(0, len(left), AT_ONCE):
            seeds |= several(session.spark, left[i : i + AT_ONCE])
            keep(_summed(seeds))
    finally:
        session.stop()
    return _summed(seeds)


def _summed(seeds: dict[str, Any]) -> dict[str, Any]:
    kills = sum(len(found["killed_after"]) for found in seeds.values())
    exact = sum(len(found["killed_after"]) for found in seeds.values() if not found["wrong"])
    return {
        "target": f"{SEEDS * len(POINTS)} of {SEEDS * len(POINTS)} exact",
        "value": f"{exact} of {kills} exact",
        "met": exact == kills == SEEDS * len(POINTS),
        "seeds": seeds,
    }


@dataclass(frozen=True)
class Story:
    """A seed's polls in parts, and what is done last before the kill after each but the last."""

    root: Path
    parts: list[list[Row]]
    points: list[str]

    @classmethod
    def of(cls, seed: int, root: Path) -> Story:
        rng = random.Random(seed)
        polls = random_polls(seed, polls=90, seconds=rng.choice((10, 60, 120)))
        points = list(POINTS)
        rng.shuffle(points)
        cuts = sorted(rng.sample(range(1, len(polls)), len(points)))
        parts = [polls[a:b] for a, b in zip([0, *cuts], [*cuts, len(polls)], strict=True)]
        return cls(root, [[row for poll in part for row in poll] for part in parts], points)


def several(spark: Any, seeds: Sequence[int]) -> dict[str, Any]:
    """Feed, kill and feed again; return by seed where it was killed and what was wrong in the end.

    The seeds' jobs share the processes that are killed: each waits at its point for the others.
    """
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        stories = {str(seed): Story.of(seed, Path(folder) / str(seed)) for seed in seeds}
        for number in range(len(POINTS) + 1):
            for story in stories.values():
                feed(story.root, f"part-{number}", story.parts[number])
            if number < len(POINTS):
                killed_after({story.root: story.points[number] for story in stories.values()})
        for story in stories.values():
            clock = StillClock(START + timedelta(hours=8))
            Job(spark, story.root, CLUSTER, clock).once()
        return {
            seed: {
                "killed_after": story.points,
                "wrong": wrong(story.root, [row for part in story.parts for row in part]),
            }
            for seed, story in stories.items()
        }


def wrong(root: Path, rows: list[Row]) -> list[str]:
    """Return what windows, hours and counts say otherwise than the samples."""
    timed = [r for r in rows if r["is_leader"] and r["dt_ms"]]
    hours = list(_hour_rows(root))
    whole = {r["hour"] for r in hours}
    kinds = {
        "windows": (timed, list(window_rows(root))),
        "hours": ([r for r in timed if floor_hour(r["ts"]) in whole], hours),
    }
    out = []
    for kind, (fed, found) in kinds.items():
        for p in {r["partition"] for r in fed}:
            mine = [r for r in fed if r["partition"] == p]
            theirs = [r for r in found if r["partition"] == p]
            pairs = {
                rate: (sum(r[f"{rate}_sum"] or 0 for r in theirs), sum(r[c] or 0 for r in mine))
                for rate, c in AMOUNTS.items()
            }
            pairs["n"] = (sum(r["n"] for r in theirs), len(mine))
            out += [
                f"{kind}: {name} of partition {p} is {seen}, not {expected}"
                for name, (seen, expected) in pairs.items()
                if not math.isclose(seen, expected, rel_tol=1e-9, abs_tol=1e-6)
            ]
    snapshot = read_snapshot(root, CLUSTER)
    counts = snapshot.counts if snapshot is not None else None
    if counts is None or (counts.read, counts.accepted, counts.duplicate, counts.quarantined) != (
        len(rows),
        len(rows),
        0,
        {},
    ):
        out.append(f"counts: {counts} of {len(rows)} rows")
    return out


def _hour_rows(root: Path) -> Iterator[Row]:
    for path in sorted(layout.hours(root, CLUSTER).glob("date=*/h1-*.parquet")):
        for row in pq.ParquetFile(path).read().to_pylist():
            yield {**row, "hour": _hour_start(path)}


def _hour_start(path: Path) -> datetime:
    hour = f"{path.parent.name} {path.stem}"
    return datetime.strptime(hour, "date=%Y-%m-%d h1-%H").replace(tzinfo=UTC)
