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

import pyarrow.parquet as pq
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
def daemon(log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
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
            yield process
        finally:
            process.terminate()


DEPLOY = "org.apache.spark.deploy"
HERE = ("--host", "127.0.0.1", "--webui-port", "0")


@contextmanager
def worker(folder: Path, name: str, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker with one core."""
    words = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / name), address)
    with daemon(folder / f"{name}.log", f"{DEPLOY}.worker.Worker", *HERE, *words) as process:
        eventually(lambda: b"registered with master" in (folder / f"{name}.log").read_bytes(), 60)
        yield process


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("standalone")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        log = folder / "master.log"
        words = (f"{DEPLOY}.master.Master", *HERE, "--port", str(port))
        running.enter_context(daemon(log, *words))
        eventually(lambda: b"I have been elected leader" in log.read_bytes(), 60)
        for number in range(2):
            running.enter_context(worker(folder, f"worker-{number}", address))
        yield address


def starting(*words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tui", *map(str, words)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def begun(root: Path) -> bool:
    """Return whether a batch has begun."""
    return any(layout.batches(root, CLUSTER).glob("*.json"))


def test_a_job_publishes_what_one_on_this_machine_does_though_a_worker_is_killed(
    master: str, tmp_path: Path
) -> None:
    start = window_floor(datetime.now(UTC) - timedelta(minutes=10))
    polls = [
        row(poll, partition=p, ts=start + timedelta(seconds=10 * poll))
        for poll in range(1, 35)
        for p in range(3)
    ]
    feed(tmp_path, "a", polls)
    with (
        worker(tmp_path, "killed", master) as killed,
        starting("pipeline", "once", "--json", "--master", master, "--root", tmp_path) as job,
    ):
        eventually(lambda: any((tmp_path / "killed").glob("app-*/*")) and begun(tmp_path), 120)
        killed.kill()
        stdout, stderr = job.communicate(timeout=300)
    assert job.returncode == 0, stderr
    assert json.loads(stdout)["counts"]["accepted"] == 102
    assert newest(tmp_path).rate("in_bytes_per_s").tolist() == [500.0] * 3
    windows = pq.read_table(layout.window_file(tmp_path, CLUSTER, start))
    assert windows["n"].to_pylist() == [29] * 3


def test_a_master_that_nobody_is_at_is_said_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(TrimtabError, match="cannot be reached"):
            open_session(master=f"spark://127.0.0.1:{port}")
