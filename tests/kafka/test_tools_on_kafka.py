"""Our commands beside Kafka's own tools, on the same brokers."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from on_kafka import client_with
from waiting import eventually

from core.cli.main import run
from core.cluster.kafka.client import KafkaClient
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox

TOPIC = "tools.elected"


def ours(sandbox: Sandbox, capture: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Return exit code and stdout of one of our commands."""
    capture.readouterr()
    code = run(lambda context: None, ["-b", sandbox.bootstrap, *words])
    return code, capture.readouterr().out


def theirs(sandbox: Sandbox, tool: str, *words: str) -> str:
    """Return what one of Kafka's tools says."""
    done = sandbox.tool(
        f"org.apache.kafka.tools.{tool}", "--bootstrap-server", sandbox.bootstrap, *words
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def topic(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[KafkaClient, str]]:
    """Two partitions on 1 to 4, and nothing else that is ours."""
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path))
    with client_with(sandbox, {TOPIC: [(2, 1), (3, 4)]}) as client:
        yield client, TOPIC


def test_kafkas_tool_shows_the_leaders_that_trimtab_elected(
    sandbox: Sandbox, topic: tuple[KafkaClient, str], capfd: pytest.CaptureFixture[str]
) -> None:
    client, name = topic
    first = TopicPartition(name, 0)
    assert client.alter_reassignments({first: (1, 2)}) == {first: None}
    elections: list[dict[str, object]] = []

    def to_elect() -> bool:
        """A broker that has not heard of the new order knows of nothing to elect."""
        code, out = ours(sandbox, capfd, "elect", "--topics", name, "--yes", "--json")
        assert code == 0
        elections.extend(json.loads(out)["elections"])
        return bool(elections)

    eventually(to_elect)
    (election,) = elections
    assert (election["leader"], election["to"], election["outcome"]) == (2, 1, "elected")

    def leaders() -> list[str]:
        output = theirs(sandbox, "TopicCommand", "--describe", "--topic", name)
        return re.findall(r"Leader: (\d)", output)

    eventually(lambda: leaders() == ["1", "3"])


def test_kafkas_tool_shows_topics_that_trimtab_created_altered_and_deleted(
    sandbox: Sandbox, topic: tuple[KafkaClient, str], capfd: pytest.CaptureFixture[str]
) -> None:
    _, there = topic
    name = f"{there}.made"
    made = ("topics", "create", name, "--partitions", "2", "--rf", "2", "--yes", "--json")
    code, out = ours(sandbox, capfd, *made, "--config", "retention.ms=60000")
    assert code == 0
    wanted = json.loads(out)["partitions"]
    changed = ("--partitions", "3", "--set", "max.message.bytes=2000000", "--unset", "retention.ms")
    code, out = ours(sandbox, capfd, "topics", "alter", name, *changed, "--yes", "--json")
    assert code == 0
    wanted += json.loads(out)["added"]
    output = theirs(sandbox, "TopicCommand", "--describe", "--topic", name)
    assert re.findall(r"Replicas: ([\d,]+)", output) == [
        ",".join(map(str, p["replicas"])) for p in wanted
    ]
    configs = re.findall(r"Configs: ?(\S*)", output)[0].split(",")
    assert "max.message.bytes=2000000" in configs
    assert not [config for config in configs if config.startswith("retention.ms")]
    (description,) = json.loads(ours(sandbox, capfd, "topics", "describe", name, "--json")[1])
    assert re.findall(r"TopicId: (\S+)", output) == [description["id"]]
    assert re.findall(r"Isr: ([\d,]+)", output) == [
        ",".join(map(str, p["isr"])) for p in description["partitions"]
    ]
    assert ours(sandbox, capfd, "topics", "delete", name, "--yes")[0] == 0
    assert name not in theirs(sandbox, "TopicCommand", "--list").split()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafkas_tool_shows_the_same_group_offsets_and_members_as_trimtab(
    sandbox: Sandbox,
    topic: tuple[KafkaClient, str],
    capfd: pytest.CaptureFixture[str],
    protocol: str,
) -> None:
    from confluent_kafka import Consumer, Producer

    _, name = topic
    id = f"tools.{protocol}"
    producer = Producer({"bootstrap.servers": sandbox.bootstrap})
    for number in range(20):
        producer.produce(name, b"x", partition=number % 2)
    producer.flush()
    consumer = Consumer(
        {
            "bootstrap.servers": sandbox.bootstrap,
            "group.id": id,
            "group.protocol": protocol,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([name])
        read: list[object] = []

        def all_read() -> bool:
            if (message := consumer.poll(0.2)) is not None:
                read.append(message)
            return len(read) == 20

        eventually(all_read)
        consumer.commit(asynchronous=False)
        producer.produce(name, b"late", partition=1)
        producer.flush()
        code, out = ours(sandbox, capfd, "groups", id, "--json")
        output = theirs(sandbox, "consumer.group.ConsumerGroupCommand", "--describe", "--group", id)
    finally:
        consumer.close()
    (group,) = json.loads(out)
    assert (code, group["state"], group["protocol"], group["lag"]) == (0, "stable", protocol, 1)
    lines = [line.split() for line in output.splitlines() if line.startswith(id)]
    host = group["members"][0]["host"]
    keys = ("partition", "committed", "end", "lag", "member")
    assert sorted(line[:8] for line in lines) == [
        [id, name, *(str(p[key]) for key in keys), host] for p in group["partitions"]
    ]


def test_a_share_group_is_listed_as_kafkas_tool_lists_it(
    sandbox: Sandbox, topic: tuple[KafkaClient, str], capfd: pytest.CaptureFixture[str]
) -> None:
    from confluent_kafka import Producer

    client, name = topic
    id = "tools.share"
    ends = ("--max-messages", "1", "--timeout-ms", "20000")
    consumer = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    words = ("--bootstrap-server", sandbox.bootstrap, "--topic", name, "--group", id, *ends)
    reading = threading.Thread(target=sandbox.tool, args=(consumer, *words))
    reading.start()
    try:
        eventually(
            lambda: [g.id for g in client.describe_active_groups(10).other_groups] == [id],
            every=0.2,
        )
        code, out = ours(sandbox, capfd, "groups", id, "--json")
        output = theirs(sandbox, "GroupsCommand", "--list")
    finally:
        producer = Producer({"bootstrap.servers": sandbox.bootstrap})
        producer.produce(name, b"ends it")
        producer.flush()
        reading.join()
    (group,) = json.loads(out)
    assert (code, group["protocol"], group["lag"]) == (0, "share", None)
    assert [id, "Share", "share"] in [line.split() for line in output.splitlines()]
