"""Killed at any point, nothing is lost, counted twice or published otherwise."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from feeding import (
    CLUSTER,
    START,
    batch_records,
    feed,
    hour_files,
    hour_of,
    messages,
    newest,
    row,
    run,
    window_rows,
)
from killing import killed_after

from core.load import load_paths as layout
from core.pipeline import checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def killed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Roots where a job was killed, twice in some: one process has them all, as it takes long."""
    roots = {
        name: tmp_path_factory.mktemp(name)
        for name in ("half_done", "not_merged", "hours", "early", "late")
    }
    for name, root in roots.items():
        polls = range(0, 360, 12) if name == "hours" else range(2)
        feed(root, "start", [row(poll) for poll in polls])
        run(spark, root)
        feed(root, "killed", [row(400 if name == "hours" else 2)])
    killed_after(
        {
            roots["half_done"]: "write_partial",
            roots["not_merged"]: "complete",
            roots["hours"]: "roll_up",
            roots["early"]: "write_partial",
            roots["late"]: "merge",
        }
    )
    for name in ("early", "late"):
        feed(roots[name], "again", [row(3)])
    killed_after({roots["early"]: "merge", roots["late"]: "publish"})
    return roots


@pytest.mark.parametrize("name", ["early", "late"])
def test_killed_anywhere_between_partial_and_commit_it_loses_and_doubles_nothing(
    spark: SparkSession, killed: dict[str, Path], name: str
) -> None:
    root = killed[name]
    feed(root, "last", [row(4)])
    run(spark, root)
    assert messages(root) == 400
    counts = newest(root).counts
    assert (counts.read, counts.accepted, counts.duplicate) == (5, 5, 0)
    assert sum(r["n"] for r in window_rows(root)) == 4


def test_a_checkpoint_may_go_while_a_batch_is_half_done(
    spark: SparkSession, killed: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = killed["half_done"]
    monkeypatch.setattr(checkpoint, "LIMIT_BYTES", 1)
    run(spark, root)
    counts = newest(root).counts
    assert (counts.read, counts.accepted, counts.duplicate) == (3, 3, 0)
    assert messages(root) == 200
    complete = {record["key"] for record in batch_records(root) if record["complete"]}
    kept = {path.stem for path in layout.partials(root, CLUSTER).glob("b=*.parquet")}
    assert kept == {f"b={key}" for key in complete}


def test_a_batch_not_merged_when_killed_is_merged_even_if_the_checkpoint_is_lost(
    spark: SparkSession, killed: dict[str, Path]
) -> None:
    root = killed["not_merged"]
    shutil.rmtree(layout.checkpoint(root, CLUSTER))
    for i in range(3):
        feed(root, f"c{i}", [row(3 + i)])
        run(spark, root)
    assert messages(root) == 500
    assert newest(root).counts.accepted == 6


def test_killed_between_roll_up_and_publish_it_publishes_the_same(
    spark: SparkSession, killed: dict[str, Path]
) -> None:
    root = killed["hours"]
    path = hour_files(root)["2026-03-01T12"]
    made = path.stat().st_mtime_ns
    run(spark, root)
    assert path.stat().st_mtime_ns == made
    assert hour_of(root, START)["messages_per_s_sum"] == 29 * 100
    snapshot = newest(root)
    assert snapshot.rate("messages_per_s", "24h", "avg").tolist() == [10.0]
    assert (snapshot.counts.read, snapshot.counts.accepted) == (31, 31)
