"""A sandbox's nodes and their files: properties, logging, JVM flags."""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

HOST = "127.0.0.1"
FIRST_CONTROLLER = 100
JVM_FLAGS = (
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)
# Below the ports that systems give to outgoing connections, so that none of those takes ours.
_PORTS = range(20_000, 32_000)

_LOGGING = """status = error
appender.server.type = RollingFile
appender.server.name = server
appender.server.fileName = ${sys:trimtab.logs}/server.log
appender.server.filePattern = ${sys:trimtab.logs}/server.log.%i
appender.server.layout.type = PatternLayout
appender.server.layout.pattern = [%d] %p %m (%c)%n
appender.server.policies.type = SizeBasedTriggeringPolicy
appender.server.policies.size = 20MB
appender.server.strategy.type = DefaultRolloverStrategy
appender.server.strategy.max = 2
appender.state.type = File
appender.state.name = state
appender.state.fileName = ${sys:trimtab.logs}/state-change.log
appender.state.layout.type = PatternLayout
appender.state.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.server.ref = server
logger.state.name = state.change.logger
logger.state.level = info
logger.state.additivity = false
logger.state.appenderRef.state.ref = state
"""

_TOOL_LOGGING = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %m%n
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
"""


class Role(Enum):
    """Brokers hold data; controllers are apart, so that any broker may be killed."""

    BROKER = "broker"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Node:
    """One process of a sandbox."""

    id: int
    role: Role
    port: int
    rack: str | None
    folder: Path

    @property
    def properties(self) -> Path:
        """Return its configuration, which also marks its process on the command line."""
        return self.folder / "server.properties"

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        names = ("disk-1", "disk-2") if self.role is Role.BROKER else ("disk-1",)
        return tuple(self.folder / name for name in names)

    @property
    def server_log(self) -> Path:
        return self.folder / "logs" / "server.log"

    @property
    def output(self) -> Path:
        return self.folder / "logs" / "output.log"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


def plan_nodes(
    folder: Path, broker_ids: Sequence[int], *, racks: int, controllers: int
) -> tuple[Node, ...]:
    """Return the nodes, controllers first; racks `a`, `b`, … go round, 0 means none."""
    ports = iter(free_ports(len(broker_ids) + controllers))
    nodes = [
        Node(id, Role.CONTROLLER, next(ports), None, folder / f"controller-{id}")
        for id in range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
    ]
    for place, id in enumerate(broker_ids):
        rack = chr(ord("a") + place % racks) if racks else None
        nodes.append(Node(id, Role.BROKER, next(ports), rack, folder / f"broker-{id}"))
    return tuple(nodes)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now; whoever uses one may still come too late."""
    with ExitStack() as held:
        ports: list[int] = []
        for port in random.sample(_PORTS, len(_PORTS)):
            probe = held.enter_context(socket.socket())
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return ports
    raise OSError("no free port")


def write_files(nodes: Sequence[Node], overrides: Mapping[str, str]) -> None:
    """Write every node's properties and the logging configurations beside them."""
    root = nodes[0].folder.parent
    root.mkdir(parents=True, exist_ok=True)
    logging_file(root).write_text(_LOGGING)
    tool_logging_file(root).write_text(_TOOL_LOGGING)
    for node in nodes:
        (node.folder / "logs").mkdir(parents=True)
        for log_dir in node.log_dirs:
            log_dir.mkdir()
        lines = (
            f"{key}={value}\n" for key, value in node_properties(node, nodes, overrides).items()
        )
        node.properties.write_text("".join(lines))


def logging_file(root: Path) -> Path:
    return root / "log4j2.properties"


def tool_logging_file(root: Path) -> Path:
    return root / "tool-log4j2.properties"


def node_properties(
    node: Node, nodes: Sequence[Node], overrides: Mapping[str, str]
) -> dict[str, str]:
    """Return one node's configuration; `overrides` go to brokers only."""
    voters = ",".join(f"{n.id}@{n.address}" for n in nodes if n.role is Role.CONTROLLER)
    brokers = sum(n.role is Role.BROKER for n in nodes)
    common = {
        "process.roles": node.role.value,
        "node.id": str(node.id),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "log.dirs": ",".join(str(path) for path in node.log_dirs),
        "auto.leader.rebalance.enable": "false",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "6000",
    }
    if node.role is Role.CONTROLLER:
        return common | {
            "listeners": f"CONTROLLER://{node.address}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        }
    replicated = str(min(3, brokers))
    rack = {"broker.rack": node.rack} if node.rack else {}
    return (
        common
        | rack
        | {
            "listeners": f"PLAINTEXT://{node.address}",
            "advertised.listeners": f"PLAINTEXT://{node.address}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "auto.create.topics.enable": "false",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": replicated,
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": replicated,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": replicated,
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # The default of 128 MB does not fit the small heap.
            "log.cleaner.dedupe.buffer.size": "8388608",
            "log.segment.delete.delay.ms": "1000",
        }
        | dict(overrides)
    )
