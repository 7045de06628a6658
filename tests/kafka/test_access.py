"""Users and rights on a real broker: both libraries log in, and a refusal is one clear message."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from on_kafka import trimtab
from secured import LOGIN, SecuredBroker, acls
from waiting import eventually

from core.cli.cluster.doctor import rights
from core.clock import SystemClock
from core.cluster.access.hidden_topics import HiddenTopics
from core.cluster.access.rights import CLUSTER, TOPIC, Right
from core.cluster.client import ClusterClient
from core.cluster.configs import Resource
from core.cluster.connect import Address, open_topic_reader
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.observer import TOPIC_CONFIGS, fetch_cluster_state
from core.cluster.probe.produce_latency import ProduceProbe
from core.cluster.sandbox.workload import create_topics
from core.errors import RIGHTS, AccessDeniedError, ExitCode
from core.run.journal.journal import SUFFIX
from tests.sandbox_data import fill


@pytest.fixture
def address(secured: SecuredBroker) -> str:
    """A listener that wants a password, where `admin` may do everything and `guest` nothing."""
    return secured.at("OUTSIDE")


def settings(tmp_path: Path, address: str, user: str, password: str) -> ConnectionSettings:
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} required username="{user}" password="{password}";\n'
    )
    return ConnectionSettings.load(address, path)


def reassignments(client: ClusterClient) -> object:
    return client.fetch_reassignments()


def configs(client: ClusterClient) -> object:
    return client.describe_configs([Resource.broker(1)])


Call = Callable[[ClusterClient], object]


def test_a_wrong_password_is_refused(tmp_path: Path, address: str) -> None:
    client = KafkaClient(settings(tmp_path, address, "admin", "hush-hush"))
    with pytest.raises(AccessDeniedError, match="refuses this user name or password") as caught:
        client.describe_cluster()
    assert "hush-hush" not in str(caught.value)
    assert "--command-config" in caught.value.next
    client.close()


@pytest.mark.parametrize("call", [reassignments, configs])
def test_user_without_rights_gets_an_access_denied_error(
    tmp_path: Path, address: str, call: Call
) -> None:
    client = KafkaClient(settings(tmp_path, address, "guest", "right"))
    with pytest.raises(AccessDeniedError):
        call(client)
    client.close()


def test_user_who_may_not_see_topic_configs_still_sees_topics_and_log_dirs(
    tmp_path: Path, address: str
) -> None:
    admin = settings(tmp_path, address, "admin", "right")
    create_topics(admin, {"hidden-configs": [(1,)]})
    client = KafkaClient(settings(tmp_path, address, "guest", "right"))
    with may_describe(admin, "guest"):
        eventually(lambda: sees(client, "hidden-configs"))
        with pytest.raises(AccessDeniedError):
            client.describe_configs([Resource.topic("hidden-configs")], TOPIC_CONFIGS)
        state = fetch_cluster_state(client)
        log_dirs, configs = rights(
            client.describe_log_dirs([1]),
            lambda: client.describe_configs([Resource.topic("hidden-configs")], TOPIC_CONFIGS),
        )
    eventually(lambda: not sees(client, "hidden-configs"))  # as the other tests expect it
    topic, (broker,) = state.topic("hidden-configs"), state.brokers
    assert topic is not None
    assert (topic.min_insync, topic.retention_ms) == (None, None)
    assert broker.log_dirs
    assert log_dirs.fine
    assert configs.remedy == "Allow DESCRIBE_CONFIGS on all topics."
    client.close()


def as_guest(address: str, folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command as the user of the folder's client.properties, with a home of its own."""
    environment = os.environ | {"TRIMTAB_HOME": str(folder / "home")}
    login = ("--command-config", folder / "client.properties")
    return trimtab(address, *login, *words, cwd=folder, env=environment)


def sees(client: ClusterClient, topic: str) -> bool:
    return client.describe_cluster().topic(topic) is not None


NO_MOVES = "This user may not list partition reassignments."


@pytest.mark.parametrize(
    ("words", "code", "shown"),
    [
        (("show",), 0, "access"),
        (("topics", "ls"), 0, "access"),
        (("topics", "describe", "access"), 0, "access"),
        (("elect", "--dry-run"), 0, "LEADS"),
        (("topics", "delete", "access", "--yes"), ExitCode.UNREACHABLE, ""),
        (("runs", "show", "foreign"), ExitCode.UNREACHABLE, ""),
        (("verify", "plan.json"), ExitCode.UNREACHABLE, ""),
    ],
)
def test_commands_not_needing_reassignments_work_without_the_right_to_list_them(
    tmp_path: Path, address: str, words: tuple[str, ...], code: int, shown: str
) -> None:
    admin = settings(tmp_path, address, "admin", "right")
    create_topics(admin, {"access": [(1,)]})
    target = {"topic": "access", "partition": 0, "replicas": [1]}
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": [target]}))
    client = KafkaClient(settings(tmp_path, address, "guest", "right"))
    with may_describe(admin, "guest", cluster=False):
        eventually(lambda: sees(client, "access"))
        assert client.describe_cluster().moves_unknown == NO_MOVES
        asked = as_guest(address, tmp_path, *words)
        assert (asked.returncode, NO_MOVES in asked.stderr) == (code, True), asked.stderr
        assert shown in asked.stdout
        assert bool(asked.stdout) is bool(shown)
    eventually(lambda: not sees(client, "access"))
    client.close()


