"""What config.toml says that brokers carry is known wherever their cluster is looked at."""

from __future__ import annotations

import json
import queue
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from clusters import NOON
from in_process import Trimtab

from core.autopilot import daemon as service
from core.autopilot import switch as switches
from core.autopilot.settings import AutopilotSettings, Mode
from core.autopilot.switch import Switch
from core.cli.common.context import Target
from core.cli.runs.launch import LiveCluster, fetch_live_cluster
from core.cluster.connect import Address, Connection, connected_by
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.demo import demo_spec
from core.cluster.simulation.server import SimulatorServer
from core.cluster.state import ClusterState
from core.daemons.heartbeat import Readers
from core.daemons.service import Service
from core.errors import ExitCode, UnreachableError
from core.load.load import Load
from core.plan.copies import Side
from core.plan.formats.plan_file import format_plan_file
from core.plan.plan import Plan
from core.run.journal.records import Kind
from core.run.options import RunOptions, create_journal
from core.run.throttles.adaptive_rate import usual_bounds
from tui.feed.events import PictureChanged
from tui.feed.feed import Feed

MB = 1_000_000


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A simulated cluster that config.toml knows as `prod`; returns its address."""
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    server = SimulatorServer(SimulatedCluster(demo_spec(5, 6, 60), 5), tmp_path / "s", 1.0)
    server.start()
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        f'[clusters.prod]\nbootstrap = "sim:{server.path}"\n'
        'in_capacity = "125MB/s"\nout_capacity = "250MB/s"\n'
        '[clusters.dev]\nbootstrap = "sim:elsewhere"\nin_capacity = "1MB/s"\n'
    )
    yield f"sim:{server.path}"
    server.stop()


def target(**named: str) -> Target:
    nothing = dict.fromkeys(
        ("bootstrap", "cluster_name", "command_config", "from_file", "snapshots")
    )
    return Target.choose(**(nothing | named))  # type: ignore[arg-type]


def capacities(state: ClusterState) -> set[tuple[float | None, float | None]]:
    return {(b.in_capacity_bytes_per_s, b.out_capacity_bytes_per_s) for b in state.brokers}


@pytest.mark.parametrize(
    "words",
    [("--cluster", "prod"), ("-b", "ADDRESS"), ("-b", "ADDRESS", "--cluster", "prod")],
)
def test_configured_capacity_is_known_however_the_cluster_is_named(
    trimtab: Trimtab, address: str, words: tuple[str, ...]
) -> None:
    named = (address if word == "ADDRESS" else word for word in words)
    code, out, err = trimtab(*named, "show", "--json")
    assert code == 0, err
    assert {
        (b["in_capacity_bytes_per_s"], b["out_capacity_bytes_per_s"])
        for b in json.loads(out)["brokers"]
    } == {(125.0 * MB, 250.0 * MB)}


def test_capacity_that_is_not_configured_is_unknown(
    trimtab: Trimtab, address: str, tmp_path: Path
) -> None:
    (tmp_path / "config" / "config.toml").unlink()
    _, out, _ = trimtab("-b", address, "show", "--json")
    assert {b["in_capacity_bytes_per_s"] for b in json.loads(out)["brokers"]} == {None}


def test_configured_capacity_gives_an_unthrottled_estimate_a_duration(
    trimtab: Trimtab, address: str, tmp_path: Path
) -> None:
    state = fetch_live_cluster(Address(address)).state
    row = state.row(0)
    free = next(b.id for b in state.brokers if b.id not in row.replicas)
    plan = Plan(state.cluster_id).with_move(state, row.tp, row.replicas[-1], free)
    (tmp_path / "plan.json").write_text(format_plan_file(plan))
    words = ("estimate", str(tmp_path / "plan.json"), "--throttle", "unlimited", "--json")
    code, out, err = trimtab("--cluster", "prod", *words)
    assert code == 0, err
    assert json.loads(out)["seconds"] is not None


def test_apply_refuses_a_plan_that_exceeds_a_broker_capacity(
    trimtab: Trimtab, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker takes in all of its 125 MB/s, and is to get one replica more."""
    state = fetch_live_cluster(Address(address)).state
    row = state.row(0)
    racks = {broker.id: broker.rack for broker in state.brokers}
    old, new = next(
        (old, new)
        for old in row.replicas
        for new in racks.keys() - set(row.replicas)
        if racks[old] == racks[new]
    )
    rates = np.full(state.partition_count, 125.0 * MB / (state.replica_broker == new).sum())
    load = Load(rates, rates, rates, None, NOON)
    monkeypatch.setattr("core.cli.runs.launch.newest_load", lambda *_: load)
    plan = Plan(state.cluster_id).with_move(state, row.tp, old, new)
    (tmp_path / "plan.json").write_text(format_plan_file(plan))
    code, _, err = trimtab("--cluster", "prod", "apply", str(tmp_path / "plan.json"), "--yes")
    assert code == ExitCode.REFUSED
    assert f"capacity: Broker {new} ends at" in err


