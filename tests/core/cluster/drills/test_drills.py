"""Faults made on purpose: only where a cluster was made for them, each with its way back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clusters import cluster

from core import files, paths
from core.cluster.connect import Address
from core.cluster.drills import full_disk
from core.cluster.drills.drill import Drill, DrillKind, DrillTarget, Offer, describe_drill
from core.cluster.drills.target import find_drill_target
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox import folder as folders
from core.cluster.sandbox.nodes import Node, Role, plan_nodes
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload_spec import (
    LoadOverrides,
    Skew,
    overrides_lease,
    read_overrides,
    write_overrides,
)
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.demo import demo_spec
from core.cluster.simulation.server import SimulatorServer
from core.cluster.state import ClusterState
from core.daemons.lease import hold_lease
from core.daemons.process import Process
from core.errors import UsageError

# -- where there is a way to any -------------------------------------------------------------------


def written_down(name: str, cluster_id: str) -> list[Node]:
    """Write a sandbox down whose nodes do not run, but for the first broker, which is us."""
    folder = paths.sandbox_dir(name)
    nodes = plan_nodes(folder, (1, 2), racks=0, controllers=1)
    for node in nodes:
        for log_dir in node.log_dirs:
            log_dir.mkdir(parents=True)
    first = next(node.id for node in nodes if node.role is Role.BROKER)
    state = folders.SandboxState(cluster_id, "4.3.1", True, nodes, {first: Process.this()})
    folders.write_state(folder, state)
    return [node for node in nodes if node.role is Role.BROKER]


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    return written_down("demo", "made-for-it")


@pytest.fixture
def ground(brokers: list[Node]) -> DrillTarget:
    target = find_drill_target(Address(brokers[0].address), "made-for-it")
    assert target is not None
    return target


@pytest.mark.parametrize("more", [(), (1,)])
def test_sandbox_is_recognised_by_broker_addresses_in_its_state_file(
    brokers: list[Node], more: tuple[int, ...]
) -> None:
    asked = ",".join(brokers[i].address for i in (0, *more))
    ground = find_drill_target(Address(asked), "made-for-it")
    assert ground is not None
    assert ground.name == "sandbox demo"
    local = asked.replace("127.0.0.1:", "localhost:")
    assert find_drill_target(Address(local), "made-for-it") is not None


def test_no_other_cluster_is_taken_for_a_sandbox(brokers: list[Node]) -> None:
    ours = brokers[0].address
    assert find_drill_target(Address(ours), "another") is None
    assert find_drill_target(Address("127.0.0.1:1"), "made-for-it") is None
    assert find_drill_target(Address(f"{ours},kafka.example.org:9092"), "made-for-it") is None
    assert find_drill_target(Address(f"{ours},"), "made-for-it") is None
    (paths.sandbox_dir("demo") / folders.STATE).unlink()
    assert find_drill_target(Address(ours), "made-for-it") is None


def test_drill_is_refused_when_its_sandbox_has_become_another_cluster(ground: DrillTarget) -> None:
    written_down("demo-2", "other")
    document = (paths.sandbox_dir("demo-2") / folders.STATE).read_text()
    files.write_text(paths.sandbox_dir("demo") / folders.STATE, document)
    with pytest.raises(UsageError, match="another cluster by now"):
        ground.run(Drill(DrillKind.KILL, "broker 1", 1))


def test_broker_start_is_refused_when_its_sandbox_has_gone(brokers: list[Node]) -> None:
    """As when a demo ends while a broker of it is being started."""
    sandbox = Sandbox.open("demo")
    folders.write_state(sandbox.folder, folders.SandboxState("newer", "4.3.1", True, (), {}))
    with pytest.raises(UsageError, match="has gone"):
        sandbox.start(2)


# -- what is offered on a sandbox ------------------------------------------------------------------


def offered(ground: DrillTarget, state: ClusterState) -> dict[DrillKind, Offer]:
    return {offer.kind: offer for offer in ground.offers(state)}


STATE = cluster({"orders-0": [1, 2], "orders-1": [2, 1], "clicks-0": [1, 2], "strange-0": [1, 2]})


def test_kill_stop_and_start_are_offered_by_whether_the_broker_process_runs(
    ground: DrillTarget,
) -> None:
    offers = offered(ground, STATE)
    assert [drill.broker for drill in offers[DrillKind.KILL].drills] == [1]
    assert [drill.broker for drill in offers[DrillKind.STOP].drills] == [1]
    assert [drill.broker for drill in offers[DrillKind.START].drills] == [2]


def test_skew_and_join_drills_report_that_no_load_runs(ground: DrillTarget) -> None:
    offers = offered(ground, STATE)
    for kind in (DrillKind.SKEW, DrillKind.JOIN):
        assert not offers[kind].drills
        assert "trimtab sandbox load" in offers[kind].why_not
    assert not {DrillKind.EVEN, DrillKind.LEAVE} & offers.keys()
    with pytest.raises(UsageError, match="No load runs on sandbox 'demo'"):
        ground.run(Drill(DrillKind.JOIN, "group billing", group="billing"))


def test_load_is_skewed_and_consumers_join_and_both_are_undone(ground: DrillTarget) -> None:
    wanted = Sandbox.open("demo").overrides_path
    with hold_lease(overrides_lease(wanted)):
        offers = offered(ground, STATE)
        names = [drill.on for drill in offers[DrillKind.SKEW].drills]
        assert names == [
            *("topic clicks", "topic orders"),
            *("what broker 1 leads", "what broker 2 leads"),
        ]
        ground.run(offers[DrillKind.SKEW].drills[-1])
        ground.run(offers[DrillKind.JOIN].drills[0])
        now = read_overrides(wanted)
        assert now.skew is not None
        assert now.skew.partitions == {TopicPartition("orders", 1)}
        assert now.more == {"billing": 1}
        offers = offered(ground, STATE)
        assert [drill.group for drill in offers[DrillKind.LEAVE].drills] == ["billing"]
        ground.run(offers[DrillKind.LEAVE].drills[0])
        assert describe_drill(offers[DrillKind.EVEN].drills[0]) == (
            "sent what broker 2 leads as much as before again"
        )
        assert ground.run(offers[DrillKind.EVEN].drills[0])
        assert not ground.run(offers[DrillKind.EVEN].drills[0])
        assert not {DrillKind.EVEN, DrillKind.LEAVE} & offered(ground, STATE).keys()
        with pytest.raises(UsageError, match="No consumer was added to group billing"):
            ground.run(Drill(DrillKind.LEAVE, "group billing", group="billing"))
        with pytest.raises(UsageError, match="The load has no group nobody"):
            ground.run(Drill(DrillKind.JOIN, "group nobody", group="nobody"))


def test_disk_is_full_only_while_writes_to_its_checkpoint_fail(brokers: list[Node]) -> None:
    node = brokers[0]
    before = sorted(full_disk.log_dir_to_fill(node).iterdir())
    full_disk.fill_disk(node)
    assert full_disk.is_full(node)
    written = full_disk.log_dir_to_fill(node) / full_disk.WRITTEN
    with pytest.raises(OSError, match="No space left on device"):
        written.write_text("0\n")
    # Kafka renames what it wrote, which may have been ours by then.
    written.rename(full_disk.log_dir_to_fill(node) / full_disk.CHECKPOINT)
    assert not full_disk.is_full(node)
    full_disk.empty_disk(node)
    assert sorted(full_disk.log_dir_to_fill(node).iterdir()) == before


def test_full_disk_is_offered_for_emptying_and_not_for_filling(
    brokers: list[Node], ground: DrillTarget
) -> None:
    assert [d.on for d in offered(ground, STATE)[DrillKind.FILL].drills] == [
        "log dir disk-2 of broker 1"
    ]
    full_disk.fill_disk(brokers[0])
    offers = offered(ground, STATE)
    assert not offers[DrillKind.FILL].drills
    assert [d.on for d in offers[DrillKind.EMPTY].drills] == ["log dir disk-2 of broker 1"]


def test_fill_drill_reports_why_it_is_unavailable_without_dev_full(
    ground: DrillTarget, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(full_disk, "DEV_FULL", tmp_path / "none")
    assert "has no /dev/full" in offered(ground, STATE)[DrillKind.FILL].why_not


# -- what a workload is told -----------------------------------------------------------------------


def test_workload_reads_the_overrides_that_were_written(tmp_path: Path) -> None:
    path = tmp_path / "workload.json"
    assert read_overrides(path) == LoadOverrides()
    skew = Skew("topic orders", 5.0, frozenset({TopicPartition("orders", 0)}))
    write_overrides(path, LoadOverrides(skew, {"billing": 2}))
    overrides = read_overrides(path)
    assert overrides == LoadOverrides(skew, {"billing": 2})
    assert overrides.times(TopicPartition("orders", 0)) == 5
    assert overrides.times(TopicPartition("orders", 1)) == 1


# -- on a simulated cluster ------------------------------------------------------------------------


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[SimulatorServer]:
    spec = replace(demo_spec(5, 6, 300), cluster_id="sim-1")
    server = SimulatorServer(SimulatedCluster(spec, 5), tmp_path / "s")
    server.start()
    yield server
    server.stop()


def test_simulator_is_a_drill_target_only_for_its_own_cluster_id(
    simulated: SimulatorServer,
) -> None:
    address = Address(f"sim:{simulated.path}")
    assert find_drill_target(address, "another") is None
    ground = find_drill_target(address, "sim-1")
    assert ground is not None
    assert ground.name == "the simulated cluster"
    ground.close()


def test_each_fault_of_a_simulated_cluster_can_be_undone(simulated: SimulatorServer) -> None:
    there = simulated.cluster
    ground = find_drill_target(Address(f"sim:{simulated.path}"), "sim-1")
    assert ground is not None

    def state() -> ClusterState:
        from core.cluster.log_dirs import with_log_dirs

        seen = there.describe_cluster()
        return with_log_dirs(seen, there.describe_log_dirs([b.id for b in seen.brokers if b.alive]))

    def do(kind: DrillKind, on: str) -> None:
        (drill,) = (d for d in offered(ground, state())[kind].drills if d.on == on)
        ground.run(drill)

    def down() -> list[int]:
        return [broker.id for broker in state().brokers if not broker.alive]

    assert not {DrillKind.START, DrillKind.EVEN, DrillKind.LEAVE, DrillKind.EMPTY} & (
        offered(ground, state()).keys()
    )
    do(DrillKind.KILL, "broker 2")
    assert down() == [2]
    do(DrillKind.START, "broker 2")
    assert down() == []

    def members() -> int:
        (group,) = there.describe_groups("billing")
        return len(group.members)

    before = members()
    do(DrillKind.JOIN, "group billing")
    assert members() == before + 1
    do(DrillKind.LEAVE, "group billing")
    assert members() == before

    do(DrillKind.FILL, "log dir 1 of broker 3")
    lost = next(broker for broker in state().brokers if broker.id == 3)
    assert [log_dir.error is None for log_dir in lost.log_dirs] == [True, False]
    do(DrillKind.EMPTY, "log dir 1 of broker 3")
    back = next(broker for broker in state().brokers if broker.id == 3)
    assert all(log_dir.error is None for log_dir in back.log_dirs)
    ground.close()


def test_simulated_skew_changes_only_its_partitions_from_start_to_clear() -> None:
    spec = demo_spec(5, 6, 300)
    there, even = SimulatedCluster(spec, 5), SimulatedCluster(spec, 5)
    for simulation in (there, even):
        simulation.advance(30)
    state = there.describe_cluster()
    orders = [state.tp(i) for i in range(state.partition_count) if state.tp(i).topic == "orders"]
    ours = np.array([state.tp(i) in set(orders) for i in range(state.partition_count)])
    began = there.now
    there.skew("topic orders", 4.0, orders)
    for simulation in (there, even):
        simulation.advance(30)
    ended = there.now
    there.clear_skew()
    for simulation in (there, even):
        simulation.advance(30)
    moments = [began.fromtimestamp(began.timestamp() + s, began.tzinfo) for s in (-1, 1, 31)]
    assert moments[1] < ended < moments[2]
    skewed, plain = there.produced_bytes_per_s(moments), even.produced_bytes_per_s(moments)
    assert np.array_equal(skewed[[0, 2]], plain[[0, 2]])
    assert np.allclose(skewed[1][ours], 4 * plain[1][ours])
    assert np.array_equal(skewed[1][~ours], plain[1][~ours])
    grown = there.describe_log_dirs([1])[0]
    assert sum(log.size_bytes for log in grown.replicas if log.topic == "orders") > (
        sum(
            log.size_bytes
            for log in even.describe_log_dirs([1])[0].replicas
            if log.topic == "orders"
        )
    )
