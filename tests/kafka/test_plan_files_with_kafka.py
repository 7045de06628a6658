"""Plan files between trimtab and Kafka's own ReassignPartitionsCommand, both ways."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from on_kafka import JUDGE, client_with
from waiting import eventually

from core.cluster.kafka.client import KafkaClient
from core.cluster.metadata import TopicPartition
from core.cluster.observer import fetch_cluster_state
from core.cluster.sandbox.sandbox import Sandbox
from core.errors import DocumentError
from core.plan.formats.plan_document import read_document
from core.plan.formats.plan_file import format_plan_file, read_plan, to_document
from core.plan.plan import Plan
from core.plan.verify import VerifyStatus, verify
from core.text.json_text import compact

TOPIC = "plan-files"
LAYOUT = [[1, 2], [2, 3], [3, 4]]
P0, P1, P2 = (TopicPartition(TOPIC, p) for p in range(3))


class KafkasTool:
    """Kafka's reassignment tool, run on the sandbox."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self._sandbox = sandbox
        self._folder = folder

    def run(self, *arguments: str, text: str = "", option: str = "--reassignment-json-file"):
        path = self._folder / "file.json"
        path.write_text(text)
        return self._sandbox.tool(
            JUDGE, "--bootstrap-server", self._sandbox.bootstrap, option, str(path), *arguments
        )


@pytest.fixture
def kafkas_tool(sandbox: Sandbox, tmp_path: Path) -> KafkasTool:
    return KafkasTool(sandbox, tmp_path)


@pytest.fixture(scope="module")
def client(sandbox: Sandbox) -> Iterator[KafkaClient]:
    with client_with(sandbox, {TOPIC: LAYOUT}, 200_000) as client:
        yield client


def wait_until_done(client: KafkaClient, targets) -> None:
    eventually(
        lambda: all(
            verdict.status is VerifyStatus.DONE
            for verdict in verify(client.describe_cluster(), targets)
        )
    )


def json_lines(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith("{")]


def without_log_dirs(text: str) -> str:
    """Return Kafka's JSON with `any` for the paths that it writes for what is in place now."""
    return re.sub(r'"/[^"]*"', '"any"', text)


def test_kafkas_tool_executes_our_plan_and_we_read_the_rollback_it_prints(client, kafkas_tool):
    state = client.describe_cluster()
    plan = Plan().with_move(state, P0, 2, 4).with_leader(state, P1, 3)

    executed = kafkas_tool.run("--execute", text=format_plan_file(plan))

    assert executed.returncode == 0, executed.stdout
    assert f"Successfully started partition reassignments for {P0},{P1}" in executed.stdout
    (rollback,) = json_lines(executed.stdout)
    back = to_document(plan.inverse())
    del back["trimtab"]
    assert without_log_dirs(rollback) == compact(back)

    wait_until_done(client, read_document(format_plan_file(plan)).targets)
    verified = kafkas_tool.run("--verify", "--preserve-throttles", text=format_plan_file(plan))
    assert f"Reassignment of partition {P0} is completed." in verified.stdout
    assert f"Reassignment of partition {P1} is completed." in verified.stdout

    back = read_plan(rollback, client.describe_cluster())
    assert [(move.tp, move.before, move.after) for move in back] == [
        (move.tp, move.before, move.after) for move in plan.inverse()
    ]
    client.alter_reassignments({move.tp: move.after for move in back})
    wait_until_done(client, read_document(rollback).targets)


def test_plan_generated_by_kafkas_tool_is_read_and_carried_out(client, kafkas_tool):
    topics = json.dumps({"topics": [{"topic": TOPIC}], "version": 1})
    generated = kafkas_tool.run(
        "--generate", "--broker-list", "1,2,3,4", text=topics, option="--topics-to-move-json-file"
    )
    current, proposed = json_lines(generated.stdout)

    state = fetch_cluster_state(client)  # the tool names the log dirs that there are
    assert read_plan(current, state).moves == ()
    plan = read_plan(proposed, state)
    targets = read_document(proposed).targets
    assert sorted(targets) == [P0, P1, P2]

    answers = client.alter_reassignments({move.tp: move.after for move in plan})
    assert set(answers.values()) <= {None}
    wait_until_done(client, targets)
    verified = kafkas_tool.run("--verify", "--preserve-throttles", text=proposed)
    assert verified.stdout.count("is completed.") == 3


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"topic": TOPIC, "partition": 0, "replicas": [1, 1]}],
        [{"topic": TOPIC, "partition": 0, "replicas": [1, 9]}],
        [{"topic": TOPIC, "partition": 7, "replicas": [1, 2]}],
    ],
    ids=["no partitions", "same broker twice", "unknown broker", "unknown partition"],
)
def test_kafkas_tool_and_trimtab_refuse_the_same_plan_files(client, kafkas_tool, rows):
    text = json.dumps({"version": 1, "partitions": rows})
    refused = kafkas_tool.run("--execute", text=text)
    assert refused.returncode == 1, refused.stdout
    assert client.fetch_reassignments() == {}
    with pytest.raises(DocumentError):
        read_plan(text, client.describe_cluster())
