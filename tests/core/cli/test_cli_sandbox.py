"""`trimtab sandbox` and `demo` where no broker is needed: words, what is missing, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from in_process import Trimtab
from waiting import eventually

from core import paths
from core.cli.sandbox.sandbox import parse_brokers
from core.cluster.sandbox import folder as folders
from core.cluster.sandbox import workload
from core.cluster.sandbox.logins import Way
from core.cluster.sandbox.nodes import plan_nodes
from core.cluster.sandbox.sandbox import Sandbox
from core.daemons.process import Process
from core.errors import ExitCode, TrimtabError, UsageError


@pytest.mark.parametrize(
    ("text", "ids"),
    [("4", (1, 2, 3, 4)), ("1", (1,)), ("2,5", (2, 5)), ("7,", (7,)), (" 0, 1 ,2", (0, 1, 2))],
)
def test_brokers_are_parsed_from_a_count_or_a_list_of_ids(text: str, ids: tuple[int, ...]) -> None:
    assert parse_brokers(text) == ids


@pytest.mark.parametrize("text", ["", "four", "0", "500", "1,b", "-1", ",", "²", "1_0"])
def test_invalid_broker_counts_and_ids_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_brokers(text)


@pytest.mark.parametrize(
    "command",
    [
        *(["status"], ["env"], ["kill", "1"], ["stop", "1"], ["load"]),
        *(["fill", "1"], ["consumer", "billing"], ["skew", "--undo"]),
    ],
)
def test_commands_without_a_sandbox_report_how_to_start_one(
    trimtab: Trimtab, command: list[str]
) -> None:
    code, _, err = trimtab("sandbox", *command)
    assert code == ExitCode.USAGE
    assert "There is no sandbox 'default'" in err
    assert "trimtab sandbox up" in err


@pytest.fixture
def stopped(trimtab: Trimtab) -> None:
    """A sandbox of cluster `c`, none of whose nodes runs."""
    folder = paths.sandbox_dir("default")
    folder.mkdir(parents=True)
    nodes = plan_nodes(folder, (1, 2), racks=1, controllers=1)
    folders.write_state(
        folder, folders.SandboxState("c", "4.0.0", True, nodes, {1: Process(2**30, "x")})
    )


@pytest.mark.usefixtures("stopped")
def test_sandbox_env_exports_the_bootstrap_brokers(trimtab: Trimtab) -> None:
    addresses = ",".join(node.address for node in Sandbox.open("default").nodes if node.id < 100)
    assert trimtab("sandbox", "env")[:2] == (0, f"export TRIMTAB_BOOTSTRAP={addresses}\n")


def test_sandbox_env_exports_the_operator_login_of_a_secured_sandbox(trimtab: Trimtab) -> None:
    folder = paths.sandbox_dir("default")
    nodes = plan_nodes(folder, (1,), racks=0, controllers=1, secured=True)
    folders.write_state(folder, folders.SandboxState("c", "4.0.0", True, nodes, {}))
    login = Sandbox.open("default").login("operator", Way.SCRAM)
    _, out, _ = trimtab("sandbox", "env")
    assert out.splitlines() == [
        f"export TRIMTAB_BOOTSTRAP={nodes[1].address}",
        f"export TRIMTAB_COMMAND_CONFIG={login.properties}",
    ]


@pytest.mark.usefixtures("stopped")
def test_failed_sandbox_load_reports_its_reason_and_exit_code(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*words: object) -> None:
        raise TrimtabError("Topic orders cannot be created.")

    monkeypatch.setattr(workload, "run_workload", broken)
    code, _, err = trimtab("sandbox", "load")
    assert (code, "Topic orders cannot be created." in err) == (ExitCode.FAILED, True)


@pytest.mark.usefixtures("stopped")
def test_sandbox_down_removes_only_the_autopilot_of_its_cluster(trimtab: Trimtab) -> None:
    for cluster_id in ("c", "other"):
        paths.autopilot_dir(cluster_id).mkdir(parents=True)
    assert trimtab("sandbox", "down")[0] == ExitCode.DONE
    assert not paths.sandbox_dir("default").exists()
    assert [folder.name for folder in paths.autopilots_dir().iterdir()] == ["other"]


def test_sandbox_down_without_a_sandbox_is_no_error(trimtab: Trimtab) -> None:
    code, out, _ = trimtab("sandbox", "down", "--json")
    assert (code, '"removed": false' in out) == (ExitCode.DONE, True)


def test_sandbox_up_without_java_reports_the_remedy(
    trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    code, _, err = trimtab("sandbox", "up")
    assert (code, "Install Java 17 or 21" in err) == (ExitCode.FAILED, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--brokers", "1,1"], "different ids"),
        (["--brokers", "1,100"], "controllers have those from 100"),
        (["--name", "../up"], "Not a name"),
        (["--kafka", "3.8.1"], "3.9.0 or later"),
        (["--kafka", "latest"], "Not a Kafka version"),
    ],
)
def test_impossible_sandboxes_are_refused(
    trimtab: Trimtab, options: list[str], message: str
) -> None:
    code, _, err = trimtab("sandbox", "up", *options)
    assert (code, message in err) == (ExitCode.USAGE, True), err


def alive_below(home: Path) -> list[str]:
    """Return the command lines of the processes that have something below `home` in them."""
    lines = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(home) in line:
                lines.append(line)
    return lines


def test_ctrl_c_during_the_demo_run_stops_every_process(tmp_path: Path) -> None:
    demo = [sys.executable, "-P", "-m", "tui", "demo", "--brokers", "6", "--partitions", "100"]
    log_path = tmp_path / "said"
    with log_path.open("wb") as output:
        process = subprocess.Popen(
            [*demo, "--speed", "0.1"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={
                **os.environ,
                "TRIMTAB_HOME": str(tmp_path / "home"),
                "PYTHONPATH": str(Path(__file__).parents[3]),
            },
        )
    try:
        eventually(lambda: "1 of 1 submitted" in log_path.read_text() or process.poll() is not None)
        assert process.poll() is None, log_path.read_text()
        assert alive_below(tmp_path / "home")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130, log_path.read_text()
    finally:
        process.kill()
        process.wait()
    after = log_path.read_text().rpartition("1 of 1 submitted")[2]
    assert "goes on" not in after
    assert "Follow it" not in after
    assert "Traceback" not in after
    assert "stopp" in after.lower()
    assert alive_below(tmp_path / "home") == []
    assert not list((tmp_path / "home" / "data" / "runs").glob("*/*.run"))
