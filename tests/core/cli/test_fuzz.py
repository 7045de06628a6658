"""Files that are damaged, or say what nobody would: each command answers in one sentence."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from in_process import Trimtab

from core.cluster.kafka.connection.settings import ConnectionSettings
from core.errors import DocumentError, ExitCode
from tests.fuzz.mutations import damaged

SEEDS = 60
ANSWERS = frozenset(int(code) for code in ExitCode)

CLUSTER = {
    "format": "trimtab.cluster/1",
    "cluster_id": "c",
    "fetched_at": "2026-07-30T14:03:00Z",
    "controller": 1,
    "brokers": [
        {
            "id": broker,
            "host": f"b{broker}",
            "port": 9092,
            "rack": "a",
            "log_dirs": [{"path": "/d", "total_bytes": 10**12, "usable_bytes": 10**11}],
        }
        for broker in range(3)
    ],
    "topics": [{"name": "t", "id": "t-id", "min_insync": 1, "retention_ms": 1000}],
    "partitions": [
        {
            "topic": "t",
            "partition": partition,
            "leader": partition,
            "replicas": [partition, (partition + 1) % 3],
            "isr": [partition],
            "adding": [],
            "leader_epoch": 3,
            "size_bytes": 1000,
            "replica_detail": [{"broker": partition, "size_bytes": 9, "lag": 0, "log_dir": "/d"}],
            "in_bytes_per_s": 1.5,
            "out_bytes_per_s": 2,
        }
        for partition in range(3)
    ],
    "groups": [{"id": "g", "members": [], "lag": [{"topic": "t", "partition": 0, "lag": 7}]}],
}
PLAN = {
    "version": 1,
    "partitions": [
        {"topic": "t", "partition": 0, "replicas": [2, 1], "log_dirs": ["any", "/d"]},
        {"topic": "t", "partition": 1, "replicas": [2, 1]},
    ],
    "trimtab": {"format": "trimtab.plan/1", "cluster_id": "c", "base": []},
}
CONFIG = b"""\
theme = "dark"
[clusters.prod]
bootstrap = "127.0.0.1:1"
command_config = "client.properties"
read_only = true
snapshots = "/x"
in_capacity = "50MB/s"
[keys]
quit = "q"
[notify]
bell = false
command = ["true", "x"]
"""
PEM = b"-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUXw==\n-----END CERTIFICATE-----\n"
PROPERTIES = (
    b"# Schl\xfcssel\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
    b'sasl.jaas.config=x.ScramLoginModule required \\\n  username="u" password="p\\u00fc";\n'
    b"ssl.truststore.type=PEM\nssl.truststore.location=ca.pem\n"
    b"ssl.keystore.type=PEM\nssl.keystore.certificate.chain=" + PEM.replace(b"\n", b" \\\n") + b"\n"
    b"ssl.keystore.key=" + PEM.replace(b"\n", b"\\n") + b"\nssl.key.password=s\n"
)
ODD_VALUES = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**40, 1.5, 1e308, float("nan"), float("inf")),
    *("", "t", "\0", "\ud800", "\udcff", "\x1b[31m", "a" * 300, "b\u202e", "2026-02-30T00:00:00Z"),
    *([], {}, [[]], [1, 1], [None], {"": 1}, [{}], "9" * 5000),
)
Answer = Callable[..., int]


@pytest.fixture
def answer(trimtab: Trimtab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Run a command in a folder with good files; how it ends is checked for what all share."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIMTAB_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "config").mkdir(parents=True)
    Path("cluster.json").write_text(json.dumps(CLUSTER))
    Path("plan.json").write_text(json.dumps(PLAN))
    Path("ca.pem").write_bytes(PEM)
    Path("client.properties").write_bytes(PROPERTIES)

    def run(*words: str) -> int:
        code, _, err = trimtab(*words)
        assert code in ANSWERS, (words, code)
        assert "Traceback" not in err
        assert "this is a bug" not in err, err
        if code == ExitCode.USAGE:
            first = err.splitlines()[0]
            assert first.startswith("trimtab: ")
            assert first.endswith((".", "?", ":", "…")), first
        return code

    return run


def odd(document: Any, dice: random.Random) -> Any:
    """Return a document with one value, anywhere in it, that is missing or odd."""
    document = copy.deepcopy(document)
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = dice.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and dice.random() < 0.85:
            place = place[key]
            continue
        if dice.random() < 0.2:
            del place[key]
        elif isinstance(place, list) and dice.random() < 0.2:
            place.append(place[key])
        else:
            place[key] = dice.choice(ODD_VALUES)
        return document


def as_json(document: Any) -> bytes:
    return json.dumps(document).encode()


ON_CLUSTER = (
    *(["show"], ["show", "--json"], ["show", "--metric", "size"], ["topics", "ls"]),
    *(["groups"], ["plan", "suggest"], ["plan", "check", "plan.json"], ["topics", "describe", "t"]),
    *(["estimate", "plan.json", "--throttle", "1MB/s"], ["plan", "impact", "plan.json"]),
)
ON_PLAN = (
    *(["plan", "check"], ["plan", "show", "--json"], ["plan", "inverse"], ["estimate"], ["verify"]),
    *(["plan", "rebase"], ["plan", "impact"], ["plan", "diff", "plan.json"], ["apply"]),
)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_or_odd_cluster_document_never_crashes_a_command(answer: Answer, seed: int) -> None:
    dice = random.Random(seed)
    assert answer("--from", "cluster.json", "show", "--json", "-o", "good.arrow") == ExitCode.DONE
    arrow = Path("good.arrow").read_bytes()
    assert arrow.startswith(b"ARROW1")
    assert answer("--from", "good.arrow", "show") == ExitCode.DONE
    whole = {ExitCode.DONE, ExitCode.NO, ExitCode.INCOMPLETE}
    answers = set()
    for _ in range(SEEDS):
        changed = dice.choice((lambda: as_json(odd(CLUSTER, dice)), lambda: damaged(arrow, dice)))()
        Path("odd").write_bytes(changed)
        code = answer("--from", "odd", *dice.choice(ON_CLUSTER))
        answers.add(code in whole)
    assert answers == {True, False}


def test_damaged_arrow_file_never_crashes_show(answer: Answer) -> None:
    assert answer("--from", "cluster.json", "show", "--json", "-o", "good.arrow") == ExitCode.DONE
    arrow = Path("good.arrow").read_bytes()
    for seed in range(4 * SEEDS):
        Path("odd").write_bytes(damaged(arrow, random.Random(seed)))
        answer("--from", "odd", "show", "--json")


def test_damaged_or_odd_plan_file_never_crashes_a_command(answer: Answer) -> None:
    for seed in range(2 * SEEDS):
        dice = random.Random(seed)
        data = damaged(as_json(PLAN), dice) if seed % 2 else as_json(odd(PLAN, dice))
        Path("odd").write_bytes(data)
        command = dice.choice(ON_PLAN)
        answer("--from", "cluster.json", *command, "odd")


def test_damaged_client_properties_and_pem_files_are_read_or_refused_in_one_line(
    answer: Answer,
) -> None:
    refusals: list[str] = []
    for seed in range(4 * SEEDS):
        dice = random.Random(seed)
        Path("client.properties").write_bytes(damaged(PROPERTIES, dice) if seed % 3 else PROPERTIES)
        Path("ca.pem").write_bytes(PEM if seed % 3 else damaged(PEM, dice))
        try:
            settings = ConnectionSettings.load("b1:9092", Path("client.properties"))
            assert settings.librdkafka_config()["bootstrap.servers"] == "b1:9092"
            settings.kafka_python_config()
        except DocumentError as error:
            refusals.append(error.title)
    assert len(refusals) > SEEDS
    assert not [title for title in refusals if "\n" in title]


def test_damaged_config_toml_never_crashes_show(answer: Answer, tmp_path: Path) -> None:
    for seed in range(2 * SEEDS):
        (tmp_path / "home" / "config" / "config.toml").write_bytes(
            damaged(CONFIG, random.Random(seed))
        )
        answer("--cluster", "prod", "--from", "cluster.json", "show")
        answer("--from", "cluster.json", "show")
