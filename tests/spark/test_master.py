"""`--master`: the same job on a standalone Spark cluster with two workers on this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyspark
import pytest
from feeding import CLUSTER, feed, newest, row
from waiting import eventually

from core.errors import TrimtabError
from core.java import find_java
from core.load import load_paths as layout
from core.load.windows import window_floor
from core.pipeline.session import open_session

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


def environment() -> dict[str, str]:
    java = str(find_java().path.resolve().parent.parent)
    return {**os.environ, "JAVA_HOME": java, "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def daemon(log: Path, *words: str) -> Iterator[None]:
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [str(SPARK_CLASS), *words],
            env={**environment(), "SPARK_DAEMON_MEMORY": "256m"},
            stdout=output,
            stderr=output,
            cwd=log.parent,
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("standalone")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, deploy = f"spark://127.0.0.1:{port}", "org.apache.spark.deploy"
    there = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as running:
        log = folder / "master.log"
        running.enter_context(daemon(log, f"{deploy}.master.Master", *there, "--port", str(port)))
        eventually(lambda: b"I have been elected leader" in log.read_bytes(), 60)
        for number in range(2):
            words = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"w{number}"))
            running.enter_context(
                daemon(
                    folder / f"worker-{number}.log",
                    f"{deploy}.worker.Worker",
                    *there,
                    *words,
                    address,
                )
            )
        eventually(lambda: log.read_bytes().count(b"Registering worker") == 2, 60)
        yield address


def trimtab(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "tui", *map(str, words)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_job_on_two_workers_publishes_what_one_on_this_machine_does(
    master: str, tmp_path: Path
) -> None:
    start = window_floor(datetime.now(UTC) - timedelta(minutes=10))
    feed(
        tmp_path,
        "a",
        [
            row(poll, partition=p, ts=start + timedelta(seconds=10 * poll))
            for poll in range(1, 35)
            for p in range(3)
        ],
    )
    done = trimtab("pipeline", "once", "--master", master, "--root", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["accepted"] == 102
    assert newest(tmp_path).rate("in_bytes_per_s").tolist() == [500.0] * 3
    assert layout.window_file(tmp_path, CLUSTER, start).exists()


def test_a_master_that_nobody_is_at_is_said_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(TrimtabError, match="cannot be reached"):
            open_session(master=f"spark://127.0.0.1:{port}")
