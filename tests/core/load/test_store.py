"""Snapshots in an object store: what is put is read, whole or not at all."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from object_store import ObjectStore
from snapshots import make_snapshot

from core.errors import DocumentError, RefusedError, StoreError
from core.load import load_paths as layout
from core.load import windows
from core.load.load_source import version
from core.load.snapshot import manifest, reader
from core.load.snapshot import writer as published
from core.load.snapshot.format import PARTITIONS, LoadSnapshot
from core.load.store import StorePath

CLUSTER = "abc-DEF_1"
FIRST, SECOND, THIRD = "0001-00000001", "0001-00000002", "0002-00000001"


@pytest.fixture
def root(s3: ObjectStore, request: pytest.FixtureRequest) -> StorePath:
    """A load root in a bucket that is this test's alone."""
    return s3.bucket(f"b{abs(hash(request.node.nodeid))}")


def larger(snapshot_id: str) -> LoadSnapshot:
    """A snapshot that is longer than `make_snapshot`'s, manifest and data."""
    small, n = make_snapshot(snapshot_id), 3000
    return replace(
        small,
        topic_of=np.zeros(n, np.int32),
        partition=np.arange(n, dtype=np.int32),
        rates={key: np.arange(n, dtype=np.float64) for key in small.rates},
        **{name: np.zeros(n, np.int64) for name in ("size_bytes", "leader")},
        growth_bytes_per_s=np.zeros(n),
        quality=np.zeros(n, np.int8),
        method=np.zeros(n, np.int8),
    )


# -- what is put is read --------------------------------------------------------------------------


def test_snapshot_put_into_a_store_is_read_back_equal(root: StorePath) -> None:
    published.write_snapshot(root, make_snapshot(FIRST))
    published.write_snapshot(root, make_snapshot(SECOND))
    snapshot, written = reader.read_snapshot(root, CLUSTER), make_snapshot(SECOND)
    assert snapshot is not None
    assert (snapshot.snapshot_id, snapshot.topics) == (SECOND, written.topics)
    assert (snapshot.brokers, snapshot.counts) == (written.brokers, written.counts)
    for key, column in written.rates.items():
        np.testing.assert_array_equal(snapshot.rates[key], column)
    assert manifest.snapshot_ids(root, CLUSTER) == (FIRST, SECOND)
    assert manifest.cluster_ids(root) == (CLUSTER,)


