"""`pipeline once --publish-to`: a team reads from a store what one pipeline publishes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from feeding import CLUSTER, NOW, StillClock, feed, row
from object_store import ObjectStore

from core.load.snapshot.manifest import cluster_ids, read_manifest
from core.load.snapshot.reader import read_snapshot, verify_snapshot
from core.pipeline.job import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_snapshots_are_published_to_the_object_store_and_windows_stay_local(
    spark: SparkSession, tmp_path: Path, s3: ObjectStore
) -> None:
    bucket = s3.bucket("published")
    for number in range(2):
        feed(tmp_path, f"s{number}", [row(poll) for poll in range(20 * number, 20 * number + 20)])
        Job(spark, tmp_path, CLUSTER, StillClock(NOW), snapshots=bucket).once()
        manifest = read_manifest(bucket, CLUSTER)
        assert manifest is not None
        assert manifest.writer_epoch == number + 1
    snapshot = read_snapshot(bucket, CLUSTER)
    assert snapshot is not None
    assert snapshot.rate("in_bytes_per_s").tolist() == [500.0]
    looked = verify_snapshot(bucket, CLUSTER)
    assert looked is not None
    assert looked.problems == ()
    assert cluster_ids(bucket) == (CLUSTER,)
    assert read_manifest(tmp_path, CLUSTER) is None
    assert list(tmp_path.glob("windows/v1/*/*/w5m-*.parquet"))
