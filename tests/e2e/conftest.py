"""Real brokers with data to move, a home of its own, and the installed command."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from installed import TRIMTAB
from terminal import PATIENCE_SECONDS

from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from tests.sandbox_data import delete_topics, fill

TOPIC = "e2e.orders"
MEGABYTE = 1_000_000
BYTES = 30 * MEGABYTE

SAVED = {
    "format": "trimtab.cluster/1",
    "cluster_id": "saved",
    "brokers": [{"id": 1}, {"id": 2}, {"id": 3}],
    "partitions": [{"topic": "t", "partition": 0, "leader": 1, "replicas": [1, 2]}],
}

Trimtab = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def topic(sandbox: Sandbox) -> Iterator[str]:
    """One partition on brokers 1 and 2, of 30 MB."""
    settings = ConnectionSettings(sandbox.bootstrap)
    create_topics(settings, {TOPIC: [(1, 2)]})
    fill(settings, {TopicPartition(TOPIC, 0): BYTES})
    yield TOPIC
    delete_topics(settings, [TOPIC])


@pytest.fixture
def saved(tmp_path: Path) -> str:
    """Return the file of a cluster document."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(SAVED))
    return str(path)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Journals and settings of this test alone."""
    names = (
        "TRIMTAB_BOOTSTRAP",
        "TRIMTAB_CLUSTER",
        "TRIMTAB_COMMAND_CONFIG",
        "TRIMTAB_SNAPSHOTS",
        "NO_COLOR",
    )
    kept = {key: value for key, value in os.environ.items() if key not in names}
    return {**kept, "TRIMTAB_HOME": str(tmp_path / "home")}


@pytest.fixture
def trimtab(environment: dict[str, str], sandbox: Sandbox) -> Trimtab:
    """Run one command on the sandbox, as a shell would."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [TRIMTAB, "-b", sandbox.bootstrap, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    return run


@pytest.fixture
def await_run(trimtab: Trimtab) -> Callable[[], dict[str, Any]]:
    """Return the newest run's summary once it has ended."""

    def wait(seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while True:
            done = trimtab("runs", "ls", "--json")
            assert done.returncode == 0, done.stderr
            newest, *_ = json.loads(done.stdout)
            if newest["ended_at"] or newest["state"] == "died":
                return dict(newest)
            assert time.monotonic() < deadline, f"the run has not ended: {newest}"
            time.sleep(0.3)

    return wait
