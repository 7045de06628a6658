"""`--master`: the same job on a standalone Spark cluster with two workers on this machine."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from feeding import CLUSTER, feed, newest, row
from standalone import environment, standalone, worker
from waiting import eventually

from core.errors import TrimtabError
from core.load import load_paths as layout
from core.load.windows import window_floor
from core.pipeline.session import open_session


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("standalone"), workers=2) as address:
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


def test_job_on_a_spark_master_publishes_the_same_though_a_worker_is_killed(
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


def test_unreachable_spark_master_is_reported_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(TrimtabError, match="cannot be reached"):
            open_session(master=f"spark://127.0.0.1:{port}")
