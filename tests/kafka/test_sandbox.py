"""Sandboxes: real brokers that come up, go down, crash, and leave nothing behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from waiting import eventually

from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.nodes import Role
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.daemons.process import Process, running_with
from core.errors import TrimtabError, UsageError
from tests.sandbox_data import fill

SIDE = f"side-{os.getpid()}"


@pytest.fixture(scope="module")
def side(sandbox: Sandbox) -> Iterator[Sandbox]:
    """A second, small sandbox beside the shared one."""
    yield Sandbox.up(SIDE, (7,))
    Sandbox.remove(SIDE)


def processes(sandbox: Sandbox) -> list[Process]:
    return running_with({str(node.properties) for node in sandbox.nodes})


def test_shared_sandbox_has_racks_and_a_separate_controller(sandbox: Sandbox) -> None:
    nodes = {node.id: (node.role, node.rack) for node in sandbox.nodes}
    assert nodes == {
        100: (Role.CONTROLLER, None),
        1: (Role.BROKER, "a"),
        2: (Role.BROKER, "b"),
        3: (Role.BROKER, "a"),
        4: (Role.BROKER, "b"),
    }
    assert all(sandbox.process(node.id) for node in sandbox.nodes)


def test_two_sandboxes_run_side_by_side(sandbox: Sandbox, side: Sandbox) -> None:
    assert {sandbox.name, SIDE} <= set(Sandbox.names())
    assert {n.port for n in sandbox.nodes}.isdisjoint(n.port for n in side.nodes)
    assert Sandbox.open(SIDE).bootstrap == side.bootstrap
    assert Sandbox.open(SIDE).cluster_id != sandbox.cluster_id


def test_running_sandbox_is_not_replaced_by_starting_it_once_more(side: Sandbox) -> None:
    with pytest.raises(UsageError, match="up already"):
        Sandbox.up(SIDE, (7,))
    assert all(side.process(node.id) for node in side.nodes)


def test_kafkas_own_tools_run_on_the_sandbox(side: Sandbox) -> None:
    create_topics(ConnectionSettings(side.bootstrap), {"told": [(7,)]})
    answer = side.tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", side.bootstrap, "--list"
    )
    assert (answer.returncode, answer.stdout.split(), answer.stderr) == (0, ["told"], "")


def test_brokers_write_a_server_log_and_a_state_change_log(side: Sandbox) -> None:
    create_topics(ConnectionSettings(side.bootstrap), {"logged": [(7,)]})
    log = side.node(7).server_log
    assert "started" in log.read_text().lower()
    changes = log.with_name("state-change.log")
    eventually(lambda: "logged" in changes.read_text())  # the broker hears of it afterwards


def test_killed_broker_is_restarted_with_its_data(side: Sandbox) -> None:
    settings = ConnectionSettings(side.bootstrap)
    create_topics(settings, {"kept": [(7,)]})
    side.kill(7)
    assert {node.id: side.process(node.id) is not None for node in side.nodes} == {
        100: True,
        7: False,
    }
    Sandbox.open(SIDE).start(7)
    fill(settings, {TopicPartition("kept", 0): 1_000})
    assert all(Sandbox.open(SIDE).process(node.id) for node in Sandbox.open(SIDE).nodes)


def test_cluster_is_described_while_its_controller_is_down(side: Sandbox) -> None:
    client = KafkaClient(ConnectionSettings(side.bootstrap))
    assert client.describe_cluster().controller == 100
    side.kill(100)
    state = client.describe_cluster()
    assert state.controller is None
    assert [broker.id for broker in state.brokers] == [7]
    Sandbox.open(SIDE).start(100)
    client.close()


def test_leftovers_of_a_crash_are_cleaned_up_when_the_sandbox_is_next_started(
    side: Sandbox,
) -> None:
    """The state file is lost and a node is half formatted, while processes still run."""
    left = processes(side)
    assert left
    (side.folder / "state.json").unlink()
    (side.node(7).log_dirs[0] / "meta.properties").write_text("half")
    again = Sandbox.up(SIDE, (7,))
    assert not any(process.alive for process in left)
    assert all(again.process(node.id) for node in again.nodes)


def test_broker_that_cannot_start_is_reported_with_its_log(sandbox: Sandbox) -> None:
    name = f"{SIDE}-broken"
    with pytest.raises(TrimtabError, match="could not be formatted|did not come up") as caught:
        Sandbox.up(name, (1,), overrides={"log.retention.bytes": "nonsense"})
    assert "log.retention.bytes" in caught.value.detail
    broken = Sandbox.open(name)
    assert not processes(broken)
    assert Sandbox.remove(name)


def test_a_recycled_pid_is_never_signalled() -> None:
    ours = Process.of(os.getpid())
    assert ours is not None
    assert ours.alive
    recycled = Process(os.getpid(), "another start")
    assert not recycled.alive
    assert not recycled.signal(signal.SIGKILL)


def test_down_ends_all_processes_and_removes_the_sandbox_folder(side: Sandbox) -> None:
    open_again = Sandbox.open(SIDE)
    left = processes(open_again)
    assert left
    open_again.down()
    assert not any(process.alive for process in left)
    assert not side.folder.exists()
    with pytest.raises(UsageError, match="no sandbox"):
        Sandbox.open(SIDE)
    assert not Sandbox.remove(SIDE)
