"""The whole path in a real terminal, on real brokers, with Kafka's own tools as judges."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from installed import TRIMTAB
from terminal import Terminal

from core.cluster.sandbox.sandbox import Sandbox
from core.units import parse_time

Trimtab = Callable[..., "subprocess.CompletedProcess[str]"]
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
FASTEST, SLOWEST = "G", "g"
"""30 MB last at 50 kB/s, though a quota may let 11.5 s of it through at once."""
TOPICS = "org.apache.kafka.tools.TopicCommand"


def dashboard(sandbox: Sandbox, environment: dict[str, str]) -> Terminal:
    return Terminal(
        [TRIMTAB, "-b", sandbox.bootstrap, "--cluster", "e2e", "--write", "--no-load"],
        environment=environment,
    )


def carry_to_broker_3(terminal: Terminal, topic: str) -> None:
    """From the map: find the topic, zoom in, pick broker 1's replica up, drop it on broker 3."""
    terminal.wait_for(topic)
    terminal.send(f"/{topic}\r")
    terminal.wait_for(f"/{topic}")
    terminal.send("\r")
    terminal.wait_for("p0")
    terminal.send("hhhh ")
    terminal.wait_for("carrying")
    terminal.send("3")
    terminal.wait_for("from 1 to 3")
    terminal.send("\r")
    terminal.wait_for("1 move")


def apply(terminal: Terminal, *, rate: str) -> None:
    """Apply at the rate to which these keys go in the table: Cancel has the focus, name typed."""
    terminal.send("2")
    terminal.wait_for("1.0 MB/s")  # the throttle table is there, and knows the size
    terminal.send(f"T{rate}A")
    terminal.wait_for("Type e2e to apply")
    terminal.send("\t")
    terminal.send("e2e\r")
    terminal.wait_for("Enter applies it")
    terminal.send("\r")
    terminal.wait_for("The run goes on without this screen")


def judge(sandbox: Sandbox, topic: str, tmp_path: Path) -> str:
    """Return what Kafka's own tool says of the move, throttles preserved."""
    plan = tmp_path / "judged.json"
    moved = {"topic": topic, "partition": 0, "replicas": [3, 2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    done = sandbox.tool(
        REASSIGN, "--bootstrap-server", sandbox.bootstrap,
        "--reassignment-json-file", str(plan), "--verify", "--preserve-throttles",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_carried_replica_is_applied_and_followed_until_the_run_is_done(
    sandbox: Sandbox, topic: str, environment: dict[str, str], tmp_path: Path
) -> None:
    with dashboard(sandbox, environment) as terminal:
        carry_to_broker_3(terminal, topic)
        apply(terminal, rate=FASTEST)
        terminal.wait_for("1 of 1 done")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
    assert f"Reassignment of partition {topic}-0 is completed." in judge(sandbox, topic, tmp_path)
    described = sandbox.tool(
        TOPICS, "--bootstrap-server", sandbox.bootstrap, "--describe", "--topic", topic
    ).stdout
    assert "Replicas: 3,2" in described
    assert "throttled" not in described


def test_run_continues_to_its_end_after_the_dashboard_is_killed(
    sandbox: Sandbox,
    topic: str,
    environment: dict[str, str],
    trimtab: Trimtab,
    await_run: Callable[[], dict[str, Any]],
    tmp_path: Path,
) -> None:
    with dashboard(sandbox, environment) as terminal:
        carry_to_broker_3(terminal, topic)
        apply(terminal, rate=SLOWEST)
        terminal.kill()
    killed = datetime.now(UTC)
    (run,) = json.loads(trimtab("runs", "ls", "--json").stdout)
    # What goes on need not take as long as it was to.
    assert trimtab("runs", "throttle", run["run"], "100MB/s").returncode == 0
    ended = await_run()
    assert parse_time(ended["ended_at"]) > killed, "it had ended before the dashboard was killed"
    assert ended["state"] == "done"
    assert f"Reassignment of partition {topic}-0 is completed." in judge(sandbox, topic, tmp_path)
