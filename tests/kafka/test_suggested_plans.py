"""Suggested plans on real brokers, as Kafka's tool verifies them once they are carried out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from on_kafka import client_with, require_room, trimtab, verify

from core.cluster.kafka.client import KafkaClient
from core.cluster.sandbox.sandbox import Sandbox

TOPIC = "suggested"
LAYOUT = [[1, 2], [2, 3], [3, 4], [4, 1], [1, 4], [2, 1]]
RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[KafkaClient]:
    require_room(sandbox)
    with client_with(sandbox, {TOPIC: LAYOUT}, 100_000) as client:
        yield client


class PlanCheck:
    """One suggestion after the other, carried out by `apply` and judged by Kafka's own tool."""

    def __init__(self, sandbox: Sandbox, client: KafkaClient, home: Path) -> None:
        self._sandbox, self._client, self._home = sandbox, client, home

    def suggested(self, *request: str) -> dict[int, tuple[int, ...]]:
        """Carry out what is suggested; return the topic's replicas then."""
        plan = self._home / "plan.json"
        suggestion = trimtab(
            self._sandbox.bootstrap, "plan", "suggest", *request, "--topics", TOPIC, "--json"
        )
        document = json.loads(suggestion.stdout)
        assert document["reached"], document["notes"]
        plan.write_text(json.dumps(document["plan"]))
        allow = ("--allow", ",".join(document["allow"])) if document["allow"] else ()
        done = trimtab(
            self._sandbox.bootstrap, "apply", str(plan), "--throttle", "100MB/s", "--yes", *allow
        )
        assert done.returncode == 0, done.stdout + done.stderr
        verified = verify(self._sandbox, plan)
        planned = len(document["plan"]["partitions"])
        assert verified.count("is completed.") == planned, verified
        state = self._client.describe_cluster()
        return {p: state.replicas(row) for p, row in enumerate(state.partitions_of(TOPIC))}


def test_suggested_drain_and_broker_replacement_are_carried_out_and_verified(
    sandbox: Sandbox, client: KafkaClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    played = PlanCheck(sandbox, client, tmp_path)

    drained = played.suggested("--drain", "4")
    assert all(4 not in held and len(held) == 2 for held in drained.values())
    assert all({RACKS[b] for b in held} == {"a", "b"} for held in drained.values())

    replaced = played.suggested("--replace", "2:4")
    assert replaced == {p: tuple(4 if b == 2 else b for b in held) for p, held in drained.items()}


def test_suggested_increase_and_decrease_of_replication_factor_are_carried_out(
    sandbox: Sandbox, client: KafkaClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    played = PlanCheck(sandbox, client, tmp_path)

    more = played.suggested("--rf", "3")
    assert all(len(set(held)) == 3 for held in more.values())
    assert all({RACKS[b] for b in held} == {"a", "b"} for held in more.values())

    fewer = played.suggested("--rf", "2")
    assert all(len(held) == 2 and set(held) < set(more[p]) for p, held in fewer.items())
    assert all({RACKS[b] for b in held} == {"a", "b"} for held in fewer.values())
