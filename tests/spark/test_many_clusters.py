"""One job for many clusters: what becomes of one is nothing to the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from feeding import NOW, START, Row, StillClock, feed, row

from core.load import load_paths as layout
from core.load.snapshot.format import LoadSnapshot
from core.load.snapshot.manifest import cluster_ids
from core.load.snapshot.reader import read_snapshot
from core.load.snapshot.writer import claim_epoch
from core.pipeline.intake import Published
from core.pipeline.job import Job
from core.pipeline.source import SCHEMA, Arrived, Spool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def of(cluster: str, poll: int, **changes: Any) -> Row:
    return row(poll, cluster_id=cluster, collector_id=f"of-{cluster}", **changes)


def published(root: Path, cluster: str) -> LoadSnapshot:
    found = read_snapshot(root, cluster)
    assert found is not None
    return found


def run_all(spark: SparkSession, root: Path) -> dict[str, Published]:
    told: list[Published] = []
    Job(spark, root, "all", StillClock(NOW), told.append, source=Spool(root)).once()
    return {one.cluster_id: one for one in told}


def test_each_cluster_has_its_own_snapshot_windows_and_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, cluster in enumerate(("a", "b", "c-3")):
        rows = [of(cluster, poll, in_bytes=1000.0 * (number + 1)) for poll in range(1, 35)]
        feed(tmp_path, "x", rows, cluster=cluster)
    told = run_all(spark, tmp_path)
    assert cluster_ids(tmp_path) == ("a", "b", "c-3")
    for number, cluster in enumerate(("a", "b", "c-3")):
        assert published(tmp_path, cluster).rate("in_bytes_per_s").tolist() == [
            100.0 * (number + 1)
        ]
        assert told[cluster].counts.accepted == 34
        assert layout.window_file(tmp_path, cluster, START).exists()
        assert not list(layout.spool(tmp_path, cluster).glob("checkpoint"))


def test_one_that_sends_rubbish_one_that_stalls_and_one_that_is_refused_delay_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    clusters = ("good", "bad", "away", "taken")
    for cluster in clusters:
        feed(tmp_path, "1", [of(cluster, 1)], cluster=cluster)
    run_all(spark, tmp_path)
    before = published(tmp_path, "away").snapshot_id
    for _ in range(3):
        claim_epoch(tmp_path, "taken")
    other = Job(spark, tmp_path, "taken", StillClock(NOW), source=Spool(tmp_path, "taken"))
    feed(tmp_path, "other", [of("taken", 2)], cluster="taken")
    other.once()
    for cluster in ("good", "bad", "taken"):
        rows = [of(cluster, poll, in_bytes=7000.0) for poll in range(3, 40)]
        if cluster == "bad":
            rows = [{**r, "in_bytes": float("nan")} for r in rows[:-1]] + rows[-1:]
            rows += [of("elsewhere", 3)]
        feed(tmp_path, "2", rows, cluster=cluster)
    told = run_all(spark, tmp_path)
    assert told["good"].snapshot is not None
    assert published(tmp_path, "good").rate("in_bytes_per_s", "5m", "max").tolist() == [700.0]
    assert told["bad"].counts.quarantined == {"not_a_number": 36, "other_cluster": 1}
    assert told["bad"].snapshot is not None
    assert "away" not in told
    assert published(tmp_path, "away").snapshot_id == before


@dataclass
class Records:
    """A source of parts of polls: what a topic's records are, without a broker."""

    spark: SparkSession
    folder: Path
    batches: list[list[tuple[Row, int, bool]]] = field(default_factory=list)
    """Each row with the number of its part, and whether that is the last."""

    def put(self, *rows: tuple[Row, int, bool]) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{len(self.batches):04d}").write_text("an empty file is none to Spark")
        self.batches.append(list(rows))

    def stream(self, spark: SparkSession) -> DataFrame:
        return (
            spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length bigint, content binary")
            .option("maxFilesPerTrigger", 1)
            .load(str(self.folder))
            .select("path")
        )

    def arrived(
        self, spark: SparkSession, batch: DataFrame, offsets: Mapping[str, int]
    ) -> Arrived | None:
        (number,) = (int(r.path[-4:]) for r in batch.collect())
        names = [f.name for f in SCHEMA]
        rows = [
            (*(r[name] for name in names), r["cluster_id"], f"r-{number}-{part}", part, last)
            for r, part, last in self.batches[number]
        ]
        schema = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in SCHEMA)
        more = ", cluster string, unit string, part int, is_last boolean"
        return Arrived(spark.createDataFrame(rows, schema + more), offsets={"t-0": number + 1})

    def settle(self, units: Iterable[str]) -> None:
        pass

    def delete_expired(self) -> None:
        pass

    def sweep(self) -> int:
        return 0


def test_a_poll_that_comes_in_parts_counts_once_and_a_snapshot_has_whole_polls(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = Records(spark, tmp_path / "records")
    ids: list[list[int]] = []

    def run() -> None:
        root = tmp_path / "root"
        Job(spark, root, "topic", StillClock(NOW), source=source).once()
        ids.append(published(root, "c-1").partition.tolist())

    def part(poll: int, partition: int, number: int, last: bool) -> tuple[Row, int, bool]:
        return row(poll, partition=partition), number, last

    source.put(part(1, 0, 0, False), part(1, 1, 1, False))
    run()
    source.put(part(1, 2, 2, True))
    run()
    source.put(part(2, 0, 0, False))
    run()
    source.put(part(2, 1, 1, True), part(3, 0, 0, False))
    run()
    assert ids[1:] == [[0, 1, 2], [0, 1, 2], [0, 1]]
    source.put(part(2, 0, 0, False), part(3, 1, 1, True))
    run()
    found = published(tmp_path / "root", "c-1")
    assert (found.counts.accepted, found.counts.duplicate) == (7, 1)
    assert found.rate("messages_per_s").tolist() == [10.0, 10.0]


@pytest.mark.parametrize("hours", [0, 30])
def test_windows_of_a_cluster_that_stalls_are_kept_for_a_day(
    spark: SparkSession, tmp_path: Path, hours: int
) -> None:
    feed(tmp_path, "1", [of("away", 1), of("away", 31)], cluster="away")
    feed(tmp_path, "1", [of("good", 1)], cluster="good")
    run_all(spark, tmp_path)
    at = START + timedelta(hours=hours, minutes=10)
    clock = StillClock(at + timedelta(hours=1))
    feed(
        tmp_path,
        "2",
        [of("good", 2, ts=at), of("good", 40, ts=at + timedelta(minutes=6))],
        cluster="good",
    )
    Job(spark, tmp_path, "all", clock, source=Spool(tmp_path)).once()
    feed(tmp_path, "3", [of("good", 41, ts=at + timedelta(minutes=12))], cluster="good")
    Job(spark, tmp_path, "all", clock, source=Spool(tmp_path)).once()
    kept = list((layout.tables(tmp_path, "all") / "windows").glob("b=*"))
    assert len(kept) == (3 if hours == 0 else 2)
