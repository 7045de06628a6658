"""A secured sandbox: its operator keeps the contract by each way in, its nobody may do nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Partition
from conftest import RealCluster, contract_cluster
from contract import ClientContract
from on_kafka import trimtab
from secured import acls

from core.cluster.access.rights import CLUSTER, GROUP, TOPIC, USES, Right
from core.cluster.connect import Address, connect
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.record_clients import open_consumer
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.logins import Way, rights_of, wait_for_acls
from core.cluster.sandbox.nodes import SCRAM, TOKEN_ENDPOINT
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.errors import ExitCode
from tests.sandbox_data import fill
from tests.waiting import eventually

MOVED = TopicPartition("moved", 0)


@pytest.fixture(scope="module")
def locked() -> Iterator[Sandbox]:
    """A secured sandbox of four brokers in racks a, b, a, b, with a topic that has data."""
    sandbox = Sandbox.up(f"locked-{os.getpid()}", (1, 2, 3, 4), 2, secured=True)
    create_topics(sandbox.settings, {MOVED.topic: [(1, 2)]})
    fill(sandbox.settings, {MOVED: 1_000_000})
    yield sandbox
    sandbox.down()


@pytest.fixture(scope="class", params=Way, ids=lambda way: way.value)
def cluster(locked: Sandbox, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """The contract's cluster, to its operator by each way in."""
    login = locked.login("operator", request.param)
    settings = ConnectionSettings.load(login.bootstrap, login.properties)
    with contract_cluster(locked, settings) as made:
        yield made


class TestOperator(ClientContract):
    pass


def test_clients_and_consumers_log_in_with_a_delegation_token(
    locked: Sandbox, tmp_path: Path
) -> None:
    """So do consumers: kafka-python's, as librdkafka knows no such login."""
    login = locked.login("operator", Way.SCRAM)
    answer = locked.tool(
        "org.apache.kafka.tools.DelegationTokenCommand",
        *("--create", "--max-life-time-period", "-1", "--bootstrap-server", login.bootstrap),
        *("--command-config", str(login.properties)),
    )
    (row,) = (line for line in answer.stdout.splitlines() if "User:operator" in line)
    token_id, hmac, *_ = row.split()
    properties = tmp_path / "token.properties"
    lines = login.properties.read_text().splitlines()
    options = f'username="{token_id}" password="{hmac}" tokenauth="true"'
    jaas = f"sasl.jaas.config=x.ScramLoginModule required {options};"
    properties.write_text("\n".join(jaas if "jaas" in line else line for line in lines))
    settings = ConnectionSettings.load(login.bootstrap, properties)
    assert hmac not in repr(settings)
    client = KafkaClient(settings)
    # The broker that was asked knows it; the others hear of it a moment later.
    eventually(lambda: client.describe_cluster().topics)
    client.close()
    consumer = open_consumer(settings, {})
    first, end = consumer.get_watermark_offsets(Partition(*MOVED), timeout=30)
    consumer.close()
    assert first == 0 < end


def run_as(sandbox: Sandbox, name: str, way: Way, *words: str | Path) -> tuple[int, str, str]:
    login = sandbox.login(name, way)
    known = ("--command-config", login.properties, "--timeout", "60s")
    done = trimtab(login.bootstrap, *known, *words)
    return done.returncode, done.stdout, done.stderr


def move_to(sandbox: Sandbox, folder: Path, *replicas: int) -> Path:
    """Write a plan with one move; return its file."""
    plan = folder / "plan.json"
    target = {"topic": MOVED.topic, "partition": MOVED.partition, "replicas": replicas}
    plan.write_text(json.dumps({"version": 1, "partitions": [target]}))
    return plan


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("topics", "describe", MOVED.topic),
        ("groups",),
        ("throttles", "ls"),
        ("estimate", "PLAN", "--throttle", "5MB/s"),
        ("plan", "check", "PLAN"),
        ("elect", "--dry-run"),
        ("runs", "show", "foreign"),
        ("doctor", "--acls", "read"),
    ],
    ids=" ".join,
)
def test_reader_login_may_run_every_reading_command(
    locked: Sandbox, tmp_path: Path, words: tuple[str, ...]
) -> None:
    plan = move_to(locked, tmp_path, 3, 2)
    line = [plan if word == "PLAN" else word for word in words]
    code, out, err = run_as(locked, "reader", Way.OAUTH, *line)
    assert code == ExitCode.DONE, (out, err)
    assert "hidden" not in err
    assert "may not" not in err


