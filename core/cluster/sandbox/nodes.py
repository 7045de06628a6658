"""A sandbox's nodes and their files: properties, logging, JVM flags."""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType

from core import files

HOST = "127.0.0.1"
FIRST_CONTROLLER, TOKEN_ENDPOINT = 100, 200
"""The ids of nodes that are no brokers."""
ADMIN = "admin"
"""Who brokers are to each other in a secured sandbox, and who may do everything there."""
SCRAM = "SCRAM-SHA-512"
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
    """Brokers hold data; controllers are apart, so that any broker may be killed.

    A secured sandbox has an endpoint beside them that gives clients their tokens.
    """

    BROKER = "broker"
    CONTROLLER = "controller"
    TOKENS = "token-endpoint"


@dataclass(frozen=True, slots=True)
class Node:
    """One process of a sandbox."""

    id: int
    role: Role
    port: int
    rack: str | None
    folder: Path
    tls_port: int | None = None
    """Where a secured broker takes those who show a certificate; at `port` they log in."""

    @property
    def words(self) -> str:
        """Return what it is called in a sentence."""
        return f"{self.role.value.replace('-', ' ')} {self.id}"

    @property
    def properties(self) -> Path:
        """Return its configuration, which also marks its process on the command line."""
        return self.folder / "server.properties"

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        count = {Role.BROKER: 2, Role.CONTROLLER: 1, Role.TOKENS: 0}[self.role]
        return tuple(self.folder / f"disk-{number + 1}" for number in range(count))

    @property
    def server_log(self) -> Path:
        return self.output if self.role is Role.TOKENS else self.folder / "logs" / "server.log"

    @property
    def output(self) -> Path:
        return self.folder / "logs" / "output.log"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def admin_address(self) -> str:
        """Return where the sandbox itself, and the other brokers, reach it."""
        return self.address if self.tls_port is None else f"{HOST}:{self.tls_port}"


def plan_nodes(
    folder: Path, broker_ids: Sequence[int], *, racks: int, controllers: int, secured: bool = False
) -> tuple[Node, ...]:
    """Return the nodes, controllers first; racks `a`, `b`, … go round, 0 means none."""
    ports = iter(free_ports(len(broker_ids) * (1 + secured) + controllers + secured))
    nodes = [
        Node(id, Role.CONTROLLER, next(ports), None, folder / f"controller-{id}")
        for id in range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
    ]
    for place, id in enumerate(broker_ids):
        rack = chr(ord("a") + place % racks) if racks else None
        port, tls_port = next(ports), next(ports) if secured else None
        nodes.append(Node(id, Role.BROKER, port, rack, folder / f"broker-{id}", tls_port))
    if secured:
        endpoint = folder / Role.TOKENS.value
        nodes.append(Node(TOKEN_ENDPOINT, Role.TOKENS, next(ports), None, endpoint))
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


def write_files(
    nodes: Sequence[Node],
    overrides: Mapping[str, str],
    shared: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write every node's properties and the logging configurations beside them.

    `overrides` go to brokers only, `shared` to all nodes.
    """
    root = nodes[0].folder.parent
    root.mkdir(parents=True, exist_ok=True)
    logging_file(root).write_text(_LOGGING)
    tool_logging_file(root).write_text(_TOOL_LOGGING)
    for node in nodes:
        (node.folder / "logs").mkdir(parents=True)
        for log_dir in node.log_dirs:
            log_dir.mkdir()
        write_properties(node.properties, node_properties(node, nodes, overrides) | dict(shared))


def write_properties(path: Path, entries: Mapping[str, str]) -> None:
    """Write a properties file for its owner only, as Java reads it."""
    lines = (f"{key}={_escape(value)}\n" for key, value in entries.items())
    files.write_text(path, "".join(lines), durable=False)


def _escape(value: str) -> str:
    plain = value.replace("\\", "\\\\").encode("utf-16-be")
    units = (int.from_bytes(plain[at : at + 2], "big") for at in range(0, len(plain), 2))
    return "".join(chr(unit) if 0x20 <= unit <= 0x7E else f"\\u{unit:04x}" for unit in units)


def logging_file(root: Path) -> Path:
    return root / "log4j2.properties"


def tool_logging_file(root: Path) -> Path:
    return root / "tool-log4j2.properties"


def authority_file(root: Path) -> Path:
    """Return the certificate that all others of a secured sandbox are signed with, PEM."""
    return root / "security" / "ca.pem"


def certificate_file(root: Path, name: str) -> Path:
    """Return somebody's private key and certificate in one file, PEM."""
    return root / "security" / f"{name}.pem"


def token_key_file(root: Path) -> Path:
    """Return the private key that tokens are signed with, PEM."""
    return root / "security" / "tokens.pem"


def jwks_file(root: Path) -> Path:
    """Return the public key that brokers check tokens with, as a JSON Web Key Set."""
    return root / "security" / "jwks.json"


def node_properties(
    node: Node, nodes: Sequence[Node], overrides: Mapping[str, str]
) -> dict[str, str]:
    """Return one node's configuration; `overrides` go to brokers only."""
    secured = any(other.role is Role.TOKENS for other in nodes)
    if node.role is Role.TOKENS:
        return {"port": str(node.port), "key": str(token_key_file(node.folder.parent))}
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
        **(_secured_listeners(node) if secured else _plain_listeners(node)),
    }
    if node.role is Role.CONTROLLER:
        return common
    replicated = str(min(3, brokers))
    rack = {"broker.rack": node.rack} if node.rack else {}
    return (
        common
        | rack
        | {
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


def _plain_listeners(node: Node) -> dict[str, str]:
    if node.role is Role.CONTROLLER:
        return {
            "listeners": f"CONTROLLER://{node.address}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        }
    return {
        "listeners": f"PLAINTEXT://{node.address}",
        "advertised.listeners": f"PLAINTEXT://{node.address}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }


def _secured_listeners(node: Node) -> dict[str, str]:
    """Return listeners that take nobody unknown; nodes know each other by certificate."""
    root = node.folder.parent
    common = {
        "listener.security.protocol.map": "CONTROLLER:SSL,SASL_SSL:SASL_SSL,SSL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate_file(root, ADMIN)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority_file(root)),
        "listener.name.controller.ssl.client.auth": "required",
        # Controllers authorize what brokers pass on to them, by the same ACLs.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:CN={ADMIN}",
    }
    if node.role is Role.CONTROLLER:
        return common | {"listeners": f"CONTROLLER://{node.address}"}
    listeners = f"SASL_SSL://{node.address},SSL://{node.admin_address}"
    login, package = "listener.name.sasl_ssl", "org.apache.kafka.common.security"
    return common | {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "SSL",
        "listener.name.ssl.ssl.client.auth": "required",
        f"{login}.sasl.enabled.mechanisms": f"{SCRAM},OAUTHBEARER",
        f"{login}.scram-sha-512.sasl.jaas.config": f"{package}.scram.ScramLoginModule required;",
        f"{login}.oauthbearer.sasl.jaas.config": (
            f"{package}.oauthbearer.OAuthBearerLoginModule required;"
        ),
        f"{login}.oauthbearer.sasl.server.callback.handler.class": (
            f"{package}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": jwks_file(root).as_uri(),
    }
