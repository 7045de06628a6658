"""Killed at any point, nothing is lost, counted twice or published otherwise."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from feeding import CLUSTER, batch_records, feed, messages, newest, row, run, window_rows
from killing import POINTS, killed_after

from core.load import load_paths as layout
from core.pipeline import job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGAIN = {"state": "published", "published": "state", "windows": "windows"}
"""Where some are killed once more, in the batch that is run again."""


@pytest.fixture(scope="module")
def killed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Roots where a job was killed as a window closed: one process has them all."""
    roots = {point: tmp_path_factory.mktemp(point) for point in (*POINTS, "lost", "outgrown")}
    for root in roots.values():
        feed(root, "start", [row(poll) for poll in range(2)])
        run(spark, root)
        feed(root, "killed", [row(2), row(31), row(32, partition=1)])
    points = {**dict(zip(POINTS, POINTS, strict=True)), "lost": "published", "outgrown": "windows"}
    killed_after({roots[name]: point for name, point in points.items()})
    killed_after({roots[first]: second for first, second in AGAIN.items()})
    return roots


def expect_each_once(root: Path) -> None:
    assert messages(root) == 100 + 100 + 100 + 100 + 100
    (closed,) = window_rows(root)
    assert closed["messages_per_s_sum"] == 200
    counts = newest(root).counts
    assert (counts.read, counts.accepted, counts.duplicate) == (6, 6, 0)


@pytest.mark.parametrize("point", POINTS)
def test_job_killed_at_any_point_loses_and_double_counts_nothing(
    spark: SparkSession, killed: dict[str, Path], point: str
) -> None:
    root = killed[point]
    feed(root, "last", [row(33)])
    run(spark, root)
    expect_each_once(root)
    assert newest(root).rate("messages_per_s", "1h").tolist() == [10.0]


def test_half_done_batch_is_completed_even_if_the_checkpoint_is_lost(
    spark: SparkSession, killed: dict[str, Path]
) -> None:
    root = killed["lost"]
    shutil.rmtree(layout.checkpoint(root, CLUSTER))
    feed(root, "last", [row(33)])
    run(spark, root)
    counts = newest(root).counts
    assert (counts.read, counts.accepted, counts.duplicate) == (8, 6, 2), "the first are read again"
    assert messages(root) == 500


def test_outgrown_checkpoint_is_deleted_safely_while_a_batch_is_half_done(
    spark: SparkSession, killed: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = killed["outgrown"]
    monkeypatch.setattr(job, "LIMIT_BYTES", 1)
    feed(root, "last", [row(33)])
    run(spark, root)
    expect_each_once(root)
    used = {record["carried"]["state"] for record in batch_records(root)[-2:]}
    kept = (layout.tables(root, CLUSTER) / "state").glob("b=*")
    assert {path.name for path in kept} == {f"b={key}" for key in used}