@pytest.mark.parametrize(
    ("words", "code", "takes"),
    [
        (("apply", "PLAN", "--throttle", "5MB/s", "--yes"), 4, "DESCRIBE on the cluster"),
        (("plan", "check", "PLAN"), 4, "DESCRIBE on the cluster"),
        (("estimate", "PLAN", "--throttle", "5MB/s"), 2, f"DESCRIBE on {MOVED.topic}"),
        (("throttles", "ls"), 4, "DESCRIBE on the cluster"),
        (("throttles", "clear", "--yes"), 4, "DESCRIBE on the cluster"),
        (
            *(("topics", "create", "new", "--partitions", "1", "--rf", "1", "--yes"), 1),
            "CREATE on new",
        ),
        (("topics", "delete", MOVED.topic, "--yes"), 4, f"DESCRIBE on {MOVED.topic}"),
        (("topics", "alter", MOVED.topic, "--partitions", "2", "--yes"), 4, "DESCRIBE on moved"),
        (("probe", "--for", "3s", "--yes"), 4, "CREATE on it"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_user_without_rights_is_informed_which_right_a_command_takes(
    locked: Sandbox, tmp_path: Path, words: tuple[str, ...], code: int, takes: str
) -> None:
    plan = move_to(locked, tmp_path, 3, 2)
    line = [plan if word == "PLAN" else word for word in words]
    exit_code, out, err = run_as(locked, "nobody", Way.TLS, *line)
    assert (exit_code, f"It takes {takes}." in err) == (code, True), (out, err)


# -- a run, with the rights of the table and without one of them ----------------------------------

RUN = USES["run"].rights
IMPLIED = {Right(CLUSTER, "DESCRIBE"), Right(CLUSTER, "DESCRIBE_CONFIGS")} | {
    Right(TOPIC, "DESCRIBE_CONFIGS")
}
"""What ALTER and ALTER_CONFIGS bring along."""


@contextmanager
def allowed(sandbox: Sandbox, rights: Collection[Right]) -> Iterator[None]:
    """Let `nobody` do this meanwhile, which then is somebody; all brokers have heard of it."""
    settings, brokers = sandbox.settings, sandbox.broker_ids
    # Who has a password is the same principal as who has a token.
    before = sum(
        len(rights_of(login.name)) for login in sandbox.logins if login.way.mechanism != SCRAM
    )
    with acls(settings, "nobody", [(right, "*") for right in rights]):
        wait_for_acls(settings, before + len(rights), brokers)
        yield
    wait_for_acls(settings, before, brokers)


def replicas(sandbox: Sandbox) -> tuple[int, ...]:
    with connect(Address(sandbox.admin_bootstrap, sandbox.command_config)) as connection:
        state = connection.client.describe_cluster()
        row = state.find(MOVED)
        assert row is not None
        return state.replicas(row)


def apply_as_nobody(sandbox: Sandbox, folder: Path, *to: int) -> tuple[int, str, str]:
    plan = move_to(sandbox, folder, *to)
    return run_as(
        sandbox, "nobody", Way.SCRAM, "apply", plan, "--throttle", "20MB/s", "--yes", "--json"
    )


@pytest.mark.parametrize(
    "left_out",
    [right for right in RUN if right.resource is not GROUP and right not in IMPLIED],
    ids=str,
)
def test_run_without_one_of_its_rights_names_that_right_and_moves_nothing(
    locked: Sandbox, tmp_path: Path, left_out: Right
) -> None:
    before = replicas(locked)
    to = (3, 2) if before[0] == 1 else (1, 2)
    with allowed(locked, [right for right in RUN if right != left_out]):
        code, out, err = apply_as_nobody(locked, tmp_path, *to)
    assert code != ExitCode.DONE
    output = (out + err).replace(f"on {MOVED.topic}", "on topics")
    assert f"takes {left_out}" in output, output
    assert replicas(locked) == before


@pytest.mark.parametrize("implied", [True, False], ids=["without those implied", "all"])
def test_run_succeeds_with_exactly_the_rights_listed_for_runs(
    locked: Sandbox, tmp_path: Path, implied: bool
) -> None:
    before = replicas(locked)
    to = (3, 2) if before[0] == 1 else (1, 2)
    with allowed(locked, [right for right in RUN if not implied or right not in IMPLIED]):
        code, out, err = apply_as_nobody(locked, tmp_path, *to)
    assert code == ExitCode.DONE, (out, err)
    ended = json.loads(out.splitlines()[-1])
    assert (ended["outcome"], ended["moved_bytes"] >= 1_000_000) == ("done", True)
    assert replicas(locked) == to
    assert "AUTHORIZATION" not in out + err


def test_secured_sandbox_is_stopped_started_and_found_like_a_plain_one(locked: Sandbox) -> None:
    token_endpoint = locked.node(TOKEN_ENDPOINT)
    assert locked.stop(token_endpoint.id)
    exit_code, _, err = run_as(locked, "reader", Way.OAUTH, "topics", "ls")
    assert (exit_code, "gives no token" in err) == (ExitCode.UNREACHABLE, True), err
    assert Sandbox.open(locked.name).start(token_endpoint.id)
    assert run_as(locked, "reader", Way.OAUTH, "topics", "ls")[0] == ExitCode.DONE
    assert Sandbox.find(locked.bootstrap, locked.cluster_id) is not None
    assert Sandbox.find(locked.admin_bootstrap, locked.cluster_id) is not None
