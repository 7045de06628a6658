"""Our commands, Kafka's own tool and topics on real brokers."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from core.cli.main import run
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.plan.planner.model.problem import FULL
from tests.sandbox_data import delete_topics, fill

JUDGE = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_MAIN = "import sys; from core.cli.main import run; sys.exit(run(lambda context: None))"


def command(bootstrap: str, *words: str | Path) -> list[str]:
    """Return a command of ours on these brokers, as a process of its own takes it."""
    return [sys.executable, "-P", "-c", _MAIN, "-b", bootstrap, *map(str, words)]


def trimtab(
    bootstrap: str, *words: str | Path, env: Mapping[str, str] = os.environ, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, to its end; a busy machine answers late."""
    return subprocess.run(
        command(bootstrap, *words),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={"TRIMTAB_TIMEOUT": "60s", **env},
        **options,
    )


def trimtab_here(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command that answers at once, in this process: starting one takes as long."""
    line = list(map(str, words))
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(lambda _: None, line)
    return subprocess.CompletedProcess(line, code, out.getvalue(), err.getvalue())


def verify(sandbox: Sandbox, plan: Path) -> str:
    """Return what Kafka's tool says of a plan; it leaves throttles alone."""
    answer = sandbox.tool(
        JUDGE,
        *("--bootstrap-server", sandbox.bootstrap, "--verify", "--preserve-throttles"),
        *("--reassignment-json-file", str(plan)),
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def require_room(sandbox: Sandbox) -> None:
    """Fail with a sentence where the machine's disk is fuller than a plan may make a broker's."""
    disk = shutil.disk_usage(sandbox.folder)
    if disk.free < (1 - FULL) * disk.total:
        pytest.fail(f"The disk of {sandbox.folder} is too full: no plan may move a replica there.")


@contextmanager
def client_with(
    sandbox: Sandbox, layouts: Mapping[str, Sequence[Sequence[int]]], bytes_each: int = 0
) -> Iterator[KafkaClient]:
    """Give a client of brokers that have these topics meanwhile, with so much in each partition."""
    settings = ConnectionSettings(sandbox.bootstrap)
    create_topics(settings, layouts)
    if bytes_each:
        rows = [TopicPartition(name, p) for name, rows in layouts.items() for p in range(len(rows))]
        fill(settings, dict.fromkeys(rows, bytes_each))
    client = KafkaClient(settings)
    try:
        yield client
    finally:
        client.close()
        delete_topics(settings, list(layouts))
