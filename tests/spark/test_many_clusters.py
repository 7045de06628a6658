"""One job for many clusters: what becomes of one is nothing to the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from feeding import NOW, START, Row, StillClock, feed, row

from core.cli.main import run as command_line
from core.daemons.lease import hold_lease, lease_file
from core.daemons.supervisor import Daemon, start_daemon
from core.load import load_paths as layout
from core.load.snapshot.format import LoadSnapshot
from core.load.snapshot.manifest import cluster_ids
from core.load.snapshot.reader import read_snapshot
from core.load.snapshot.writer import claim_epoch
from core.pipeline.job import Job
from core.pipeline.publish import Published
from core.pipeline.source import SCHEMA, Arrived, Spool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def of(cluster: str, poll: int, **changes: Any) -> Row:
    return row(poll, cluster_id=cluster, collector_id=f"of-{cluster}", **changes)


def published(root: Path, cluster: str) -> LoadSnapshot:
    snapshot = read_snapshot(root, cluster)
    assert snapshot is not None
    return snapshot


def run_all(spark: SparkSession, root: Path) -> dict[str, Published]:
    publications: list[Published] = []
    Job(spark, root, "all", StillClock(NOW), publications.extend, source=Spool(root)).once()
    return {publication.cluster_id: publication for publication in publications}


def test_each_cluster_has_its_own_snapshot_windows_and_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, cluster in enumerate(("a", "b", "c-3")):
        rows = [of(cluster, poll, in_bytes=1000.0 * (number + 1)) for poll in range(1, 35)]
        feed(tmp_path, "x", rows, cluster=cluster)
    by_cluster = run_all(spark, tmp_path)
    assert cluster_ids(tmp_path) == ("a", "b", "c-3")
    for number, cluster in enumerate(("a", "b", "c-3")):
        assert published(tmp_path, cluster).rate("in_bytes_per_s").tolist() == [
            100.0 * (number + 1)
        ]
        assert by_cluster[cluster].counts.accepted == 34
        assert layout.window_file(tmp_path, cluster, START).exists()
        assert not list(layout.spool(tmp_path, cluster).glob("checkpoint"))


def test_cluster_with_bad_rows_stalled_or_refused_delays_no_other_cluster(
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
    by_cluster = run_all(spark, tmp_path)
    assert by_cluster["good"].snapshot is not None
    assert published(tmp_path, "good").rate("in_bytes_per_s", "5m", "max").tolist() == [700.0]
    assert by_cluster["bad"].counts.quarantined == {"not_a_number": 36, "other_cluster": 1}
    assert by_cluster["bad"].snapshot is not None
    assert "away" not in by_cluster
    assert published(tmp_path, "away").snapshot_id == before


def test_failure_to_publish_for_one_cluster_stops_no_other_cluster(
    spark: SparkSession, tmp_path: Path
) -> None:
    for cluster in ("good", "shut", "old", "refusing"):
        feed(tmp_path, "1", [of(cluster, 1)], cluster=cluster)
    run_all(spark, tmp_path)
    layout.current(tmp_path, "shut").write_text("{")
    bad = layout.quarantine(tmp_path, "refusing")
    bad.mkdir(parents=True)
    (bad / "rows").write_text("no folder")
    feed(tmp_path, "2", [of("shut", 2), of("shut", 31), of("shut", 61)], cluster="shut")
    layout.windows(tmp_path, "shut").parent.mkdir(parents=True, exist_ok=True)
    by_cluster = run_all(spark, tmp_path)  # nobody else is in this batch
    assert by_cluster["shut"].snapshot is None
    feed(tmp_path, "2", [of("refusing", 2, in_bytes=-1.0), of("refusing", 3)], cluster="refusing")
    feed(tmp_path, "2", [of("new", 1, ts=START - timedelta(days=4))], cluster="new")
    long_ago = datetime(1970, 1, 2, tzinfo=UTC)
    feed(tmp_path, "2", [of("ancient", 1, ts=long_ago), of("ancient", 2)], cluster="ancient")
    feed(tmp_path, "2", [of("good", 2)], cluster="good")
    by_cluster = run_all(spark, tmp_path)
    assert {c for c, publication in by_cluster.items() if publication.snapshot is not None} == {
        *("good", "new", "ancient", "refusing")
    }
    assert by_cluster["refusing"].counts.quarantined == {"negative": 1}
    assert by_cluster["ancient"].counts.quarantined == {"too_late": 1}
    assert published(tmp_path, "good").counts.accepted == 2


def test_rejected_rows_of_any_time_are_collected_as_one_count_per_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    later = [NOW + timedelta(hours=1, minutes=5 * n) for n in range(2000)]
    feed(tmp_path, "1", [of("a", 1), *(of("a", 2, ts=ts) for ts in later)], cluster="a")
    from core.load.samples import to_micros
    from core.pipeline import samples
    from core.pipeline.samples import judged

    rows = Spool(tmp_path, "a")
    batch = spark.createDataFrame(
        [(str(path),) for path in layout.spool(tmp_path, "a").rglob("*.parquet")], "path string"
    )
    arrived = rows.arrived(spark, batch, {})
    assert arrived is not None
    oldest = spark.createDataFrame([], "cluster string, oldest_at bigint")
    polls = samples.polls(judged(arrived.rows, oldest, to_micros(NOW))).collect()
    assert sorted((r.reason or "", r.rows) for r in polls) == [("", 1), ("future", 2000)]


def test_cluster_behind_other_clusters_keeps_its_windows_open_for_late_samples(
    spark: SparkSession, tmp_path: Path
) -> None:
    ahead = START + timedelta(hours=7, minutes=50)
    behind = ahead - timedelta(hours=26)

    def at(base: datetime, *seconds: int) -> list[datetime]:
        return [base + timedelta(seconds=s) for s in seconds]

    for number, (a, b) in enumerate(
        ((at(ahead, 10, 320), at(behind, 10, 20, 320)), (at(ahead, 630), at(behind, 640)))
    ):
        feed(
            tmp_path,
            f"{number}",
            [
                of("a", 10 * number + i, ts=t, dt_ms=10_000, offset_delta=100)
                for i, t in enumerate(a)
            ],
            cluster="a",
        )
        feed(
            tmp_path,
            f"{number}",
            [
                of("b", 10 * number + i, ts=t, dt_ms=10_000, offset_delta=100)
                for i, t in enumerate(b)
            ],
            cluster="b",
        )
        run_all(spark, tmp_path)
    late = of("b", 99, ts=behind + timedelta(seconds=30), offset_delta=100, dt_ms=10_000)
    feed(tmp_path, "late", [late], cluster="b")
    run_all(spark, tmp_path)
    (row,) = pq.ParquetFile(layout.window_file(tmp_path, "b", behind)).read().to_pylist()
    assert row["messages_per_s_sum"] == 300


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
    snapshot = published(tmp_path / "root", "c-1")
    assert (snapshot.counts.accepted, snapshot.counts.duplicate) == (7, 1)
    assert snapshot.rate("messages_per_s").tolist() == [10.0, 10.0]


@pytest.mark.parametrize("hours", [1, 40])
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
    assert len(kept) == (3 if hours == 1 else 2)


def test_pipelines_of_all_clusters_and_of_one_cluster_exclude_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed(tmp_path, "1", [of("a", 1)], cluster="a")
    for held, words in (("all", ["--cluster-id", "a"]), ("a", ["--all"])):
        with hold_lease(lease_file(tmp_path, held, "pipeline")) as ours:
            assert ours
            line = ["pipeline", "once", *words, "--root", str(tmp_path)]
            assert command_line(lambda _: None, line) == 3
            assert "Another pipeline" in capsys.readouterr().err
            pipeline = Daemon("pipeline", "no.module", instead=("all",))
            assert start_daemon(pipeline, "a", root=tmp_path) is None
