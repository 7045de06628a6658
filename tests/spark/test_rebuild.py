"""`pipeline rebuild`: from the segments that are kept comes what was published before."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from feeding import CLUSTER, START, Row, StillClock, feed, messages, newest, row, run, window_rows

from core.cli.main import run as command_line
from core.daemons.lease import hold_lease, lease_file
from core.errors import DocumentError, UsageError
from core.load import load_paths as layout
from core.load.snapshot.format import LoadSnapshot
from core.load.snapshot.manifest import snapshot_ids
from core.load.snapshot.reader import verify_snapshot
from core.pipeline import rebuild as rebuilding
from core.pipeline.rebuild import rebuild

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOCK = StillClock(START + timedelta(hours=8))


@pytest.fixture
def root(spark: SparkSession, tmp_path: Path) -> Path:
    """Return a load root with two batches: segments of a window each, compacted and open ones."""
    for part in range(2):
        for window in range(2 * part, 2 * part + 2):
            feed(tmp_path, f"s{window}", polls(30 * window, 30 * window + 30))
        run(spark, tmp_path)
    return tmp_path


def polls(first: int, last: int) -> list[Row]:
    return [
        row(poll, partition=p, in_bytes=(1000.0 * (p + 1) + poll) if poll else None)
        for poll in range(first, last)
        for p in range(2)
    ]


def same(snapshot: LoadSnapshot, other: LoadSnapshot) -> None:
    assert snapshot.snapshot_id < other.snapshot_id
    assert (snapshot.window_end, snapshot.topics, snapshot.brokers) == (
        other.window_end,
        other.topics,
        other.brokers,
    )
    assert snapshot.counts == other.counts
    assert snapshot.rates.keys() == other.rates.keys()
    for key, column in snapshot.rates.items():
        np.testing.assert_allclose(column, other.rates[key], err_msg=str(key))
    for name in ("partition", "size_bytes", "growth_bytes_per_s", "quality", "method", "leader"):
        np.testing.assert_array_equal(getattr(snapshot, name), getattr(other, name))


def lose_tables(root: Path) -> None:
    shutil.rmtree(layout.tables(root, CLUSTER))


def lose_everything_but_segments(root: Path) -> None:
    lose_tables(root)
    for path in layout.windows(root, CLUSTER).rglob("*.parquet"):
        path.unlink()
    for path in layout.batches(root, CLUSTER).glob("*.json"):
        path.write_text("{")
    shutil.rmtree(layout.checkpoint(root, CLUSTER))
    layout.current(root, CLUSTER).write_text("{")


DAMAGE = {
    "nothing": lambda root: None,
    "tables": lose_tables,
    "everything": lose_everything_but_segments,
}


@pytest.mark.parametrize("damaged", DAMAGE)
def test_rebuild_of_damaged_data_publishes_the_same_snapshot_figures_as_before(
    spark: SparkSession, root: Path, damaged: str
) -> None:
    before, held = newest(root), messages(root)
    DAMAGE[damaged](root)
    outcome = rebuild(spark, root, CLUSTER, CLOCK)
    assert (outcome.segments, outcome.left_out, outcome.windows) == (4, 0, 4)
    same(before, newest(root))
    assert messages(root) == held
    looked = verify_snapshot(root, CLUSTER)
    assert looked is not None
    assert looked.problems == ()
    assert not (root / "rebuild").exists()


def test_samples_pending_at_or_arriving_after_a_rebuild_are_counted_once(
    spark: SparkSession, root: Path
) -> None:
    held = messages(root)
    feed(root, "waits", polls(120, 125))
    rebuild(spark, root, CLUSTER, CLOCK)
    assert messages(root) == held + 2 * 100 * 5
    assert run(spark, root) == [], "all that is there has been taken"
    feed(root, "new", polls(125, 150))
    run(spark, root)
    assert messages(root) == held + 2 * 100 * 30
    assert newest(root).counts.duplicate == 0


def test_duplicates_are_counted_as_such_after_a_rebuild(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed(tmp_path, "a", [*polls(0, 2), *polls(1, 2)])
    run(spark, tmp_path)
    before = newest(tmp_path).counts
    assert (before.accepted, before.duplicate) == (4, 2)
    rebuild(spark, tmp_path, CLUSTER, CLOCK)
    assert newest(tmp_path).counts == before


def test_windows_not_covered_by_kept_segments_are_unchanged_by_a_rebuild(
    spark: SparkSession, root: Path
) -> None:
    held = messages(root)
    for segment in root.rglob("s[01].parquet"):
        segment.unlink()
    outcome = rebuild(spark, root, CLUSTER, CLOCK)
    assert (outcome.segments, outcome.windows) == (2, 1), "the oldest may lack some"
    assert messages(root) == held
    assert len({r["window_start"] for r in window_rows(root)}) == 3


def test_a_damaged_segment_is_left_out_and_counted(spark: SparkSession, root: Path) -> None:
    (segment,) = root.rglob("s1.parquet")
    segment.write_bytes(segment.read_bytes()[:-40])
    outcome = rebuild(spark, root, CLUSTER, CLOCK)
    assert (outcome.segments, outcome.left_out) == (3, 1)


def test_readers_have_the_previous_snapshot_until_a_rebuild_is_complete(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, windows = newest(root), list(window_rows(root))
    seen: list[str] = []
    rebuild(spark, root, CLUSTER, CLOCK, lambda _: seen.append(newest(root).snapshot_id))
    assert set(seen) == {before.snapshot_id}

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    current, kept = newest(root).snapshot_id, snapshot_ids(root, CLUSTER)
    monkeypatch.setattr(rebuilding, "_install_rebuild", full)
    with pytest.raises(OSError, match="No space"):
        rebuild(spark, root, CLUSTER, CLOCK)
    assert (newest(root).snapshot_id, snapshot_ids(root, CLUSTER)) == (current, kept)
    assert len(list(window_rows(root))) == len(windows)
    assert not (root / "rebuild").exists()


def test_snapshot_published_by_a_newer_trimtab_is_not_replaced(
    spark: SparkSession, root: Path
) -> None:
    text = '{"format": "trimtab.snapshot/9"}'
    layout.current(root, CLUSTER).write_text(text)
    with pytest.raises(DocumentError, match="reads up to"):
        rebuild(spark, root, CLUSTER, CLOCK)
    assert layout.current(root, CLUSTER).read_text() == text


def test_rebuild_requires_confirmation_and_is_refused_during_another_pipeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.pipeline.session.open_session", None)
    feed(tmp_path, "a", polls(0, 3))
    words = ["pipeline", "rebuild", "--root", str(tmp_path)]
    assert command_line(lambda _: None, words) == 2
    err = capsys.readouterr().err
    assert "1 segment kept, back to 2026-03-01 12:00 UTC." in err
    assert "Add --yes to rebuild" in err
    with hold_lease(lease_file(tmp_path, CLUSTER, "pipeline")) as ours:
        assert ours
        assert command_line(lambda _: None, [*words, "--yes"]) == 3
    assert "Another pipeline" in capsys.readouterr().err


def test_rebuild_without_any_kept_segment_is_refused_and_changes_nothing(
    spark: SparkSession, root: Path
) -> None:
    before = newest(root).snapshot_id
    shutil.rmtree(layout.archive(root, CLUSTER), ignore_errors=True)
    shutil.rmtree(layout.spool(root, CLUSTER))
    with pytest.raises(UsageError, match="No segment is kept"):
        rebuild(spark, root, CLUSTER, CLOCK)
    assert newest(root).snapshot_id == before
    assert len(list(window_rows(root))) == 6
