"""Object stores that fail, what is told of it, and addresses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from in_process import Trimtab
from object_store import ObjectStore, store_address
from servers import nobody, server, silent
from snapshots import make_snapshot

from core.cluster.connect import Address
from core.errors import DocumentError, StoreError, TrimtabError, UsageError
from core.load import load_paths as layout
from core.load.load_source import newest_snapshot
from core.load.snapshot import manifest, reader
from core.load.snapshot import writer as published
from core.load.snapshot.format import PARTITIONS
from core.load.store import StorePath, store_of
from core.run.options import RunOptions

CLUSTER = "abc-DEF_1"
FIRST, SECOND = "0001-00000001", "0001-00000002"


@pytest.fixture
def root(s3: ObjectStore, request: pytest.FixtureRequest) -> StorePath:
    """A load root in a bucket that is this test's alone."""
    return s3.bucket(f"b{abs(hash(request.node.nodeid))}")


def damage(root: StorePath, name: str, change: Callable[[bytes], bytes]) -> None:
    place = layout.snapshots(root, CLUSTER)
    for part in name.split("/"):
        place /= part
    place.write_bytes(change(place.read_bytes()))


DAMAGED = {
    "cut manifest": ("CURRENT.json", lambda c: c[:50], "is not JSON"),
    "newer format": (
        "CURRENT.json",
        lambda c: c.replace(b"snapshot/1", b"snapshot/9", 1),
        "reads up to trimtab.snapshot/1",
    ),
    "cut data": (f"{FIRST}/{PARTITIONS}", lambda c: c[:-100], "another SHA-256"),
    "other data": (f"{FIRST}/{PARTITIONS}", lambda c: c.replace(b"clicks", b"klicks"), "SHA-256"),
}


