"""`--all`: every cluster of config.toml is asked at once, and each answers for itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from in_process import Trimtab
from run_help import move
from simulated import small_spec

from core import paths
from core.cli.cluster import doctor
from core.cli.common.context import Context, Target
from core.cli.common.every_cluster import ask_every_cluster
from core.cluster.connect import Address
from core.cluster.known_names import check_name
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.server import SimulatorServer
from core.errors import ExitCode, UnreachableError
from core.plan.plan import Plan
from core.run.options import RunOptions, create_journal

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
RATE = "follower.replication.throttled.rate"
IDS = {"prod": "simulated-prod-00000000", "staging": "simulated-staging-00000"}


@pytest.fixture
def fleet(trimtab: Trimtab, tmp_path: Path) -> Iterator[Trimtab]:
    """Run prod, where brokers are throttled, and staging; nothing for `silent`."""
    servers = [
        SimulatorServer(
            SimulatedCluster(
                small_spec(
                    {"t": [(1, 2)]},
                    cluster_id=id,
                    broker_configs={1: {RATE: "1000"}} if name == "prod" else {},
                )
            ),
            tmp_path / name,
        )
        for name, id in IDS.items()
    ]
    names(**{name: f"sim:{tmp_path}/{name}" for name in (*IDS, "silent")})
    for server in servers:
        server.start()
    yield trimtab
    for server in servers:
        server.stop()


def names(**bootstraps: str) -> None:
    paths.config_dir().mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text(
        "".join(f'[clusters.{name}]\nbootstrap = "{where}"\n' for name, where in bootstraps.items())
    )


def add_run(cluster_id: str) -> None:
    plan = Plan(cluster_id, (move("t", 0, (1, 2), (3, 2)),))
    create_journal(Address("sim:x"), cluster_id, plan, RunOptions(1000), None, at=AT).close()


def test_throttles_of_all_clusters_are_listed_and_a_silent_cluster_is_reported(
    fleet: Trimtab,
) -> None:
    code, out, err = fleet("throttles", "ls", "--all")
    assert code == ExitCode.UNREACHABLE
    header, *rows = (line.split() for line in out.splitlines())
    assert header[0] == "CLUSTER"
    assert [(row[0], row[1:3]) for row in rows] == [("prod", ["broker", "1"])]
    assert err.startswith("silent: ")


def test_json_has_an_answer_and_an_exit_code_for_each_cluster(fleet: Trimtab) -> None:
    code, out, _ = fleet("throttles", "ls", "--all", "--json")
    answers = {answer["cluster_name"]: answer for answer in json.loads(out)}
    assert code == ExitCode.UNREACHABLE
    assert list(answers) == ["prod", "silent", "staging"]
    assert [throttle["config"] for throttle in answers["prod"]["answer"]] == [RATE]
    assert (answers["staging"]["answer"], answers["staging"]["exit_code"]) == ([], ExitCode.DONE)
    assert answers["silent"]["answer"] is None, "what is not known is not none"
    assert answers["silent"]["exit_code"] == ExitCode.UNREACHABLE
    assert answers["silent"]["error"]


def test_runs_are_listed_by_cluster_name_also_of_an_unreachable_cluster(fleet: Trimtab) -> None:
    add_run(IDS["prod"])
    add_run("the-silent-one-00000000")
    add_run("of-no-name-0000000000")
    check_name("silent", "the-silent-one-00000000")
    code, out, _ = fleet("runs", "ls", "--all")
    assert code == ExitCode.UNREACHABLE
    assert sorted(line.split()[1] for line in out.splitlines()[1:]) == ["prod", "silent"]
    _, out, _ = fleet("runs", "ls", "--all", "--json")
    runs = {answer["cluster_name"]: answer["answer"] for answer in json.loads(out)}
    assert [run["cluster_name"] for run in runs["silent"]] == ["silent"]
    assert (len(runs["prod"]), runs["staging"]) == (1, [])


def test_name_that_belonged_to_another_cluster_is_reported_and_lists_no_runs(
    fleet: Trimtab,
) -> None:
    add_run("the-former-one-00000000")
    check_name("staging", "the-former-one-00000000")
    _, out, _ = fleet("runs", "ls", "--all", "--json")
    staging = next(answer for answer in json.loads(out) if answer["cluster_name"] == "staging")
    assert "staging was cluster the-former-one" in staging["error"]
    assert (staging["answer"], staging["exit_code"]) == (None, ExitCode.UNREACHABLE)


def test_doctor_examines_the_machine_once_for_all_clusters(
    fleet: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "machine", lambda: iter([doctor.Finding("python", "3.12")]))
    code, out, _ = fleet("doctor", "--all", "--json")
    answers = {answer["cluster_name"]: answer for answer in json.loads(out)}
    assert [code, *(answer["exit_code"] for answer in answers.values())] == [6, 0, 0, 6, 0]
    assert [finding["name"] for finding in answers[None]["answer"]["findings"]] == ["python"]
    assert not answers["silent"]["answer"]["fine"]
    code, out, _ = fleet("doctor", "--all")
    heads = [line for line in out.splitlines() if line and line[0] not in " ✓✗"]
    assert (code, heads) == (ExitCode.NO, ["this machine", "prod", "silent", "staging"])


@pytest.mark.parametrize("command", ["runs ls", "throttles ls", "doctor"])
@pytest.mark.parametrize("one", [("--cluster", "prod"), ("-b", "b:1"), ("--from", "c.json")])
def test_all_and_a_single_cluster_exclude_each_other(
    fleet: Trimtab, command: str, one: tuple[str, str]
) -> None:
    code, _, err = fleet(*one, *command.split(), "--all")
    assert code == ExitCode.USAGE
    assert "exclude each other" in err


def test_all_is_refused_if_the_config_names_no_cluster(trimtab: Trimtab) -> None:
    code, _, err = trimtab("throttles", "ls", "--all")
    assert code == ExitCode.USAGE
    assert "names no cluster" in err


def test_clusters_are_queried_concurrently_and_each_has_its_own_error(trimtab: Trimtab) -> None:
    names(a="a:1", b="b:1", c="c:1")
    together = threading.Barrier(3)

    def ask(context: Context) -> str:
        together.wait(60)
        if context.target.name == "b":
            raise UnreachableError("b is down.")
        return context.heading

    context = Context(Target(), False, True, None, False, False, lambda _: None)
    answers = ask_every_cluster(context, ask)
    assert [(answer.name, answer.answer) for answer in answers] == [
        ("a", "a: "),
        ("b", None),
        ("c", "c: "),
    ]
    assert str(answers[1].error) == "b is down."
    with pytest.raises(ZeroDivisionError):
        ask_every_cluster(context, lambda _: 1 // 0)