def test_snapshot_that_is_still_the_newest_is_fetched_once(
    root: StorePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    published.write_snapshot(root, make_snapshot(FIRST))
    read, fetched = StorePath.read_bytes, list[str]()

    def counted(place: StorePath) -> bytes:
        fetched.append(place.parts[-2])
        return read(place)

    monkeypatch.setattr(StorePath, "read_bytes", counted)
    for newest in (FIRST, FIRST, SECOND, SECOND):
        published.write_snapshot(root, make_snapshot(newest))
        snapshot = reader.read_snapshot(root, CLUSTER)
        assert snapshot is not None
        assert snapshot.snapshot_id == newest
    assert fetched == [FIRST, SECOND]


def test_store_has_the_same_files_and_content_as_a_folder(root: StorePath, tmp_path: Path) -> None:
    for place in (root, tmp_path):
        published.claim_epoch(place, CLUSTER)
        published.write_snapshot(place, make_snapshot(FIRST), writer_epoch=1)
    in_folder = {
        str(path.relative_to(tmp_path)): path.read_bytes()
        for path in (tmp_path / "snapshots").rglob("*")
        if path.is_file()
    }
    in_store = {name: root / name for name in root.files()}
    assert in_store.keys() == in_folder.keys()
    assert {name: place.read_bytes() for name, place in in_store.items()} == in_folder


def test_store_path_can_be_pickled_to_another_process_after_use(root: StorePath) -> None:
    published.write_snapshot(root, make_snapshot())
    sent = pickle.dumps(root)
    code = (
        "import pickle, sys; root = pickle.load(sys.stdin.buffer);"
        "from core.load.snapshot.reader import read_snapshot;"
        f"print(read_snapshot(root, {CLUSTER!r}).snapshot_id)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    assert done.stdout.decode().strip() == FIRST


def test_reader_gets_only_whole_snapshots_while_new_ones_are_published(root: StorePath) -> None:
    published.write_snapshot(root, make_snapshot("0001-00000000"))
    ended = threading.Event()

    def write() -> None:
        for number in range(1, 25):
            make = larger if number % 2 else make_snapshot
            published.write_snapshot(root, make(f"0001-{number:08d}"))
        ended.set()

    writing = threading.Thread(target=write)
    writing.start()
    met = []
    while not ended.is_set():
        snapshot = reader.read_snapshot(root, CLUSTER)
        assert snapshot is not None
        assert len(snapshot.partition) == (3000 if int(snapshot.snapshot_id[-8:]) % 2 else 4)
        met.append(snapshot.snapshot_id)
    writing.join()
    assert met == sorted(met)
    assert len(set(met)) > 2


def test_manifest_replaced_during_a_read_is_reread(
    root: StorePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "REPLACED_SECONDS", 0)
    published.write_snapshot(root, make_snapshot())
    read, cut = StorePath.read_text, [200, 0]

    def read_part(place: StorePath, encoding: str) -> str:
        return read(place, encoding)[: cut.pop() if cut else None]

    monkeypatch.setattr(StorePath, "read_text", read_part)
    newest_manifest = manifest.read_manifest(root, CLUSTER)
    assert newest_manifest is not None
    assert (newest_manifest.snapshot_id, cut) == (FIRST, [])


def test_manifest_left_empty_by_a_writer_counts_as_no_snapshot(
    root: StorePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "REPLACED_SECONDS", 0)
    published.write_snapshot(root, make_snapshot(FIRST))
    layout.current(root, CLUSTER).write_bytes(b"")
    assert reader.read_snapshot(root, CLUSTER) is None
    published.write_snapshot(root, make_snapshot(SECOND))
    snapshot = reader.read_snapshot(root, CLUSTER)
    assert snapshot is not None
    assert snapshot.snapshot_id == SECOND


def test_clusters_are_listed_and_publishing_relists_a_missing_cluster(root: StorePath) -> None:
    for cluster_id in ("one", "two"):
        published.write_snapshot(root, make_snapshot(FIRST, cluster_id=cluster_id))
    assert manifest.cluster_ids(root) == ("one", "two")
    layout.index(root).write_bytes(b'{"clusters": ["one"]}')
    published.write_snapshot(root, make_snapshot(SECOND, cluster_id="two"))
    assert manifest.cluster_ids(root) == ("one", "two")
    layout.index(root).write_bytes(b"{")
    published.write_snapshot(root, make_snapshot(THIRD, cluster_id="two"))
    assert manifest.cluster_ids(root) == ("two",)


def test_charts_and_the_live_interval_are_not_in_a_store(root: StorePath) -> None:
    assert len(windows.read_history(root, CLUSTER, 1)) == 0
    assert reader.read_live(root, CLUSTER) is None
    assert version(root, CLUSTER) == (None, None)
    published.write_snapshot(root, make_snapshot(FIRST))
    assert version(root, CLUSTER) == (FIRST, None)


# -- writers --------------------------------------------------------------------------------------


def test_writer_of_an_older_epoch_is_refused_and_leaves_no_files(root: StorePath) -> None:
    first, second = (published.claim_epoch(root, CLUSTER) for _ in range(2))
    published.write_snapshot(root, make_snapshot(THIRD), writer_epoch=second)
    before = root.files().keys()
    with pytest.raises(RefusedError, match="Another writer"):
        published.write_snapshot(root, make_snapshot(SECOND), writer_epoch=first)
    assert root.files().keys() == before


@pytest.mark.parametrize(
    ("theirs", "epoch", "why"),
    [(THIRD, 2, "Another writer"), (SECOND, 1, "comes too late")],
    ids=["a newer writer", "a later task of the same writer"],
)
def test_writer_overtaken_between_its_data_and_its_manifest_is_refused(
    root: StorePath, monkeypatch: pytest.MonkeyPatch, theirs: str, epoch: int, why: str
) -> None:
    put = StorePath.write_bytes

    def put_and_be_overtaken(place: StorePath, content: bytes) -> None:
        put(place, content)
        monkeypatch.setattr(StorePath, "write_bytes", put)
        published.write_snapshot(root, make_snapshot(theirs), writer_epoch=epoch)

    monkeypatch.setattr(StorePath, "write_bytes", put_and_be_overtaken)
    with pytest.raises(RefusedError, match=why):
        published.write_snapshot(root, make_snapshot(FIRST), writer_epoch=1)
    snapshot = reader.read_snapshot(root, CLUSTER)
    assert snapshot is not None
    assert snapshot.snapshot_id == theirs
    assert manifest.snapshot_ids(root, CLUSTER) == (theirs,)


def test_repeated_task_rewrites_the_same_snapshot(root: StorePath) -> None:
    for _ in range(2):
        published.write_snapshot(root, make_snapshot(FIRST), writer_epoch=1)
    assert manifest.snapshot_ids(root, CLUSTER) == (FIRST,)
    check = reader.verify_snapshot(root, CLUSTER)
    assert check is not None
    assert check.problems == ()


KILLED = """
import os, pickle, signal, sys
sys.path[:0] = ["tests", "tests/core"]
from snapshots import make_snapshot
from core.load.snapshot.writer import write_snapshot
from core.load.store import StorePath
root, puts = pickle.load(sys.stdin.buffer)
put = StorePath.write_bytes
def counted(place, content):
    global puts
    put(place, content)
    puts -= 1
    if puts == 0:
        os.kill(os.getpid(), signal.SIGKILL)
StorePath.write_bytes = counted
write_snapshot(root, make_snapshot("0001-00000002"), writer_epoch=1)
"""


@pytest.mark.parametrize(
    ("puts", "newest"), [(1, FIRST), (2, FIRST), (3, SECOND)], ids=["data", "its own", "newest"]
)
def test_a_writer_killed_between_its_puts_leaves_one_whole_snapshot(
    root: StorePath, monkeypatch: pytest.MonkeyPatch, puts: int, newest: str
) -> None:
    published.write_snapshot(root, make_snapshot(FIRST), writer_epoch=1)
    done = subprocess.run(
        [sys.executable, "-c", KILLED], input=pickle.dumps((root, puts)), check=False
    )
    assert done.returncode == -9
    snapshot, check = reader.read_snapshot(root, CLUSTER), reader.verify_snapshot(root, CLUSTER)
    assert snapshot is not None
    assert check is not None
    assert (snapshot.snapshot_id, check.problems) == (newest, ())
    # What it left goes with retention, once nobody can be at it any more.
    monkeypatch.setattr(published, "MIN_AGE_SECONDS", -1)
    later = make_snapshot(THIRD, published_at=make_snapshot().published_at.replace(hour=20))
    published.write_snapshot(root, later, writer_epoch=2)
    kept = {name.split("/")[2] for name in root.files() if name.endswith(PARTITIONS)}
    assert kept == {FIRST, THIRD} | ({SECOND} if puts > 1 else set())


def test_retention_in_a_store_is_that_of_a_folder(
    root: StorePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"KEEP_LAST": 2, "KEEP_HOURLY_SECONDS": -1, "MIN_AGE_SECONDS": -1}.items():
        monkeypatch.setattr(published, name, value)
    at = make_snapshot().published_at
    for number in range(5):
        moment = at.replace(hour=number)
        published.write_snapshot(root, make_snapshot(f"0001-{number}", published_at=moment))
    assert manifest.snapshot_ids(root, CLUSTER) == ("0001-3", "0001-4")
    assert not [name for name in root.files() if "0001-1" in name]


def test_writer_that_cannot_delete_old_snapshots_still_publishes(
    root: StorePath, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: StorePath) -> None:
        raise StoreError("no")

    monkeypatch.setattr(StorePath, "files", refuse)
    published.write_snapshot(root, make_snapshot(FIRST))
    assert manifest.cluster_ids(root) == (CLUSTER,)
    assert "are not deleted: no" in caplog.text


def test_writers_that_start_get_ever_higher_epochs(root: StorePath) -> None:
    assert [published.claim_epoch(root, CLUSTER) for _ in range(3)] == [1, 2, 3]
    layout.epoch(root, CLUSTER).write_bytes(b"many")
    with pytest.raises(DocumentError, match="is not a number"):
        published.claim_epoch(root, CLUSTER)
