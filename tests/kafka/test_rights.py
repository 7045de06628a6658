"""The rights of `core.cluster.access` are those that it takes, and `doctor --acls` sees each."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from on_kafka import trimtab
from secured import LOGIN, SecuredBroker, acls
from waiting import eventually

from core.cluster.access.rights import CLUSTER, TOPIC, USES, Right
from core.cluster.connect import Address, fetch_rights
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox.workload import create_topics
from core.errors import ExitCode

READ = USES["read"].rights
CHANGING = [right for right in USES["run"].rights if right not in READ]


def address(secured: SecuredBroker, folder: Path, user: str) -> Address:
    path = folder / f"{user}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} required username="{user}" password="right";\n'
    )
    return Address(secured.at("OUTSIDE"), path)


@pytest.fixture(scope="module")
def admin(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> ConnectionSettings:
    """Somebody who may do everything, on a cluster with a topic and a group."""
    from confluent_kafka import Consumer, TopicPartition

    admin_address = address(secured, tmp_path_factory.mktemp("admin"), "admin")
    settings = ConnectionSettings.load(admin_address.bootstrap, admin_address.command_config)
    create_topics(settings, {"rights": [(1,)]})
    consumer = Consumer({**settings.librdkafka_config(), "group.id": "rights-readers"})
    consumer.commit(offsets=[TopicPartition("rights", 0, 0)], asynchronous=False)
    consumer.close()
    return settings


@contextmanager
def allowed(admin: ConnectionSettings, guest: Address, rights: Collection[Right]) -> Iterator[None]:
    """Let a guest do this on all resources meanwhile; the broker has heard of it before."""
    with acls(admin, "guest", [(right, "*") for right in rights]):
        eventually(lambda: all(not fetch_rights(guest).missing_on(right) for right in rights))
        yield
    eventually(lambda: not fetch_rights(guest).topics)


def run_as_guest(guest: Address, *words: str) -> tuple[int, str, str]:
    done = trimtab(guest.bootstrap, "--command-config", guest.command_config or "", *words)
    return done.returncode, done.stdout, done.stderr


def test_read_rights_suffice_for_all_reading_commands(
    secured: SecuredBroker, admin: ConnectionSettings, tmp_path: Path
) -> None:
    guest = address(secured, tmp_path, "guest")
    with allowed(admin, guest, READ):
        for words in (
            ("show",),
            ("groups", "rights-readers"),
            ("topics", "describe", "rights"),
            ("throttles", "ls"),
            ("doctor", "--acls", "read"),
        ):
            code, out, err = run_as_guest(guest, *words)
            assert code == ExitCode.DONE, (words, out, err)
            assert "hidden" not in err
            assert "AUTHORIZATION" not in out + err


@pytest.mark.parametrize("left_out", READ, ids=str)
def test_missing_read_right_is_named_by_doctor_without_trying_to_use_it(
    secured: SecuredBroker, admin: ConnectionSettings, tmp_path: Path, left_out: Right
) -> None:
    guest = address(secured, tmp_path, "guest")
    with allowed(admin, guest, [right for right in READ if right != left_out]):
        code, out, err = run_as_guest(guest, "doctor", "--acls", "read", "--json")
    document = json.loads(out)
    assert code == ExitCode.NO, err
    assert document["principal"] == "User:guest"
    denied = [(r["resource"], r["operation"]) for r in document["rights"] if r["granted"] is False]
    assert denied == [(left_out.resource.name.lower(), left_out.operation)]
    (command,) = document["commands"]
    assert "--allow-principal User:guest" in command


def test_rights_a_run_needs_besides_reading_are_reported_for_a_read_only_user(
    secured: SecuredBroker, admin: ConnectionSettings, tmp_path: Path
) -> None:
    guest = address(secured, tmp_path, "guest")
    with allowed(admin, guest, READ):
        rights = fetch_rights(guest)
        code, out, _ = run_as_guest(guest, "doctor", "--acls", "run")
    missing = [right for right in USES["run"].rights if rights.missing_on(right)]
    assert missing == CHANGING
    assert code == ExitCode.NO
    assert "--operation Alter --operation AlterConfigs --cluster" in out
    assert "--operation AlterConfigs --topic '*'" in out
    with allowed(admin, guest, [*READ, *CHANGING]):
        code, out, _ = run_as_guest(guest, "doctor", "--acls", "run")
    assert code == ExitCode.DONE, out


CHANGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "run": (("elect", "--topics", "rights", "--yes"), ("throttles", "clear", "--yes")),
    "verify": (("replicas", "verify", "--topics", "rights"),),
    "topics": (
        ("topics", "create", "made", "--partitions", "1", "--rf", "1", "--yes"),
        ("topics", "alter", "made", "--partitions", "2", "--yes"),
        ("topics", "delete", "made", "--yes"),
    ),
    "probe": (("probe", "--for", "5s", "--yes"), ("probe", "--remove", "--yes")),
}


@pytest.mark.parametrize("use", CHANGES)
def test_rights_listed_for_each_use_suffice_for_its_commands(
    secured: SecuredBroker, admin: ConnectionSettings, tmp_path: Path, use: str
) -> None:
    guest = address(secured, tmp_path, "guest")
    with allowed(admin, guest, USES[use].rights):
        for words in CHANGES[use]:
            code, out, err = run_as_guest(guest, *words)
            assert code == ExitCode.DONE, (words, out, err)
            assert "AUTHORIZATION" not in out + err, (words, out, err)


@pytest.mark.parametrize(
    ("use", "left_out", "words", "named"),
    [
        (
            *("read", Right(CLUSTER, "DESCRIBE")),
            *(("apply", "PLAN", "--throttle", "5MB/s", "--yes"), "DESCRIBE on the cluster"),
        ),
        (
            *("topics", Right(TOPIC, "CREATE")),
            *(
                ("topics", "create", "new", "--partitions", "1", "--rf", "1", "--yes"),
                "CREATE on new",
            ),
        ),
        (
            *("topics", Right(TOPIC, "ALTER")),
            *(("topics", "alter", "rights", "--partitions", "2", "--yes"), "ALTER on rights"),
        ),
        (
            *("topics", Right(TOPIC, "DELETE")),
            *(("topics", "delete", "rights", "--yes"), "DELETE on rights"),
        ),
        (
            *("probe", Right(TOPIC, "CREATE")),
            *(("probe", "--for", "3s", "--yes"), "CREATE on it"),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Right) else "",
)
def test_a_refusal_names_the_right_that_is_missing(
    secured: SecuredBroker,
    admin: ConnectionSettings,
    tmp_path: Path,
    use: str,
    left_out: Right,
    words: tuple[str, ...],
    named: str,
) -> None:
    guest = address(secured, tmp_path, "guest")
    plan = tmp_path / "plan.json"
    target = {"topic": "rights", "partition": 0, "replicas": [1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [target]}))
    line = [str(plan) if word == "PLAN" else word for word in words]
    with allowed(admin, guest, [right for right in USES[use].rights if right != left_out]):
        code, out, err = run_as_guest(guest, *line)
    assert code != ExitCode.DONE, (out, err)
    assert f"It takes {named}." in err, (out, err)
