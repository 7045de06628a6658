"""Kafka's own tools say what a run has left: replicas in order, configs, what is complete."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chaos.layout import TOPICS, Targets, document
from waiting import eventually

from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox

_REPLICAS = re.compile(r"Topic: (\S+)\s+Partition: (\d+).*?Replicas: ([\d,]+)")


class Judges:
    """What Kafka's own tools say of one sandbox."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self._sandbox, self._verify = sandbox, folder / "verify.json"

    def completed(self, targets: Targets) -> int:
        """Return how many partitions Kafka's tool calls complete; it leaves throttles alone."""
        self._verify.write_text(document(targets))
        output = self._tool(
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            *("--verify", "--preserve-throttles", "--reassignment-json-file", str(self._verify)),
        )
        return output.count("is completed.")

    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the replicas in order, as Kafka's tool describes them."""
        output = self._tool("org.apache.kafka.tools.TopicCommand", "--describe")
        return {
            TopicPartition(topic, int(partition)): tuple(map(int, brokers.split(",")))
            for topic, partition, brokers in _REPLICAS.findall(output)
            if topic in TOPICS
        }

    def configs(self) -> str:
        """Return every config of topics and brokers that somebody set, as Kafka's tool says."""

        def describe_configs(kind: str) -> str:
            return self._tool("kafka.admin.ConfigCommand", "--describe", "--entity-type", kind)

        with ThreadPoolExecutor() as side_by_side:
            answers = list(side_by_side.map(describe_configs, ("topics", "brokers")))
        lines = [line.strip() for answer in answers for line in answer.splitlines() if line.strip()]
        return "\n".join(lines)

    def settle_configs(self) -> None:
        """Return once what was changed last is what Kafka's tool shows, twice alike."""
        eventually(lambda: self.configs() == self.configs())

    def _tool(self, name: str, *words: str) -> str:
        """Ask thrice: the tool gives up on a broker that comes up or goes down while it asks."""
        for _ in range(3):
            done = self._sandbox.tool(name, "--bootstrap-server", self._sandbox.bootstrap, *words)
            if done.returncode == 0:
                return done.stdout
            time.sleep(1.0)
        raise AssertionError(f"{name}: {done.stdout}{done.stderr}")
