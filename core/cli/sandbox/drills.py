"""`trimtab sandbox kill, stop, start, consumer, skew, fill`: faults made on purpose."""

from __future__ import annotations

import shlex
from typing import Any

import click

from core.cli.common.options import Command, json_option
from core.cli.common.output import emit, print_lines, say_warnings
from core.cluster.connect import Address, connect
from core.cluster.drills import full_disk
from core.cluster.drills.drill import (
    SKEW_TIMES,
    Drill,
    DrillKind,
    broker_drill,
    disk_drill,
    group_drill,
    node_drill,
    skew_drills,
)
from core.cluster.sandbox.logins import Way
from core.cluster.sandbox.nodes import Role
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload_spec import read_overrides, topic_names
from core.errors import UsageError

name_option = click.option(
    "--name",
    default="default",
    show_default=True,
    help="Name of the sandbox; several can run at the same time.",
)
node_argument = click.argument("node", type=int, metavar="ID")


def _node_command(kind: DrillKind, help: str) -> click.Command:
    @click.command(kind.value, cls=Command, help=help)
    @node_argument
    @name_option
    @json_option
    def command(node: int, name: str, as_json: bool) -> None:
        sandbox = Sandbox.open(name)
        of = sandbox.node(node)
        is_broker = of.role is Role.BROKER
        drill = broker_drill(kind, node) if is_broker else node_drill(kind, of.words, node)
        _apply_drill(sandbox, drill)
        show_sandbox(Sandbox.open(name), as_json)

    return command


kill = _node_command(DrillKind.KILL, "Kill a node with SIGKILL, as a power failure would.")
stop = _node_command(
    DrillKind.STOP, "Shut down a node in a controlled way, moving its leaders first."
)
start = _node_command(DrillKind.START, "Start a stopped or killed node and wait until it answers.")


@click.command(cls=Command)
@click.argument("group")
@name_option
@click.option("--undo", is_flag=True, help="Remove the consumer again.")
@json_option
def consumer(group: str, name: str, undo: bool, as_json: bool) -> None:
    """Add a consumer to a group of the running load."""
    drill = group_drill(DrillKind.LEAVE if undo else DrillKind.JOIN, group)
    _run_drill(Sandbox.open(name), drill, as_json)


@click.command(cls=Command)
@name_option
@click.option("--topic", metavar="TOPIC", help="Send more records to this topic.")
@click.option(
    "--broker",
    type=int,
    metavar="ID",
    help="Send more records to the partitions that this broker leads now.",
)
@click.option(
    "--times",
    type=click.FloatRange(1, 100),
    default=SKEW_TIMES,
    show_default=True,
    help="Multiplier for the record rate.",
)
@click.option("--undo", is_flag=True, help="Restore the former record rate.")
@json_option
def skew(
    name: str, topic: str | None, broker: int | None, times: float, undo: bool, as_json: bool
) -> None:
    """Multiply the records sent to a topic, or to a broker's leaders."""
    if undo + (topic is not None) + (broker is not None) != 1:
        raise UsageError("No target is given.", next="Give --topic, --broker or --undo.")
    sandbox = Sandbox.open(name)
    if undo:
        now = read_overrides(sandbox.overrides_path).skew
        drill = Drill(DrillKind.EVEN, "all topics" if now is None else now.of)
    else:
        drill = _skew_drill(sandbox, topic, broker, times)
    _run_drill(sandbox, drill, as_json)


@click.command(cls=Command)
@node_argument
@name_option
@click.option("--undo", is_flag=True, help="Free the log dir again and restart the broker.")
@json_option
def fill(node: int, name: str, undo: bool, as_json: bool) -> None:
    """Fail a broker's second log dir as if its disk were full; no space is used."""
    sandbox = Sandbox.open(name)
    kind = DrillKind.EMPTY if undo else DrillKind.FILL
    drill = disk_drill(kind, node, str(full_disk.log_dir_to_fill(sandbox.node(node))))
    _run_drill(sandbox, drill, as_json)


DRILLS = (kill, stop, start, consumer, skew, fill)


def _skew_drill(sandbox: Sandbox, topic: str | None, broker: int | None, times: float) -> Drill:
    if broker is not None:
        sandbox.node(broker)
    elif topic not in topic_names():
        known = ", ".join(sorted(topic_names()))
        raise UsageError(f"The load has no topic {topic!r}.", next=f"It has {known}.")
    with connect(Address(sandbox.admin_bootstrap, sandbox.command_config)) as connection:
        state = connection.client.describe_cluster()
    target = f"topic {topic}" if broker is None else f"what broker {broker} leads"
    for drill in skew_drills(state, topic_names(), times):
        if drill.on == target:
            return drill
    raise UsageError(f"No records are sent to {target}.", next="Choose another target.")


def _apply_drill(sandbox: Sandbox, drill: Drill) -> str | None:
    from core.cluster.drills.target import SandboxTarget
    from core.watch.timeline.publisher import run_drill

    say_warnings()
    return run_drill(SandboxTarget(sandbox), drill)


def _run_drill(sandbox: Sandbox, drill: Drill, as_json: bool) -> None:
    done = _apply_drill(sandbox, drill)
    if as_json:
        what = {"name": sandbox.name, "drill": drill.kind.value, "on": drill.on}
        emit({**what, "broker": drill.broker, "done": done is not None})
    elif done is None:
        print_lines("There was nothing to do.")
    else:
        print_lines(f"Sandbox {sandbox.name}: {done}.")


def document(sandbox: Sandbox) -> dict[str, Any]:
    """Return the sandbox as `--json` shows it."""
    return {
        "name": sandbox.name,
        "kafka": sandbox.kafka,
        "cluster_id": sandbox.cluster_id,
        "bootstrap": sandbox.bootstrap,
        "folder": str(sandbox.folder),
        "nodes": [
            {
                "id": node.id,
                "role": node.role.value,
                "rack": node.rack,
                "port": node.port,
                "tls_port": node.tls_port,
                "alive": (process := sandbox.process(node.id)) is not None,
                "pid": None if process is None else process.pid,
                "log": str(node.server_log),
            }
            for node in sandbox.nodes
        ],
        "logins": [
            {
                "principal": login.principal,
                "mechanism": login.way.mechanism,
                "bootstrap": login.bootstrap,
                "command_config": str(login.properties),
            }
            for login in sandbox.logins
        ],
    }


def show_sandbox(sandbox: Sandbox, as_json: bool) -> None:
    if as_json:
        emit(document(sandbox))
        return
    for node in sandbox.nodes:
        process = sandbox.process(node.id)
        rack = f"rack {node.rack}" if node.rack else ""
        state = "down" if process is None else f"pid {process.pid}"
        print_lines(f"{node.role.value:<14} {node.id:>4}  {node.address:<16} {rack:<7} {state}")
    if not sandbox.logins:
        print_lines(f"\ntrimtab -b {sandbox.bootstrap} --write")
        return
    print_lines(f"\nClient properties are in {sandbox.logins[0].properties.parent}:")
    for login in sandbox.logins:
        print_lines(f"  {login.properties.name:<26} -b {login.bootstrap}")
    shown = sandbox.login("operator", Way.SCRAM)
    properties = shlex.quote(str(shown.properties))
    print_lines(f"\ntrimtab -b {shown.bootstrap} --command-config {properties} --write")