def test_adaptive_rate_bounds_use_the_configured_spare_capacity(address: str) -> None:
    chosen = target(cluster_name="prod").address
    assert chosen is not None
    state = fetch_live_cluster(chosen).state
    load = Load.unknown(state)
    rates = np.full(state.partition_count, 1000.0)
    busy = Load(rates, rates, load.messages_per_s, load.source, load.as_of)
    spare = usual_bounds(state, busy, Plan(state.cluster_id)).spare_bytes_per_s
    assert {side for _, side in spare} == {Side.LEADER, Side.FOLLOWER}
    assert max(spare.values()) < 250 * MB


def test_rollback_without_a_named_cluster_uses_the_configured_capacity(
    trimtab: Trimtab, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, cluster_id = Address(address), fetch_live_cluster(Address(address)).state.cluster_id
    with create_journal(where, cluster_id, Plan(cluster_id), RunOptions(1), None, at=NOON) as run:
        run.write(NOON, Kind.ENDED, {"outcome": "done", "why": ""})
    looked: list[ClusterState] = []

    def look(address: Address) -> LiveCluster:
        looked.append((picture := fetch_live_cluster(address)).state)
        return picture

    monkeypatch.setattr("core.cli.runs.launch.fetch_live_cluster", look)
    trimtab("runs", "rollback", "0101-120000", "--yes")
    assert [capacities(state) for state in looked] == [{(125.0 * MB, 250.0 * MB)}]


def test_dashboard_feed_uses_the_configured_capacity(address: str) -> None:
    feed, seen = Feed(target(cluster_name="prod"), start_load=False), queue.Queue[object]()
    feed.attach(seen.put)
    feed.start()
    try:
        while not isinstance(event := seen.get(timeout=30), PictureChanged):
            pass
    finally:
        feed.stop()
    assert capacities(event.state) == {(125.0 * MB, 250.0 * MB)}


def test_autopilot_uses_the_configured_capacity(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = target(cluster_name="prod").address
    assert chosen is not None
    settings = AutopilotSettings(mode=Mode.SUGGEST)
    cluster_id = fetch_live_cluster(Address(address)).state.cluster_id
    switches.write(Switch(cluster_id, "prod", chosen, settings, NOON, "ada"))
    flown: list[ClusterState] = []

    def run_autopilot(connection: Connection, switch: Switch, **_: object) -> None:
        assert switch.address == replace(chosen, name=None), "it is held to the cluster's id"
        flown.append(connection.client.describe_cluster())

    monkeypatch.setattr(service, "run_autopilot", run_autopilot)
    given = Namespace(cluster_id=cluster_id, bootstrap=address, command_config=None, timeout=None)
    root = Path(address.removeprefix("sim:")).parent
    service._run(Service(given, Event(), Readers(root, cluster_id)))
    assert [capacities(state) for state in flown] == [{(125.0 * MB, 250.0 * MB)}]


def test_connection_for_a_cluster_id_refuses_a_different_cluster_at_its_address(
    address: str,
) -> None:
    given = Namespace(cluster_id="mine", bootstrap=address, command_config=None, timeout=None)
    with connected_by(given) as connection, pytest.raises(UnreachableError, match="not mine"):
        connection.client.describe_cluster()