@pytest.mark.parametrize(("name", "change", "why"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_snapshot_is_reported_with_reason_and_next_step(
    root: StorePath, name: str, change: Callable[[bytes], bytes], why: str
) -> None:
    published.write_snapshot(root, make_snapshot(FIRST))
    damage(root, name, change)
    with pytest.raises(DocumentError, match=why) as caught:
        reader.read_snapshot(root, CLUSTER)
    assert caught.value.next
    assert str(root) in caught.value.detail


def test_data_named_by_its_manifest_but_missing_is_reported(root: StorePath) -> None:
    published.write_snapshot(root, make_snapshot(FIRST))
    (layout.snapshots(root, CLUSTER) / FIRST).delete()
    with pytest.raises(DocumentError, match="named by its manifest but missing"):
        reader.read_snapshot(root, CLUSTER)


def test_bucket_without_a_snapshot_of_the_cluster_is_reported(root: StorePath) -> None:
    assert reader.read_snapshot(root, CLUSTER) is None
    assert manifest.cluster_ids(root) == ()
    with pytest.raises(UsageError, match=f"no snapshot of cluster {CLUSTER} in {root}"):
        newest_snapshot(CLUSTER, root.address)


@pytest.mark.parametrize(
    ("address", "kind", "why"),
    [
        (lambda _: store_address("b/x", nobody()), StoreError, "does not answer: Could not conn"),
        (lambda s3: s3.address("nowhere/x"), UsageError, "There is no bucket nowhere"),
        (lambda _: "gopher://b/x", UsageError, "is not an address that snapshots can be at"),
        (lambda _: "s3://b/x?regoin=eu", UsageError, "is not an address .* 'regoin'"),
        (lambda _: "file:///tmp", UsageError, "file:///tmp is a folder"),
        (lambda _: "s3://no%zz/x", UsageError, "is not an address"),
        (lambda _: "s3://", UsageError, "is not an address"),
    ],
    ids=[
        "unreachable",
        "no bucket",
        "no such scheme",
        "no such option",
        "a folder",
        "no URI",
        "nothing",
    ],
)
def test_unusable_address_is_reported_in_one_sentence_within_ten_seconds(
    s3: ObjectStore, address: Callable[[ObjectStore], str], kind: type[TrimtabError], why: str
) -> None:
    place, began = layout.root_of(address(s3)), time.monotonic()
    for ask in (
        lambda: reader.read_snapshot(place, CLUSTER),
        lambda: manifest.cluster_ids(place),
        lambda: manifest.snapshot_ids(place, CLUSTER),
        lambda: published.write_snapshot(place, make_snapshot()),
    ):
        with pytest.raises(kind, match=why) as caught:
            ask()
        assert "\n" not in caught.value.title
        assert caught.value.next
    assert time.monotonic() - began < 10


@pytest.mark.long
@pytest.mark.usefixtures("s3")
def test_store_that_connects_but_never_answers_is_reported_in_ten_seconds() -> None:
    with server(silent) as there:
        began = time.monotonic()
        with pytest.raises(StoreError, match="does not answer"):
            reader.read_snapshot(layout.root_of(store_address("b/x", there)), CLUSTER)
        assert time.monotonic() - began < 11


def test_refused_credentials_are_reported_with_their_source(
    s3: ObjectStore, root: StorePath
) -> None:
    published.write_snapshot(root, make_snapshot())
    with s3.refusing():
        for ask in (
            lambda: reader.read_snapshot(root, CLUSTER),
            lambda: manifest.snapshot_ids(root, CLUSTER),
            lambda: published.write_snapshot(root, make_snapshot(SECOND)),
        ):
            with pytest.raises(StoreError, match="refuses access to s3://b") as caught:
                ask()
            assert "AWS_PROFILE" in caught.value.next
    assert reader.read_snapshot(root, CLUSTER) is not None


@pytest.mark.parametrize("command", ["ls", "show", "verify"])
def test_the_command_line_reads_a_store_as_it_reads_a_folder(
    trimtab: Trimtab, root: StorePath, tmp_path: Path, command: str
) -> None:
    for place in (root, tmp_path):
        published.write_snapshot(place, make_snapshot(FIRST))
        published.write_snapshot(place, make_snapshot(SECOND))
    here, there = (
        trimtab("--snapshots", where, "snapshot", command, *more)
        for where, more in ((str(tmp_path), ("--cluster-id", CLUSTER)), (root.address, ()))
    )
    assert here == there
    assert here[0] == 0


def test_show_command_takes_load_from_a_store(
    trimtab: Trimtab, simulated: tuple[Address, Path], root: StorePath
) -> None:
    address, folder = simulated
    (cluster_id,) = manifest.cluster_ids(folder)
    snapshot = reader.read_snapshot(folder, cluster_id)
    assert snapshot is not None
    doubled = {key: 2 * rates for key, rates in snapshot.rates.items()}
    published.write_snapshot(root, replace(snapshot, rates=doubled))
    words = ("-b", address.bootstrap, "--snapshots", root.address, "show", "--json")
    code, out, err = trimtab(*words)
    assert code == 0, err
    shown = {(p["topic"], p["partition"]): p for p in json.loads(out)["partitions"]}
    for row, rate in enumerate(snapshot.rate("in_bytes_per_s").tolist()):
        key = snapshot.topics[snapshot.topic_of[row]], int(snapshot.partition[row])
        assert shown[key]["in_bytes_per_s"] == pytest.approx(2 * rate)


def test_command_line_reports_store_failures_by_exit_code(
    trimtab: Trimtab, s3: ObjectStore, root: StorePath
) -> None:
    cases = {
        store_address("b/x", nobody()): (4, "does not answer"),
        s3.address("nowhere/x"): (2, "There is no bucket"),
        root.address: (2, "has snapshots of none"),
    }
    for address, (expected, why) in cases.items():
        code, out, err = trimtab("--snapshots", address, "snapshot", "show")
        assert (code, out) == (expected, "")
        assert why in err
        assert "Traceback" not in err


# -- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3://bucket/team/", "s3://bucket/team"),
        ("s3://bucket/team/snapshots", "s3://bucket/team"),
        ("s3://bucket/team/snapshots/?region=eu-west-1", "s3://bucket/team"),
        ("gs://anonymous@bucket", "gs://anonymous@bucket"),
        ("abfs://box@acc.dfs.core.windows.net/t", "abfs://box@acc.dfs.core.windows.net/t"),
    ],
)
def test_store_address_may_be_the_load_root_or_its_snapshots_folder(
    address: str, shown: str
) -> None:
    place = store_of(address)
    assert str(place) == shown
    assert str(place / "snapshots" / "INDEX.json") == f"{shown}/snapshots/INDEX.json"


@pytest.mark.parametrize(
    "address",
    [
        "s3://KEY:SECRET@bucket/team",
        "s3://KEY:SE/CRET@bucket/team?region=eu-west-1",
        "abfs://box:SECRET@acc.dfs.core.windows.net/t",
        "abfs://box@acc.dfs.core.windows.net/t?client_secret=SECRET",
    ],
)
def test_address_with_a_secret_is_refused_without_printing_the_secret(
    trimtab: Trimtab, address: str
) -> None:
    code, out, err = trimtab("--snapshots", address, "-b", nobody(), "show")
    assert (code, out) == (2, "")
    assert "AWS_PROFILE" in err
    assert "CRET" not in err


def test_run_options_keep_a_store_address_and_resolve_a_folder() -> None:
    for given, kept in (("s3://b/x?region=r", "s3://b/x?region=r"), ("x", str(Path.cwd() / "x"))):
        options = RunOptions(rate_bytes_per_s=1, snapshots=given)
        assert options.to_json()["snapshots"] == kept


def test_store_address_imports_nothing_until_it_is_used() -> None:
    code = (
        "import sys; from core.load.load_paths import root_of; root_of('s3://bucket/x');"
        "print([m for m in ('pyarrow', 'pyarrow.fs', 'core.load.snapshot') if m in sys.modules])"
    )
    assert os.environ.get("PYTHONPATH") is None
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
