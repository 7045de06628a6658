"""Which snapshots are kept, which of them stand for hours, and how hours are stepped through."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from clusters import cluster
from snapshots import make_snapshot

from core.errors import DocumentError
from core.load import load_paths as layout
from core.load import windows
from core.load.load_source import past_load
from core.load.snapshot import kept as reading
from core.load.snapshot.kept import Kept, KeptSnapshot, read_kept, step_hours
from core.load.snapshot.reader import read_snapshot
from core.load.snapshot.writer import write_earlier, write_snapshot

CLUSTER = "abc-DEF_1"
DAY = datetime(2026, 3, 1, tzinfo=UTC)


def publish(root: Path, number: int, published_at: datetime, rate: float = 1.0) -> str:
    """Publish a snapshot in which every partition gets `rate`, of the five minutes before."""
    name = f"{number:012d}"
    snapshot = make_snapshot(name, published_at=published_at, window_end=published_at)
    rates = {**snapshot.rates, ("5m", "in_bytes_per_s", "avg"): np.full(4, rate)}
    write_snapshot(root, replace(snapshot, rates=rates))
    return name


def at(hour: float, day: int = 1) -> datetime:
    return DAY + timedelta(days=day - 1, hours=hour)


def hours(*marks: datetime) -> tuple[KeptSnapshot, ...]:
    """Return kept hours that were published four seconds after these marks."""
    return tuple(
        replace(KEPT, snapshot_id=str(mark), published_at=mark + timedelta(seconds=4))
        for mark in marks
    )


KEPT = KeptSnapshot("", make_snapshot().source, DAY, DAY, 4, 1, 1.0, 1.0, 1, 1.0)
TWO_DAYS = hours(*(at(n) for n in range(48)))
WITH_A_GAP = hours(at(10), at(11), at(20), at(9, 2))


# -- what is kept --------------------------------------------------------------------------------


def test_a_snapshot_is_summed_up_from_its_manifest(tmp_path: Path) -> None:
    publish(tmp_path, 1, at(10))
    (snapshot,) = read_kept(tmp_path, CLUSTER).snapshots
    assert (snapshot.snapshot_id, snapshot.published_at, snapshot.partitions) == (
        "000000000001",
        at(10),
        4,
    )
    assert (snapshot.in_bytes_per_s, snapshot.out_bytes_per_s, snapshot.size_bytes) == (
        40.0,
        5.0,
        80,
    )
    assert snapshot.in_skew == pytest.approx(30 / 20), "of what is produced, as on the map"


def test_first_snapshot_of_each_hour_represents_the_hour(tmp_path: Path) -> None:
    for n, minutes in enumerate((0, 1, 59, 60, 61, 300), 1):
        publish(tmp_path, n, at(10) + timedelta(minutes=minutes))
    kept = read_kept(tmp_path, CLUSTER)
    assert [snapshot.published_at for snapshot in kept.hours] == [at(10), at(11), at(15)]
    assert len(kept.snapshots) == 6


def test_damaged_snapshots_are_left_out_and_named(tmp_path: Path) -> None:
    for n in (1, 2, 3, 4):
        publish(tmp_path, n, at(n))
    folder = layout.snapshots(tmp_path, CLUSTER)
    (folder / "000000000002" / "manifest.json").write_text("{")
    shutil.rmtree(folder / "000000000003")
    (folder / "000000000004" / "manifest.json").unlink()
    (folder / "000000000004" / "manifest.json").mkdir()
    kept = read_kept(tmp_path, CLUSTER)
    assert [snapshot.published_at for snapshot in kept.snapshots] == [at(1)]
    assert kept.left_out == (
        "000000000002 is left out: manifest.json is not JSON.",
        "000000000004 is left out: Is a directory.",
    )
    assert read_kept(tmp_path, "nobody") == Kept()


def test_manifests_of_known_snapshots_are_not_reread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path, 1, at(1))
    publish(tmp_path, 2, at(2))
    known = read_kept(tmp_path, CLUSTER)
    publish(tmp_path, 3, at(3))
    shutil.rmtree(layout.snapshots(tmp_path, CLUSTER) / "000000000001")
    read: list[str] = []
    real = reading.read_manifest

    def counted(root: Path, cluster_id: str, name: str | None) -> object:
        read.append(str(name))
        return real(root, cluster_id, name)

    monkeypatch.setattr(reading, "read_manifest", counted)
    kept = read_kept(tmp_path, CLUSTER, known)
    assert read == ["000000000003"]
    assert [snapshot.published_at for snapshot in kept.snapshots] == [at(2), at(3)]


@pytest.mark.parametrize(
    ("moment", "found"),
    [
        (at(9.9), None),
        (at(10), None),  # four seconds before it was published
        (at(10.5), at(10)),
        (at(11.5), at(11)),
        (at(12.5), None),
        (at(20.9), at(20)),
    ],
)
def test_snapshot_at_a_time_is_the_last_published_within_the_hour_before(
    moment: datetime, found: datetime | None
) -> None:
    snapshot = Kept(WITH_A_GAP).at(moment)
    assert (snapshot and str(found)) == (snapshot and snapshot.snapshot_id)
    assert (snapshot is None) is (found is None)


# -- steps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "since", "steps", "found"),
    [
        (TWO_DAYS, None, -1, at(23, 2)),
        (TWO_DAYS, at(23, 2), -1, at(22, 2)),
        (TWO_DAYS, at(22, 2), 1, at(23, 2)),
        (TWO_DAYS, at(23, 2), 1, None),
        (TWO_DAYS, None, 1, None),
        (TWO_DAYS, None, -24, at(23)),
        (TWO_DAYS, at(15, 2), -24, at(15)),
        (TWO_DAYS, at(15), 24, at(15, 2)),
        (TWO_DAYS, at(15, 2), 24, None),
        (TWO_DAYS, at(15), -24, at(0)),
        (TWO_DAYS, at(0), -1, at(0)),
        (TWO_DAYS, at(15.7), -1, at(14)),  # from what happened
        (WITH_A_GAP, at(9, 2), -1, at(20)),
        (WITH_A_GAP, at(20), -1, at(11)),
        (WITH_A_GAP, at(11), 1, at(20)),
        (WITH_A_GAP, at(9, 2), -24, at(10)),
        ((), None, -1, None),
    ],
)
def test_stepping_through_hours_skips_gaps(
    kept: tuple[KeptSnapshot, ...], since: datetime | None, steps: int, found: datetime | None
) -> None:
    snapshot = step_hours(kept, since, steps)
    assert (snapshot.snapshot_id if snapshot else None) == (str(found) if found else None)


# -- the load of a moment ------------------------------------------------------------------------


def test_any_kept_snapshot_can_be_read_and_a_deleted_snapshot_is_none(tmp_path: Path) -> None:
    first = publish(tmp_path, 1, at(1), 7.0)
    publish(tmp_path, 2, at(2))
    snapshot = read_snapshot(tmp_path, CLUSTER, first)
    assert snapshot is not None
    assert snapshot.rate("in_bytes_per_s").tolist() == [7.0] * 4
    folder = layout.snapshots(tmp_path, CLUSTER)
    (folder / first / "partitions.arrow").write_bytes(b"nothing")
    with pytest.raises(DocumentError, match="not a whole Arrow file"):
        read_snapshot(tmp_path, CLUSTER, first)
    (folder / first / "partitions.arrow").unlink()
    with pytest.raises(DocumentError, match="named by its manifest but missing"):
        read_snapshot(tmp_path, CLUSTER, first)
    shutil.rmtree(folder / first)
    assert read_snapshot(tmp_path, CLUSTER, first) is None


def test_snapshot_of_an_earlier_time_does_not_become_the_newest(tmp_path: Path) -> None:
    publish(tmp_path, 5, at(5))
    old = make_snapshot("000000000001", published_at=at(1), window_end=at(1))
    write_earlier(tmp_path, old)
    newest = read_snapshot(tmp_path, CLUSTER)
    assert newest is not None
    assert newest.snapshot_id == "000000000005"
    assert len(read_kept(tmp_path, CLUSTER).snapshots) == 2


@pytest.mark.parametrize(
    ("moment", "rate", "snapshot"),
    [
        (at(10) + timedelta(minutes=3), 7.0, True),  # the snapshot's five minutes
        (at(10) + timedelta(minutes=32), 3.0, True),  # a window is nearer
        (at(10) + timedelta(minutes=50), 7.0, True),  # no window is kept
        (at(11.2), None, False),
    ],
)
def test_past_load_comes_from_the_nearest_snapshot_or_window(
    moment: datetime, rate: float | None, snapshot: bool, tmp_path: Path
) -> None:
    publish(tmp_path, 1, at(10), 7.0)
    window = windows.Window(
        at(10.5),
        ("clicks",),
        np.zeros(1, np.int32),
        np.zeros(1, np.int32),
        np.ones(1, np.int32),
        {("in_bytes_per_s", "avg"): np.array([3.0])},
        np.array([-1]),
        (),
    )
    windows.write_window(tmp_path, CLUSTER, window)
    state = cluster({"clicks-0": [1, 2]})
    load, newest = past_load(tmp_path, CLUSTER, state, moment, read_kept(tmp_path, CLUSTER))
    assert (load and load.in_bytes_per_s.tolist()) == (rate and [rate])
    assert (newest is not None) is snapshot
