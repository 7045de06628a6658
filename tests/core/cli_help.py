"""The command line on a simulated cluster, in this process, with run processes of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from json_schemas import check_answer

from core import paths
from core.cli.main import run as command_line
from core.cluster.connect import Address, connect
from core.cluster.metadata import TopicPartition
from core.cluster.observer import fetch_cluster_state
from core.cluster.state import ClusterState
from core.load.simulator import start_simulator
from core.plan.formats.plan_file import format_plan_file
from core.plan.plan import Plan

SPEED = 30.0


class Here:
    """The command line on one simulated cluster, in this process; runs are processes."""

    def __init__(
        self, address: Address, snapshots: Path, home: Path, capture: pytest.CaptureFixture[str]
    ) -> None:
        self.address, self.snapshots, self.home, self._capture = address, snapshots, home, capture
        self.client = connect(address).client

    def __call__(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr of one command."""
        self._capture.readouterr()
        argv = ["-b", self.address.bootstrap, "--snapshots", str(self.snapshots)]
        argv += map(str, arguments)
        code = command_line(lambda context: None, argv)
        out, err = self._capture.readouterr()
        check_answer(argv, out)
        return code, out, err

    def state(self) -> ClusterState:
        return self.client.describe_cluster()

    def plan(self, *, moves: int = 2, skip: int = 0) -> Path:
        """Write a plan that moves the last replica of some partitions, smallest first."""
        state = fetch_cluster_state(self.client)
        order = state.partition_size_bytes.argsort(kind="stable")
        plan = Plan(state.cluster_id)
        racks = {broker.id: broker.rack for broker in state.brokers}
        for row in (state.row(int(index)) for index in order[skip:]):
            if len(plan) == moves:
                break
            last = row.replicas[-1]
            free = [b for b, r in racks.items() if r == racks[last] and b not in row.replicas]
            if len(row.isr) == len(row.replicas) and free:
                plan = plan.with_move(state, row.tp, last, free[0])
        path = self.home / f"plan-{skip}.json"
        path.write_text(format_plan_file(plan))
        return path

    def replicas(self, plan: Path) -> list[tuple[list[int], list[int]]]:
        """Return (now, planned) of a plan's partitions."""
        state = self.state()
        assignments = []
        for entry in json.loads(plan.read_text())["partitions"]:
            row = state.find(TopicPartition(entry["topic"], entry["partition"]))
            assert row is not None
            assignments.append((list(state.replicas(row)), entry["replicas"]))
        return assignments


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, Path]]:
    """Return a simulator's address, and where it publishes its load."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIMTAB_HOME", str(tmp_path_factory.mktemp("simulated")))
        simulator = start_simulator(seed=3, brokers=6, partitions=900, speed=SPEED)
        yield simulator.address, paths.load_root()
        simulator.stop()


@pytest.fixture
def here(
    simulated: tuple[Address, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Here]:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    here = Here(*simulated, tmp_path, capfd)
    yield here
    here.client.close()


FAST = ("--throttle", "2GB/s", "--yes", "--allow", "disk")
SLOW = ("--throttle", "100kB/s", "--yes", "--allow", "disk,never", "--detach", "--json")


def every_command(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Yield every command below `group` with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join((*words, name)), command
        if isinstance(command, click.Group):
            yield from every_command(command, (*words, name))


def with_option(group: click.Group, option: str) -> Iterator[str]:
    """Yield every command below `group` that has this option, and can be called alone."""
    for words, command in every_command(group):
        is_called = not isinstance(command, click.Group) or command.invoke_without_command
        if is_called and any(option in parameter.opts for parameter in command.params):
            yield words
