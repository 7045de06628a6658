"""The simulator's process publishes what its cluster carries, and ends with its owner."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import pytest
from simulated import small_spec
from waiting import eventually

from core import paths
from core.cluster.connect import connect
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.demo import demo_spec
from core.daemons.process import Process
from core.errors import UnreachableError, UsageError
from core.load.load import Source
from core.load.load_paths import snapshots
from core.load.load_source import newest_load, newest_snapshot
from core.load.simulated_load import SimulatedLoad, build_snapshot, build_window, window_starts
from core.load.simulator import Simulator, start_simulator
from core.load.snapshot.kept import read_kept
from core.load.snapshot.manifest import read_manifest
from core.load.windows import read_history

pytestmark = pytest.mark.long


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    simulator = start_simulator(3, 6, 120)
    yield simulator
    simulator.stop()


# -- what is published -----------------------------------------------------------------------------


def test_snapshot_gives_rates_of_partitions_and_totals_of_brokers() -> None:
    layout = {"t": [(1, 2), (2, 1)]}
    rates = {TopicPartition("t", 0): 6e6, TopicPartition("t", 1): 1e6}
    cluster = SimulatedCluster(small_spec(layout, in_bytes_per_s=rates))
    snapshot = build_snapshot(cluster, SimulatedLoad.of(cluster), 1)
    assert snapshot.source is Source.SIMULATED
    for horizon in ("5m", "1h", "24h"):
        for statistic in ("avg", "p95", "max"):
            rate = snapshot.rate("in_bytes_per_s", horizon, statistic)
            assert rate.tolist() == [6e6, 1e6]
    assert snapshot.rate("messages_per_s").tolist() == [6e3, 1e3]
    broker_1, broker_2 = snapshot.brokers
    assert (broker_1.leader_in_bytes_per_s, broker_1.follower_in_bytes_per_s) == (6e6, 1e6)
    assert (broker_2.leader_in_bytes_per_s, broker_2.follower_in_bytes_per_s) == (1e6, 6e6)
    assert (broker_1.out_bytes_per_s, broker_1.leaders, broker_1.replicas) == (6e6, 1, 2)
    assert broker_1.size_bytes == 200_000_000


def test_partition_on_a_stopped_broker_has_a_rate_of_zero() -> None:
    cluster = SimulatedCluster(small_spec({"t": [(1,), (2,)]}, in_bytes_per_s=1e6))
    cluster.stop_broker(1)
    cluster.advance(1)
    snapshot = build_snapshot(cluster, SimulatedLoad.of(cluster), 1)
    assert snapshot.rate("in_bytes_per_s").tolist() == [0.0, 1e6]


def test_load_follows_a_daily_rhythm_and_history_is_reproducible() -> None:
    cluster = SimulatedCluster(demo_spec(1, 6, 100), 1)
    picture = SimulatedLoad.of(cluster)
    starts = window_starts(cluster.now - timedelta(hours=24), cluster.now)
    assert starts == sorted(starts, reverse=True)
    assert 288 <= len(starts) <= 290
    totals = [
        build_window(cluster, picture, start).rates["in_bytes_per_s", "avg"].sum()
        for start in starts
    ]
    assert max(totals) / min(totals) > 1.5
    before = build_window(cluster, picture, starts[-1]).rates["in_bytes_per_s", "avg"]
    cluster.advance(60)
    again = build_window(cluster, SimulatedLoad.of(cluster), starts[-1]).rates[
        "in_bytes_per_s", "avg"
    ]
    assert np.array_equal(before, again)


# -- the process -----------------------------------------------------------------------------------


def test_a_started_simulator_answers_and_has_published(simulator: Simulator) -> None:
    connection = connect(simulator.address)
    state = connection.client.describe_cluster()
    assert (state.cluster_id, state.partition_count) == (simulator.cluster_id, 120)
    load = newest_load(state)
    assert load.source is Source.SIMULATED
    assert not np.isnan(load.in_bytes_per_s).any()
    root, orders = paths.load_root(), TopicPartition("orders", 0)
    eventually(lambda: len(read_history(root, state.cluster_id, 1)) >= 72)
    assert len(read_history(root, state.cluster_id, orders)) >= 72
    connection.client.close()


def test_simulator_publishes_hourly_snapshots_from_before_its_start(simulator: Simulator) -> None:
    root, cluster_id = paths.load_root(), simulator.cluster_id
    eventually(lambda: len(read_kept(root, cluster_id).snapshots) >= 7)
    hours = read_kept(root, cluster_id).hours
    assert len(hours) in (6, 7)  # the newest may have begun one more
    assert [snapshot.published_at.minute for snapshot in hours[:6]] == [0] * 6
    newest = read_manifest(root, cluster_id)
    assert newest is not None
    assert newest.published_at > hours[5].published_at
    folder = snapshots(root, cluster_id) / hours[0].snapshot_id
    assert folder.stat().st_mtime == hours[0].published_at.timestamp(), "retention goes by that"


def test_a_stopped_simulator_leaves_neither_socket_nor_snapshots(simulator: Simulator) -> None:
    simulator.stop()
    assert newest_snapshot(simulator.cluster_id) is None
    assert list(paths.runtime_dir().iterdir()) == []
    with pytest.raises(UnreachableError):
        connect(simulator.address)


def test_a_simulator_ends_with_its_owner() -> None:
    script = (
        "from core.load.simulator import start_simulator\n"
        "print(start_simulator(3, 3, 10).process.pid, flush=True)\n"
        "import os; os.kill(os.getpid(), 9)\n"
    )
    owner = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    pid = int(owner.stdout)
    eventually(lambda: Process.of(pid) is None)
    assert list(paths.runtime_dir().iterdir()) == []


def test_simulator_that_cannot_start_raises_an_error_naming_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UnreachableError, match=r"simulator\.log"):
        start_simulator()


@pytest.mark.parametrize(("brokers", "partitions", "speed"), [(2, 10, 1.0), (3, 0, 1.0), (3, 1, 0)])
def test_simulator_with_impossible_brokers_partitions_or_speed_is_refused(
    brokers: int, partitions: int, speed: float
) -> None:
    with pytest.raises(UsageError):
        start_simulator(0, brokers, partitions, speed)
