"""Suggested plans on real brokers, as Kafka's tool verifies them once they are carried out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from tests.sandbox_data import delete_topics, fill

TOPIC = "suggested"
LAYOUT = [[1, 2], [2, 3], [3, 4], [4, 1], [1, 4], [2, 1]]
RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[KafkaClient]:
    settings = ConnectionSettings(sandbox.bootstrap)
    create_topics(settings, {TOPIC: LAYOUT})
    fill(settings, {TopicPartition(TOPIC, p): 100_000 for p in range(len(LAYOUT))})
    client = KafkaClient(settings)
    yield client
    client.close()
    delete_topics(settings, [TOPIC])


class Played:
    """One suggestion after the other, carried out by `apply` and judged by Kafka's own tool."""

    def __init__(self, sandbox: Sandbox, client: KafkaClient, home: Path) -> None:
        self._sandbox, self._client, self._home = sandbox, client, home

    def suggested(self, *wanted: str) -> dict[int, tuple[int, ...]]:
        """Carry out what is suggested; return the topic's replicas then."""
        plan = self._home / "plan.json"
        found = self._trimtab("plan", "suggest", *wanted, "--topics", TOPIC, "--json")
        document = json.loads(found.stdout)
        assert document["reached"], document["notes"]
        plan.write_text(json.dumps(document["plan"]))
        allow = ("--allow", ",".join(document["allow"])) if document["allow"] else ()
        done = self._trimtab("apply", str(plan), "--throttle", "100MB/s", "--yes", *allow)
        assert done.returncode == 0, done.stdout + done.stderr
        verified = self._sandbox.tool(
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            *("--bootstrap-server", self._sandbox.bootstrap),
            *("--verify", "--preserve-throttles", "--reassignment-json-file", str(plan)),
        )
        planned = len(document["plan"]["partitions"])
        assert verified.stdout.count("is completed.") == planned, verified.stdout
        state = self._client.describe_cluster()
        return {p: state.replicas(row) for p, row in enumerate(state.partitions_of(TOPIC))}

    def _trimtab(self, *arguments: str) -> Any:
        run = "import sys; from core.cli.main import run; sys.exit(run(lambda context: None))"
        return subprocess.run(
            [sys.executable, "-P", "-c", run, "-b", self._sandbox.bootstrap, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


def test_drained_and_replaced_as_suggested(
    sandbox: Sandbox, client: KafkaClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    played = Played(sandbox, client, tmp_path)

    drained = played.suggested("--drain", "4")
    assert all(4 not in held and len(held) == 2 for held in drained.values())
    assert all({RACKS[b] for b in held} == {"a", "b"} for held in drained.values())

    replaced = played.suggested("--replace", "2:4")
    assert replaced == {p: tuple(4 if b == 2 else b for b in held) for p, held in drained.items()}


def test_a_replica_more_and_one_less_as_suggested(
    sandbox: Sandbox, client: KafkaClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    played = Played(sandbox, client, tmp_path)

    more = played.suggested("--rf", "3")
    assert all(len(set(held)) == 3 for held in more.values())
    assert all({RACKS[b] for b in held} == {"a", "b"} for held in more.values())

    fewer = played.suggested("--rf", "2")
    assert all(len(held) == 2 and set(held) < set(more[p]) for p, held in fewer.items())
    assert all({RACKS[b] for b in held} == {"a", "b"} for held in fewer.values())
