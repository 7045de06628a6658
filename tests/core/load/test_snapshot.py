"""Published snapshots: what is written is read, whole or not at all."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshots import AT, make_snapshot

from core import paths
from core.errors import DocumentError, RefusedError, UsageError
from core.load import load_paths as layout
from core.load.load import Source
from core.load.snapshot import manifest, reader
from core.load.snapshot import manifest as clusters
from core.load.snapshot import writer as published
from core.load.snapshot.format import PARTITIONS


def test_a_written_snapshot_is_read_back_equal(tmp_path: Path) -> None:
    written = make_snapshot()
    published.write_snapshot(tmp_path, written)
    read = reader.read_snapshot(tmp_path, written.cluster_id)
    assert (read.topics, read.source, read.window_end) == (written.topics, Source.SPARK, AT)
    assert read.brokers == written.brokers
    assert read.counts == written.counts
    assert read.rates.keys() == written.rates.keys()
    for key, column in written.rates.items():
        np.testing.assert_array_equal(read.rates[key], column)
    for name in ("topic_of", "partition", "size_bytes", "growth_bytes_per_s", "quality", "leader"):
        np.testing.assert_array_equal(getattr(read, name), getattr(written, name))


def test_no_snapshot_is_none_not_an_error(tmp_path: Path) -> None:
    assert reader.read_snapshot(tmp_path, "nobody") is None
    assert manifest.read_manifest(tmp_path, "nobody") is None
    assert manifest.snapshot_ids(tmp_path, "nobody") == ()


def test_manifest_alone_gives_brokers_hot_partitions_skew_and_counts(tmp_path: Path) -> None:
    published.write_snapshot(tmp_path, make_snapshot())
    read = manifest.read_manifest(tmp_path, "abc-DEF_1")
    assert read.counts.quarantined == {"negative": 2}
    assert read.source_lag_seconds == 2
    hottest = read.hot_partitions[0]
    assert (hottest.topic, hottest.partition, hottest.leader) == ("örders", 1, 2)
    assert hottest.share == 1.0
    assert read.skew["in_bytes_per_s"].max_over_mean == 40 / 25
    assert read.files[0].bytes > 0


def test_a_newer_snapshot_takes_over_while_old_readers_keep_theirs(tmp_path: Path) -> None:
    published.write_snapshot(tmp_path, make_snapshot("0001-00000001"))
    old = reader.read_snapshot(tmp_path, "abc-DEF_1")
    newer = make_snapshot("0001-00000002", size_bytes=np.array([7, 7, 7, 7], np.int64))
    published.write_snapshot(tmp_path, newer)
    read = reader.read_snapshot(tmp_path, "abc-DEF_1")
    assert old.size_bytes.tolist() == [10, -1, 30, 40]
    assert read.size_bytes.tolist() == [7, 7, 7, 7]
    assert manifest.snapshot_ids(tmp_path, "abc-DEF_1") == ("0001-00000001", "0001-00000002")
    assert clusters.cluster_ids(tmp_path) == ("abc-DEF_1",)


def test_writer_of_an_older_epoch_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    first = published.claim_epoch(tmp_path, "abc-DEF_1")
    second = published.claim_epoch(tmp_path, "abc-DEF_1")
    assert second > first
    published.write_snapshot(tmp_path, make_snapshot("0002-1"), writer_epoch=second)
    with pytest.raises(RefusedError, match="Another writer"):
        published.write_snapshot(tmp_path, make_snapshot("0001-9"), writer_epoch=first)
    assert manifest.snapshot_ids(tmp_path, "abc-DEF_1") == ("0002-1",)


def test_a_failed_publish_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published.write_snapshot(tmp_path, make_snapshot("0001-1"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(published, "write_columns", full)
    with pytest.raises(OSError, match="No space"):
        published.write_snapshot(tmp_path, make_snapshot("0001-2"))
    read = reader.read_snapshot(tmp_path, "abc-DEF_1")
    assert read.snapshot_id == "0001-1"
    assert not list(layout.snapshots(tmp_path, "abc-DEF_1").glob(".tmp-*"))


def test_old_temporary_folder_of_a_killed_writer_is_deleted_by_the_next_writer(
    tmp_path: Path,
) -> None:
    left = layout.snapshots(tmp_path, "abc-DEF_1") / ".tmp-1-0001-1"
    left.mkdir(parents=True)
    published.write_snapshot(tmp_path, make_snapshot("0001-2"))
    assert left.exists()
    os.utime(left, (0, 0))
    later = AT + timedelta(seconds=2 * published.MIN_AGE_SECONDS)
    published.write_snapshot(tmp_path, make_snapshot("0001-3", published_at=later))
    assert not left.exists()


def test_forget_cluster_deletes_every_layout_path_of_the_cluster(tmp_path: Path) -> None:
    """Every place of the layout that belongs to one cluster, those of tomorrow too."""
    for _, place in inspect.getmembers(layout, inspect.isfunction):
        asked = list(inspect.signature(place).parameters)
        if asked[:2] != ["root", "cluster_id"]:
            continue
        for cluster_id in ("gone", "gone2"):
            more = {"start": datetime(2026, 3, 2, 9, tzinfo=UTC), "role": "gate"}
            path = place(tmp_path, cluster_id, *(more[name] for name in asked[2:]))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch() if path.suffix else path.mkdir(exist_ok=True)
    assert len(list(tmp_path.rglob("cluster=gone*"))) > 20
    clusters.forget_cluster(tmp_path, "gone")
    assert not [path for path in tmp_path.rglob("cluster=gone*") if "gone2" not in path.name]
    assert len(list(tmp_path.rglob("cluster=gone2*"))) > 10


def test_forgotten_cluster_leaves_no_files_and_other_clusters_stay(tmp_path: Path) -> None:
    published.write_snapshot(tmp_path, make_snapshot(cluster_id="kept"))
    published.write_live(tmp_path, make_snapshot(cluster_id="kept"))
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    published.claim_epoch(tmp_path, "gone")
    published.write_snapshot(tmp_path, make_snapshot(cluster_id="gone"), writer_epoch=1)
    published.write_live(tmp_path, make_snapshot(cluster_id="gone"))
    clusters.forget_cluster(tmp_path, "gone")
    assert clusters.cluster_ids(tmp_path) == ("kept",)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a manifest"),
        ('{"format": "trimtab.snapshot/2"}', "reads up to trimtab.snapshot/1"),
        ('{"format": "something"}', "is not a trimtab.snapshot file"),
        ('{"format": "trimtab.snapshot/1"}', "lacks 'cluster_id'"),
    ],
)
def test_bad_manifest_is_reported_in_one_sentence_with_a_next_step(
    tmp_path: Path, content: str, message: str
) -> None:
    published.write_snapshot(tmp_path, make_snapshot())
    layout.current(tmp_path, "abc-DEF_1").write_text(content)
    with pytest.raises(DocumentError, match=message) as caught:
        reader.read_snapshot(tmp_path, "abc-DEF_1")
    assert "\n" not in caught.value.title
    assert caught.value.next


def test_unknown_keys_of_a_later_minor_version_are_ignored(tmp_path: Path) -> None:
    published.write_snapshot(tmp_path, make_snapshot())
    path = layout.current(tmp_path, "abc-DEF_1")
    document = json.loads(path.read_text())
    document["more"] = 1
    document["brokers"][0]["more"] = 1
    path.write_text(json.dumps(document))
    read = manifest.read_manifest(tmp_path, "abc-DEF_1")
    assert read.brokers[0].broker == 1


def test_truncated_arrow_file_is_reported_as_not_whole(tmp_path: Path) -> None:
    published.write_snapshot(tmp_path, make_snapshot())
    path = layout.snapshots(tmp_path, "abc-DEF_1") / "0001-00000001" / PARTITIONS
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DocumentError, match="is not a whole Arrow file"):
        reader.read_snapshot(tmp_path, "abc-DEF_1")


@pytest.fixture(scope="module")
def whole_live(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    root = tmp_path_factory.mktemp("live")
    published.write_live(root, make_snapshot())
    path = layout.live(root, "abc-DEF_1")
    return path, path.read_bytes()


@given(st.data())
def test_live_snapshot_with_a_changed_byte_is_read_or_raises_document_error(
    whole_live: tuple[Path, bytes], data: st.DataObject
) -> None:
    path, whole = whole_live
    at = data.draw(st.integers(0, len(whole) - 1))
    to = data.draw(st.integers(0, 255))
    path.write_bytes(whole[:at] + bytes([to]) + whole[at + 1 :])
    with suppress(DocumentError):
        reader.read_columns(path)


def test_a_root_of_a_newer_trimtab_is_refused(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text('{"format": "trimtab.load/7"}')
    with pytest.raises(DocumentError, match=r"trimtab.load/7"):
        published.write_snapshot(tmp_path, make_snapshot())


def test_snapshots_may_be_named_by_root_or_folder(tmp_path: Path) -> None:
    published.write_snapshot(tmp_path, make_snapshot())
    assert layout.root_of(None) == paths.load_root()
    assert layout.root_of(str(tmp_path)) == tmp_path
    assert layout.root_of(str(tmp_path / "snapshots")) == tmp_path
    with pytest.raises(UsageError):
        layout.root_of(str(tmp_path / "missing"))


def test_retention_keeps_the_last_sixty_the_hourly_and_the_recent_snapshots() -> None:
    now = 10_000_000.0
    aged = [(f"{i:05d}", now - (3000 - i) * 15) for i in range(3000)]
    kept = {name for name, _ in aged} - set(published.select_expired(aged, now))
    assert {name for name, _ in aged[-60:]} <= kept
    assert len(kept) == 60 + len({int(at // 3600) for _, at in aged[:-60]})
    burst = [(f"{i:05d}", now - 300) for i in range(200)]
    assert published.select_expired(burst, now) == []


def test_reading_a_snapshot_imports_neither_pandas_nor_datasets(tmp_path: Path) -> None:
    published.write_snapshot(tmp_path, make_snapshot())
    code = (
        "import sys; from pathlib import Path;"
        "from core.load.snapshot.reader import read_snapshot;"
        "assert read_snapshot(Path(sys.argv[1]), 'abc-DEF_1').rate('in_bytes_per_s').sum() >= 0;"
        "slow = ('pandas', 'pyarrow.dataset', 'pyarrow.fs', 'pyspark');"
        "print([m for m in slow if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["/etc/passwd", "../../x", "..", "a\0b", 7])
def test_a_manifest_that_names_files_elsewhere_is_refused(tmp_path: Path, name: object) -> None:
    published.write_snapshot(tmp_path, make_snapshot())
    path = layout.current(tmp_path, "abc-DEF_1")
    document = json.loads(path.read_text())
    document["files"][0]["name"] = name
    path.write_text(json.dumps(document))
    with pytest.raises(DocumentError, match="not the snapshot's own|of another type"):
        manifest.read_manifest(tmp_path, "abc-DEF_1")
