"""Runs Kafka's classes: servers that stay, tools that answer, and the class-data archive.

The archive (AppCDS) is made once for a Java and a Kafka version and shared by every sandbox: it
takes two seconds off a start on a small machine. Without one everything works, only slower.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core import files
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.librdkafka import create_admin_client
from core.cluster.sandbox.kafka_jars import classpath
from core.cluster.sandbox.nodes import (
    HOST,
    JVM_FLAGS,
    Node,
    Role,
    free_ports,
    jwks_file,
    logging_file,
    tool_logging_file,
)
from core.daemons.process import Process, spawn
from core.ivy import Report
from core.java import Java

_ARCHIVE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Launcher:
    """Java, the jars and the archive that go with them."""

    java: Java
    jars: Path
    archive: Path | None = None

    def server(self, node: Node) -> Process:
        """Start a node; its output goes to `node.output`."""
        if node.role is Role.TOKENS:
            module = (sys.executable, "-P", "-m", "core.cluster.sandbox.token_endpoint")
            return spawn([*module, str(node.properties)], output=node.output)
        root = node.folder.parent
        flags = (
            f"-Dlog4j2.configurationFile={logging_file(root)}",
            f"-Dtrimtab.logs={node.folder / 'logs'}",
            *_token_flags(root),
        )
        command = [*self._command(flags), "kafka.Kafka", str(node.properties)]
        return spawn(command, output=node.output)

    def format(self, nodes: Sequence[Node], cluster_id: str) -> list[str]:
        """Format the storage of these nodes side by side; returns what failed, none is good."""
        flags = (f"-Dlog4j2.configurationFile={tool_logging_file(nodes[0].folder.parent)}",)
        format = ("kafka.tools.StorageTool", "format", "-t", cluster_id)
        running = [
            subprocess.Popen(
                [*self._command(flags), *format, "-c", str(node.properties)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            for node in nodes
        ]
        outputs = [process.communicate()[0] for process in running]
        return [
            f"node {node.id}: {text.strip()}"
            for node, process, text in zip(nodes, running, outputs, strict=True)
            if process.returncode != 0
        ]

    def tool(
        self, root: Path, class_name: str, *arguments: str, seconds: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's own tools to its end; raises TimeoutExpired."""
        flags = (f"-Dlog4j2.configurationFile={tool_logging_file(root)}",)
        return subprocess.run(
            [*self._command(flags), class_name, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def _command(self, flags: Sequence[str]) -> list[str]:
        shared = (f"-XX:SharedArchiveFile={self.archive}",) if self.archive else ()
        # A warning about an archive that does not fit must not get between a tool and its reader.
        quiet = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
        path = ("-cp", classpath(self.jars))
        return [str(self.java.path), *JVM_FLAGS, *shared, *quiet, *flags, *path]


def create_launcher(java: Java, jars: Path, say: Report) -> Launcher:
    """Return a launcher with the archive for this Java and these jars, made when missing."""
    plain = Launcher(java, jars)
    version = re.sub(r"[^A-Za-z0-9.]", "_", java.version)
    archive = jars.with_name(f"{jars.name}-java-{version}.jsa")
    if not archive.exists():
        with files.locked(archive.with_suffix(".lock")):
            if not archive.exists():
                say("Preparing a class archive for faster starts (once)…")
                _make_archive(plain, archive)
    return Launcher(java, jars, archive) if archive.exists() else plain


def _make_archive(plain: Launcher, archive: Path) -> None:
    """Run one combined node from start to end, which writes the archive as it exits."""
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="archive-") as work:
        broker, controller = free_ports(2)
        node = Node(1, Role.BROKER, broker, None, Path(work) / "node")
        (node.folder / "logs").mkdir(parents=True)
        logging_file(Path(work)).write_text("rootLogger.level = error\n")
        tool_logging_file(Path(work)).write_text("rootLogger.level = error\n")
        node.properties.write_text(
            f"process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@{HOST}:{controller}\n"
            f"controller.listener.names=CONTROLLER\n"
            f"listeners=PLAINTEXT://{HOST}:{broker},CONTROLLER://{HOST}:{controller}\n"
            f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"log.dirs={node.log_dirs[0]}\n"
            f"log.cleaner.dedupe.buffer.size=8388608\n"
            f"offsets.topic.replication.factor=1\n"
        )
        if plain.format([node], "trimtab-archive-000000"):
            return
        new_archive = Path(work) / "classes.jsa"
        command = plain._command((f"-XX:ArchiveClassesAtExit={new_archive}",))
        process = spawn([*command, "kafka.Kafka", node.properties], output=node.output)
        try:
            if wait_for_answer(node, process, _ARCHIVE_SECONDS, ConnectionSettings(node.address)):
                process.signal(signal.SIGTERM)
                process.wait(_ARCHIVE_SECONDS)
        finally:
            process.stop()
        if new_archive.exists():
            new_archive.rename(archive)


def _token_flags(root: Path) -> tuple[str, ...]:
    """Return what brokers need to check tokens: the file and its URL have to be allowed."""
    keys, package = jwks_file(root), "org.apache.kafka.sasl.oauthbearer"
    allowed = {"urls": keys.as_uri(), "files": str(keys)} if keys.exists() else {}
    return tuple(f"-D{package}.allowed.{kind}={value}" for kind, value in allowed.items())


def wait_for_answer(
    node: Node, process: Process, seconds: float, settings: ConnectionSettings
) -> bool:
    """Return whether a node answers within `seconds`: a broker as a member, others at all.

    `settings` are how a broker is reached, at its address alone.
    """
    deadline = time.monotonic() + seconds
    members = poll_members(settings) if node.role is Role.BROKER else None
    while process.alive and time.monotonic() < deadline:
        if (node.id in next(members)) if members is not None else listens(node):
            return True
        time.sleep(0.1)
    return False


def listens(node: Node) -> bool:
    """Return whether anybody takes connections at a node's address."""
    try:
        with socket.create_connection((HOST, node.port), timeout=1):
            return True
    except OSError:
        return False


def poll_members(settings: ConnectionSettings) -> Iterator[frozenset[int]]:
    """Yield which brokers are in the cluster, as often as asked; none while nobody answers."""
    from confluent_kafka import KafkaException

    admin = create_admin_client(settings)
    try:
        while True:
            try:
                yield frozenset(admin.list_topics(timeout=1).brokers)
            except KafkaException:
                yield frozenset()
    finally:
        admin.close()
