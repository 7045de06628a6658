"""Log dirs on real brokers: suggested, carried out by `apply`, as Kafka's own tool verifies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from on_kafka import client_with, require_room, trimtab, verify
from waiting import eventually

from core.cluster.configs import LOG_DIRS_RATE, Resource
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox

TOPIC = "log-dirs"
PARTITIONS = 6
BYTES = 1_000_000


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[KafkaClient]:
    require_room(sandbox)
    with client_with(sandbox, {TOPIC: [[1, 2]] * PARTITIONS}, BYTES) as client:
        yield client


def placed(client: KafkaClient) -> dict[tuple[int, int], str]:
    """Return the log dir of each replica by partition and broker; none may be on its way."""
    log_dirs = {}
    for answer in client.describe_log_dirs([1, 2, 3, 4]):
        for log in answer.replicas:
            if log.topic == TOPIC:
                assert not log.future
                log_dirs[log.partition, answer.broker] = log.log_dir
    return log_dirs


def rates(client: KafkaClient) -> dict[Resource, Any]:
    configs = client.describe_configs([Resource.broker(b) for b in (1, 2, 3, 4)], [LOG_DIRS_RATE])
    assert not any(isinstance(answer, Fault) for answer in configs.values())
    return configs


def test_suggested_log_dir_moves_are_carried_out_and_verified_by_kafkas_tool(
    sandbox: Sandbox, client: KafkaClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    plan, unset = tmp_path / "plan.json", rates(client)
    (answer,) = client.describe_log_dirs([1])
    log_dir = answer.log_dirs[0].path
    # All replicas of broker 1 into one of its log dirs, by Kafka's protocol.
    client.alter_log_dirs({(TopicPartition(TOPIC, p), 1): log_dir for p in range(PARTITIONS)})

    def together() -> bool:
        (answer,) = client.describe_log_dirs([1])
        logs = [log for log in answer.replicas if log.topic == TOPIC]
        return len(logs) == PARTITIONS and {log.log_dir for log in logs} == {log_dir}

    eventually(together)
    before = placed(client)

    suggest = ("plan", "suggest", "--disks", "--brokers", "1", "--topics", TOPIC, "--json")
    suggestion = trimtab(sandbox.bootstrap, *suggest)
    document = json.loads(suggestion.stdout)
    assert document["moves"] >= 2, document
    plan.write_text(json.dumps(document["plan"]))
    done = trimtab(sandbox.bootstrap, "apply", str(plan), "--throttle", "5MB/s", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    output = verify(sandbox, plan)
    moved = [f"{r['topic']}-{r['partition']}-{r['broker']}" for r in document["reasons"]]
    for replica in moved:
        assert f"Reassignment of replica {replica} completed successfully." in output
    assert trimtab(sandbox.bootstrap, "verify", str(plan)).returncode == 0
    after = placed(client)
    assert sum(after[key] != before[key] for key in before) == document["moves"]
    assert rates(client) == unset

    # One replica back, the other to another broker, there into a log dir of our choice.
    (answer,) = client.describe_log_dirs([4])
    other = answer.log_dirs[1].path
    row = document["plan"]["partitions"][0]
    row |= {"replicas": [1, 4], "log_dirs": [log_dir, other]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    done = trimtab(sandbox.bootstrap, "apply", str(plan), "--throttle", "50MB/s", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    output = verify(sandbox, plan)
    for broker in (1, 4):
        replica = f"{TOPIC}-{row['partition']}-{broker}"
        assert f"Reassignment of replica {replica} completed successfully." in output
    assert placed(client)[row["partition"], 4] == other
    assert rates(client) == unset
