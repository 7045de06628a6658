"""What an autopilot sees of a simulated cluster: others' moves, runs of this machine, its load."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from auto_help import publish
from run_help import TARGETS, TWO, Start, cluster, plan_of

from core import paths
from core.autopilot.guards import check_safety
from core.autopilot.history import DecisionHistory, Situation
from core.autopilot.observer import ClusterObserver, ConfigReader
from core.autopilot.settings import AutopilotSettings
from core.autopilot.switch import Switch
from core.cluster.capacity import Capacity
from core.cluster.connect import Address
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.errors import UnreachableError
from core.run.journal.journal import journal_path
from core.run.journal.records import Kind
from core.run.steps import Submit

SETTINGS = AutopilotSettings()


def reason_ids(observer: ClusterObserver) -> set[str]:
    observed = observer.look(SETTINGS)
    history = DecisionHistory().seeing(SETTINGS, observed)
    return {reason.id for reason in check_safety(Situation(SETTINGS, history, observed))}


@pytest.fixture
def client() -> SimulatedCluster:
    return cluster(TWO)


@pytest.fixture
def observer(client: SimulatedCluster, tmp_path: Path) -> ClusterObserver:
    cluster_id = client.describe_cluster().cluster_id
    return ClusterObserver(client, client.clock, cluster_id, tmp_path / "load")


def test_only_missing_or_stale_load_blocks_acting_on_a_quiet_cluster(
    observer: ClusterObserver, client: SimulatedCluster, tmp_path: Path
) -> None:
    assert reason_ids(observer) == {"no-load"}
    publish(tmp_path / "load", client)
    assert reason_ids(observer) == set()
    observed = observer.look(SETTINGS)
    assert observed.imbalance.outside
    client.clock.sleep(301)
    assert reason_ids(observer) == {"stale-load"}


def test_foreign_moves_and_broker_failures_are_observed(
    observer: ClusterObserver, client: SimulatedCluster
) -> None:
    client.alter_reassignments({TopicPartition("t", 0): (4, 2)})
    assert "foreign-move" in reason_ids(observer)
    client.stop_broker(2)
    client.clock.sleep(60)
    assert {"broker-down", "out-of-sync"} <= reason_ids(observer)


def test_running_and_ended_runs_are_observed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    client = cluster(TWO)
    cluster_id = client.describe_cluster().cluster_id
    run = start(client, plan_of(client, TARGETS))
    observer = ClusterObserver(client, client.clock, cluster_id, Path("/nowhere"))
    run.until(lambda step: isinstance(step, Submit))
    name = run.view().run
    observed = observer.look(SETTINGS)
    assert (observed.running, observed.died, observed.run_ended_at) == ((name,), (), None)
    assert reason_ids(observer) == {"run", "no-load"}
    assert observer.ended(name) is None
    run.to_the_end()
    observed = observer.look(SETTINGS)
    assert (observed.running, observed.died) == ((), ())
    assert observed.run_ended_at is not None
    back = client.clock.now() - timedelta(days=1)
    with monkeypatch.context() as set_back:
        set_back.setattr(client.clock, "now", lambda: back)
        assert observer.look(SETTINGS).run_ended_at == back
        set_back.setattr(client.clock, "now", lambda: back + timedelta(minutes=1))
        assert observer.look(SETTINGS).run_ended_at == back
    ended = observer.ended(name)
    assert ended.bytes == run.view().moved_bytes
    assert ended.text.startswith(f"Run {name} has ended (done): 40 MB copied in")
    gone = observer.ended("0101-000000")
    assert "not known any more" in gone.text


@pytest.mark.parametrize("changed", [True, False])
def test_dead_run_counts_as_ended_only_if_it_changed_nothing(start: Start, changed: bool) -> None:
    client = cluster(TWO)
    run = start(client, plan_of(client, TARGETS))
    cluster_id = client.describe_cluster().cluster_id
    observer = ClusterObserver(client, client.clock, cluster_id, Path("/nowhere"))
    run.journal.write(client.now, Kind.STARTED, {"pid": 2**30, "pid_started": "once"})
    if changed:
        run.until(lambda step: isinstance(step, Submit))
    name = run.view().run
    observed = observer.look(SETTINGS)
    ended = observer.ended(name)
    assert (observed.running, observed.died) == ((), (name,) if changed else ())
    if changed:
        assert observed.run_ended_at is None
        assert "dead-run" in reason_ids(observer)
        assert ended is None
    else:
        assert (ended.bytes, ended.ended_at) == (0.0, client.clock.now())
        assert "has ended (died)" in ended.text


def test_unreadable_journal_is_observed(
    observer: ClusterObserver, client: SimulatedCluster
) -> None:
    path = journal_path(client.describe_cluster().cluster_id, "0101-120000")
    path.parent.mkdir(parents=True)
    path.write_text("not a journal at all")
    assert "journal" in reason_ids(observer)


def test_read_only_setting_is_reread_from_config_at_each_observation(
    client: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "config_file", lambda: tmp_path / "config.toml")
    cluster_id = client.describe_cluster().cluster_id
    switch = Switch(cluster_id, "prod", Address("b:9092"), SETTINGS, client.clock.now(), "ada")
    configuration = ConfigReader(switch)
    observer = ClusterObserver(
        client, client.clock, cluster_id, Path("/nowhere"), configuration.read
    )

    def marked(*lines: str) -> bool:
        (tmp_path / "config.toml").write_text("\n".join(lines))
        return observer.look(SETTINGS).read_only

    (tmp_path / "config.toml").write_text("[clusters.prod]\nreadonly = true")
    assert "readonly" in ConfigReader(switch).read().error, "nobody knows what was meant"
    assert "readonly" in observer.look(SETTINGS).config_error
    (tmp_path / "config.toml").unlink()
    assert observer.look(SETTINGS).config_error.endswith("config.toml is gone.")
    assert not ConfigReader(switch).read().error, "there never was one"
    server = client.describe_cluster().brokers[-1].server
    assert not marked("[clusters.prod]", 'bootstrap = "b:9092"')
    assert marked("[clusters.prod]", 'bootstrap = "b:9092"', "read_only = true")
    assert marked("[clusters.prod"), "as it was, while that is not TOML"
    assert not marked("[clusters.other]", 'bootstrap = "c:9092"', "read_only = true")
    assert marked("[clusters.other]", 'bootstrap = "B:9092"', "read_only = true"), "by its address"
    assert marked("[clusters.other]", f'bootstrap = "{server}"', "read_only = true"), "by a broker"


def test_capacities_are_reread_from_config_at_each_observation(
    client: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "config_file", lambda: tmp_path / "config.toml")
    cluster_id = client.describe_cluster().cluster_id
    address = Address("b:9092", capacity=Capacity(7e6))
    switch = Switch(cluster_id, "prod", address, SETTINGS, client.clock.now(), "ada")
    observer = ClusterObserver(
        client, client.clock, cluster_id, Path("/nowhere"), ConfigReader(switch).read
    )

    def carried(*lines: str) -> set[tuple[float | None, float | None]]:
        (tmp_path / "config.toml").write_text("\n".join(lines))
        observed = observer.look(SETTINGS)
        capacities = {
            (b.in_capacity_bytes_per_s, b.out_capacity_bytes_per_s) for b in observed.state.brokers
        }
        known = observed.capacity
        assert capacities == {(known.in_bytes_per_s, known.out_bytes_per_s)}
        return capacities

    assert carried("[clusters.other") == {(7e6, None)}, "as it was set, while that is not TOML"
    of = ("[clusters.prod]", 'bootstrap = "b:9092"')
    assert carried(*of, 'in_capacity = "125MB/s"') == {(125e6, None)}
    assert carried(*of, 'in_capacity = "1GB/s"', 'out_capacity = "2GB/s"') == {(1e9, 2e9)}
    assert carried("[clusters.prod]") == {(1e9, 2e9)}, "not while it is wrong"
    assert carried() == {(None, None)}


def test_different_cluster_at_the_same_address_is_reported_as_unreachable(
    client: SimulatedCluster, tmp_path: Path
) -> None:
    observer = ClusterObserver(client, client.clock, "mine", tmp_path / "load")
    with pytest.raises(UnreachableError, match="not mine"):
        observer.look(SETTINGS)
