"""A standalone Spark cluster on this machine: a master, and workers with a core each."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from core.java import find_java
from tests.waiting import eventually

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"
HERE = ("--host", "127.0.0.1", "--webui-port", "0")
START_SECONDS = 60


def environment() -> dict[str, str]:
    """Return this environment, with the Java that Spark runs on, and loopback."""
    java = str(find_java().path.resolve().parent.parent)
    return {**os.environ, "JAVA_HOME": java, "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[str]:
    """Run a master with workers; give its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        log = folder / "master.log"
        words = (f"{DEPLOY}.master.Master", *HERE, "--port", str(port))
        running.enter_context(_daemon(log, *words))
        eventually(lambda: b"I have been elected leader" in log.read_bytes(), START_SECONDS)
        for number in range(workers):
            running.enter_context(worker(folder, f"worker-{number}", address))
        yield address


@contextmanager
def worker(folder: Path, name: str, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker with one core."""
    words = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / name), address)
    log = folder / f"{name}.log"
    with _daemon(log, f"{DEPLOY}.worker.Worker", *HERE, *words) as process:
        eventually(lambda: b"registered with master" in log.read_bytes(), START_SECONDS)
        yield process


@contextmanager
def _daemon(log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
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
