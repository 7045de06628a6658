"""Samples as plain rows: made, written as segments, and summed up the slow and simple way."""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from core.load import load_paths as layout
from core.load import spool
from core.load.snapshot.format import LoadSnapshot
from core.load.snapshot.reader import read_snapshot
from core.pipeline.job import Job
from core.pipeline.publish import Published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = "c-1"
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
NOW = START + timedelta(hours=8)
Row = dict[str, Any]


class StillClock:
    """A clock that stands where it is put."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def row(poll: int, **changes: Any) -> Row:
    """Return one leader's row of poll number `poll`, ten seconds apart."""
    out: Row = {
        "cluster_id": CLUSTER,
        "topic": "t",
        "topic_id": "id-t",
        "partition": 0,
        "broker_id": 1,
        "is_leader": True,
        "leader_epoch": 1,
        "ts": START + timedelta(seconds=10 * poll),
        "dt_ms": 10_000 if poll else None,
        "end_offset": 1000 + 100 * poll,
        "start_offset": 0,
        "offset_delta": 100 if poll else None,
        "size_delta": 5000 if poll else None,
        "size_bytes": 50_000 + 5000 * poll,
        "in_bytes": 5000.0 if poll else None,
        "out_bytes": 2500.0 if poll else None,
        "in_method": 2 if poll else 0,
        "out_method": 3 if poll else 0,
        "replica_lag": 0,
        "group_lag": None,
        "log_dir": "/d",
        "source": "admin",
        "collector_id": "here",
        "poll_id": poll,
        "flags": 0 if poll else 1,
    }
    return {**out, **changes}


def random_polls(seed: int, polls: int, seconds: int = 10) -> list[list[Row]]:
    """Return polls of 3 partitions with 2 replicas, `seconds` apart.

    There are gaps, censored intervals and leader changes.
    """
    rng = random.Random(seed)
    series = {p: {"end": 1000, "leader": 1 + p, "seen": None} for p in range(3)}
    out = []
    for poll in range(polls):
        if poll and rng.random() < 0.1:
            continue
        ts = START + timedelta(seconds=seconds * poll, milliseconds=rng.randrange(900))
        rows = []
        for p, s in series.items():
            new = rng.randrange(500)
            s["end"] += new
            if rng.random() < 0.02:
                s["leader"] = 1 + rng.randrange(3)
            first = s["seen"] is None
            dt = None if first else round((ts - s["seen"]).total_seconds() * 1000)
            gained = new + s.pop("missed", 0)
            censored = rng.random() < 0.05
            known = not first and not censored
            if censored:
                s["missed"] = gained
            else:
                s["seen"] = ts
            for broker in (s["leader"], 4):
                leads = broker == s["leader"]
                rows.append(
                    row(
                        poll,
                        partition=p,
                        ts=ts,
                        broker_id=broker,
                        is_leader=leads,
                        dt_ms=dt if leads and known else None,
                        end_offset=s["end"] if leads and not censored else None,
                        start_offset=0 if leads else None,
                        offset_delta=gained if leads and known else None,
                        in_bytes=gained * 50.0 if leads and known else None,
                        out_bytes=gained * 25.0 if leads and known and rng.random() < 0.9 else None,
                        size_delta=gained * 50 if leads and known else None,
                        size_bytes=s["end"] * 50,
                    )
                )
        out.append(rows)
    return out


def feed(root: Path, name: str, rows: Sequence[Row], cluster: str = CLUSTER) -> Path:
    """Write rows as one segment through the gate."""
    table = pa.Table.from_pylist(list(rows), schema=spool.SCHEMA)
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    path = spool.write_segment(root, cluster, name, columns, rows[0]["ts"])
    assert path is not None
    return path


def run(spark: SparkSession, root: Path, *, hours: float = 8) -> list[Published]:
    """Process what is in the spool, as a process that starts `hours` after START would."""
    out: list[Published] = []
    Job(spark, root, CLUSTER, StillClock(START + timedelta(hours=hours)), out.extend).once()
    return out


def newest(root: Path) -> LoadSnapshot:
    snapshot = read_snapshot(root, CLUSTER)
    assert snapshot is not None
    return snapshot


def messages(root: Path) -> float:
    """Return how many messages all windows hold: closed ones in their files, open ones carried."""
    carried = batch_records(root)[-1]["carried"]
    open_at = carried["clusters"][CLUSTER]["open_at"]
    folder = layout.tables(root, CLUSTER) / "state" / f"b={carried['state']}"
    return sum(r["messages_per_s_sum"] or 0 for r in window_rows(root)) + sum(
        s["messages_per_s"] or 0
        for path in folder.glob("*.parquet")
        for r in pq.ParquetFile(path).read().to_pylist()
        for s in r["samples"]
        if s["at"] >= open_at
    )


def window_rows(root: Path) -> Iterator[Row]:
    """Return every row of every closed window, as `window_start` says of which."""
    for path in sorted(layout.windows(root, CLUSTER).glob("date=*/w5m-*.parquet")):
        for r in pq.ParquetFile(path).read().to_pylist():
            if "n" in r:  # the one that is filling has what charts need
                yield {**r, "window_start": layout.window_start(path)}


def batch_records(root: Path) -> list[Row]:
    """Return what is noted of the batches that are complete, in order."""
    batches = (
        json.loads(path.read_text())
        for path in sorted(layout.batches(root, CLUSTER).glob("*.json"))
    )
    return sorted((r for r in batches if r["carried"]), key=lambda r: r["carried"]["number"])


def closed(start: datetime, last: datetime) -> bool:
    """Return whether a window is closed once the newest sample is of `last`."""
    return start + timedelta(minutes=5) <= last


# -- the oracle ----------------------------------------------------------------------------------

COLUMNS = {
    "messages_per_s": "offset_delta",
    "in_bytes_per_s": "in_bytes",
    "out_bytes_per_s": "out_bytes",
}


def percentile(values: Iterable[float], q: float) -> float | None:
    ordered = sorted(values)
    if not ordered:
        return None
    at = (len(ordered) - 1) * q
    low = math.floor(at)
    above = ordered[min(low + 1, len(ordered) - 1)]
    return ordered[low] + (above - ordered[low]) * (at - low)


def summed_up(rows: Iterable[Row], column: str) -> Row:
    """Return avg, p95 and max of one column's rates over leaders' rows."""
    known = [r for r in rows if r["is_leader"] and r["dt_ms"] and r[column] is not None]
    rates = [r[column] * 1000 / r["dt_ms"] for r in known]
    covered = sum(r["dt_ms"] for r in known)
    total = sum(r[column] for r in known)
    return {
        "sum": total if known else None,
        "avg": total * 1000 / covered if covered else None,
        "p95": percentile(rates, 0.95),
        "max": max(rates, default=None),
    }


def window_of(moment: datetime) -> datetime:
    seconds = int(moment.timestamp()) // 300 * 300
    return datetime.fromtimestamp(seconds, UTC)


def windows_by_hand(rows: Iterable[Row]) -> dict[tuple[int, datetime], dict[str, Row]]:
    """Return for each partition and window what its rates were."""
    groups: dict[tuple[int, datetime], list[Row]] = defaultdict(list)
    for r in rows:
        groups[r["partition"], window_of(r["ts"])].append(r)
    return {
        key: {rate: summed_up(members, column) for rate, column in COLUMNS.items()}
        for key, members in groups.items()
    }
