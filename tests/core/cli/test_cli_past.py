"""What the command line shows of the past: `show --at` and `snapshot ls --hourly`."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from in_process import Hand, Trimtab
from simulated import small_spec
from snapshots import make_snapshot

from core import paths
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.load.simulated_load import SimulatedLoad, as_if_at, build_snapshot
from core.load.snapshot.writer import write_snapshot
from core.units import format_time
from core.watch.timeline.store import Timeline

TP = TopicPartition("orders", 0)


@pytest.fixture
def living() -> SimulatedCluster:
    return SimulatedCluster(small_spec({"orders": [(1, 2), (2, 1)]}, in_bytes_per_s={TP: 7e6}))


def publish(cluster: SimulatedCluster, root: Path, *hours_ago: int) -> None:
    for n, hours in enumerate(hours_ago, 1):
        moment = cluster.now - timedelta(hours=hours)
        picture = as_if_at(SimulatedLoad.of(cluster), moment)
        write_snapshot(root, build_snapshot(cluster, picture, n))


def record(cluster: SimulatedCluster, begin: datetime, until: datetime) -> None:
    """Record the cluster from `begin` to `until`."""
    timeline = Timeline.write(paths.timeline_file(cluster.spec.cluster_id))
    timeline.begin(as_if_at(SimulatedLoad.of(cluster), begin).state)
    timeline.note_poll(until)
    timeline.close()


def test_past_load_is_shown_on_current_replicas_if_none_were_recorded(
    hand: Hand, living: SimulatedCluster
) -> None:
    publish(living, paths.load_root(), 5, 3)
    code, out, err = hand.on(living)("show", "--at", "2h50m")
    assert (code, "orders" in out) == (0, True)
    load = format_time(living.now - timedelta(hours=3))
    assert f": load until {load}, replicas as now, as nobody recorded them." in err
    document = hand.json("show", "--at", "2h50m")
    assert document["brokers"]
    assert [part["in_bytes_per_s"] for part in document["partitions"]] == [7e6, 0.0]


@pytest.mark.parametrize(
    ("recorded_until", "message"),
    [
        (timedelta(0), "replicas of then."),
        (timedelta(hours=4), "replicas as recorded last at "),
    ],
)
def test_past_map_shows_replicas_as_recorded_then_or_last(
    recorded_until: timedelta, message: str, hand: Hand, living: SimulatedCluster
) -> None:
    publish(living, paths.load_root(), 3)
    record(living, living.now - timedelta(hours=5), living.now - recorded_until)
    _, _, err = hand.on(living)("show", "--at", "2h50m")
    assert message in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--at", "90m"), "No load is kept of "),
        (("--at", "9999-01-01"), "is still to come."),
        (("--at", "soon"), "Not a time: 'soon'."),
    ],
)
def test_show_at_refuses_a_time_without_load_in_the_future_or_invalid(
    words: tuple[str, ...], message: str, hand: Hand, living: SimulatedCluster
) -> None:
    publish(living, paths.load_root(), 5, 3)
    code, out, err = hand.on(living)("show", *words)
    assert (code, out) == (2, "")
    assert message in err


def test_show_at_is_refused_for_a_cluster_file(trimtab: Trimtab, tmp_path: Path) -> None:
    code, _, err = trimtab("--from", tmp_path / "x.json", "show", "--at", "1h")
    assert code == 2
    assert "--from and --at exclude each other." in err


def test_all_snapshots_or_one_per_hour_are_listed_with_their_total_rates(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    begin = make_snapshot().published_at
    for n, minutes in enumerate((0, 20, 61), 1):
        moment = begin + timedelta(minutes=minutes)
        write_snapshot(tmp_path, make_snapshot(f"{n:012d}", published_at=moment))
    where = ("--snapshots", tmp_path, "snapshot", "ls")
    _, out, _ = trimtab(*where, "--json")
    assert [snapshot["snapshot_id"][-1] for snapshot in json.loads(out)] == ["3", "2", "1"]
    assert {snapshot["in_bytes_per_s"] for snapshot in json.loads(out)} == {40.0}
    _, out, _ = trimtab(*where, "--hourly", "--json")
    assert [snapshot["snapshot_id"][-1] for snapshot in json.loads(out)] == ["3", "1"]
    _, out, _ = trimtab(*where, "--hourly")
    assert out.split()[:7] == ["ID", "PUBLISHED", "SOURCE", "PARTITIONS", "IN", "OUT", "SIZE"]
    assert "40 B/s  5 B/s" in out