def test_topics_that_may_not_be_described_are_found_in_log_dirs(
    tmp_path: Path, address: str
) -> None:
    admin = settings(tmp_path, address, "admin", "right")
    create_topics(admin, {"hidden": [(1,), (1,)], "open": [(1,)]})
    whole, guest = KafkaClient(admin), settings(tmp_path, address, "guest", "right")
    known = {topic.name for topic in whole.describe_cluster().topics}
    assert fetch_cluster_state(whole).hidden == HiddenTopics()
    client = KafkaClient(guest)
    assert client.fetch_denied_topics(["hidden", "none"]) == {"hidden", "none"}
    nothing = fetch_cluster_state(client).hidden
    with may_describe(admin, "guest", topic="open"):
        eventually(lambda: sees(client, "open") and client.describe_log_dirs([1])[0].error is None)
        state = fetch_cluster_state(client)
    eventually(lambda: not sees(client, "open"))
    client.close()
    whole.close()
    assert nothing is not None
    assert (nothing.count, nothing.unknown_brokers) == (None, (1,))
    assert [topic.name for topic in state.topics] == ["open"]
    assert state.hidden is not None
    assert state.hidden.topics == len(known) - 1
    assert state.hidden.replicas >= 2


@contextmanager
def may_describe(
    admin: ConnectionSettings, user: str, *, cluster: bool = True, topic: str = "*"
) -> Iterator[None]:
    """Let a user describe topics, and the `cluster`, meanwhile; see the configs of neither."""
    describe = [(Right(TOPIC, "DESCRIBE"), topic), (Right(CLUSTER, "DESCRIBE"), "")]
    with acls(admin, user, describe if cluster else describe[:1]):
        yield


def test_log_dirs_without_authorization_are_reported_as_an_error(
    tmp_path: Path, address: str
) -> None:
    client = KafkaClient(settings(tmp_path, address, "guest", "right"))
    (logs,) = client.describe_log_dirs([1])
    assert logs.error is not None
    assert "CLUSTER_AUTHORIZATION_FAILED" in logs.error
    client.close()


def test_reading_a_topic_without_the_read_right_is_denied_even_with_describe(
    tmp_path: Path, address: str
) -> None:
    admin = settings(tmp_path, address, "admin", "right")
    create_topics(admin, {"reported": [(1,)]})
    fill(admin, {TopicPartition("reported", 0): 1000})
    settings(tmp_path, address, "guest", "right")
    reader = open_topic_reader(Address(address, tmp_path / "client.properties"), "reported")
    now = datetime.now(UTC)

    def read() -> list[object]:
        return list(reader.read((0,), now - timedelta(hours=1), now))

    with pytest.raises(AccessDeniedError, match="may not read reported"):
        read()
    with (
        may_describe(admin, "guest", cluster=False, topic="reported"),
        pytest.raises(AccessDeniedError, match="may not read reported"),
    ):
        read()
    reader.close()


def test_probe_that_may_not_create_its_topic_reports_the_denial(
    tmp_path: Path, address: str
) -> None:
    guest = settings(tmp_path, address, "guest", "right")
    probe = ProduceProbe(guest, lambda: KafkaClient(guest), "a", [1], SystemClock())
    probe.start()
    eventually(lambda: bool(probe.trouble))
    probe.close()
    assert "AUTHORIZATION_FAILED" in probe.trouble
    assert probe.leftover == ""
    assert probe.windows() == {}


def test_apply_without_rights_names_the_missing_right_and_changes_nothing(
    tmp_path: Path, address: str
) -> None:
    admin = settings(tmp_path, address, "admin", "right")
    create_topics(admin, {"access": [(1,)]})
    plan, home = tmp_path / "plan.json", tmp_path / "home"
    target = {"topic": "access", "partition": 0, "replicas": [1, 2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [target]}))
    words = ("apply", "--throttle", "5MB/s", "--yes", plan)
    settings(tmp_path, address, "guest", "right")

    refused = as_guest(address, tmp_path, *words)

    assert refused.returncode == ExitCode.UNREACHABLE
    assert not refused.stdout
    assert refused.stderr.splitlines() == [
        "trimtab: This user may not list partition reassignments.",
        f"It takes DESCRIBE on the cluster. {RIGHTS}",
    ]
    assert not list(home.rglob(f"*{SUFFIX}")), "no run was begun"
    client = KafkaClient(settings(tmp_path, address, "admin", "right"))
    assert not client.fetch_reassignments()
    state = client.describe_cluster()
    row = state.find(TopicPartition("access", 0))
    assert row is not None
    assert state.replicas(row) == (1,)
    client.close()
