"""Starts and stops the collector and the pipeline of a cluster as processes of their own.

One pair for a cluster on this host: each holds a lease, so of two that start the second ends. A
pair ends 60 s after its last reader is gone, however that one went.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from core import files, paths
from core.cluster.connect import Address, connect
from core.load import layout
from core.load.readers import Heartbeat
from core.process import Process, spawn

INTERVAL_SECONDS = 10.0
TRIGGER_SECONDS = 15.0
FIRST_TRIGGER_SECONDS = 2.0
"""Until there are rates of a few polls."""
ROLES = ("collector", "pipeline")
STOP_SECONDS = 45.0


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of load whose collector and pipeline run; `close` when it reads no more."""

    cluster_id: str
    root: Path
    heartbeat: Heartbeat
    started: tuple[Process, ...] = ()
    """What was started for this reader; too young, perhaps, to hold its lease yet."""

    def close(self) -> None:
        self.heartbeat.close()

    def trouble(self) -> str | None:
        """Return why the pipeline is not running, in its own words; None while it is fine."""
        return pipeline_trouble(self.root, self.cluster_id)


def start_load(
    address: Address,
    cluster_id: str | None = None,
    *,
    root: Path | None = None,
    interval_seconds: float = INTERVAL_SECONDS,
    trigger_seconds: float = TRIGGER_SECONDS,
) -> Reader | None:
    """Start collector and pipeline unless they run, and count as a reader until closed.

    Returns at once; None for a simulated cluster, which publishes by itself. Raises
    UnreachableError when the cluster's id is not given and cannot be asked for.
    """
    if address.simulated:
        return None
    if cluster_id is None:
        connection = connect(address)
        try:
            cluster_id = connection.client.describe().cluster_id
        finally:
            connection.client.close()
    root = root or paths.load_root()
    layout.mark(root)
    heartbeat = Heartbeat(root, cluster_id)
    started: list[Process] = []
    place = ["--cluster-id", cluster_id, "--root", str(root)]
    if not files.is_leased(layout.lock(root, cluster_id, "collector")):
        words = ["--bootstrap", address.bootstrap, "--interval", str(interval_seconds)]
        if address.command_config is not None:
            words += ["--command-config", str(address.command_config)]
        started.append(_spawn("core.load.service", "collector", cluster_id, [*place, *words]))
    if not files.is_leased(layout.lock(root, cluster_id, "pipeline")):
        layout.trouble(root, cluster_id).unlink(missing_ok=True)
        first = str(min(FIRST_TRIGGER_SECONDS, trigger_seconds))
        words = ["--trigger", str(trigger_seconds), "--first-trigger", first]
        started.append(_spawn("core.pipeline.service", "pipeline", cluster_id, [*place, *words]))
    return Reader(cluster_id, root, heartbeat, tuple(started))


def stop_load(reader: Reader) -> None:
    """Stop this host's pair for a cluster now, whoever else reads; returns when both have ended."""
    reader.close()
    found = [holder(reader.root, reader.cluster_id, role) for role in ROLES]
    processes = {*reader.started, *(process for process in found if process is not None)}
    for process in processes:
        process.signal(15)
    for process in processes:
        process.stop(STOP_SECONDS)


def holder(root: Path, cluster_id: str, role: str) -> Process | None:
    """Return the process that has this role for the cluster on this host."""
    path = layout.lock(root, cluster_id, role)
    if not files.is_leased(path):
        return None
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        process = Process(held["pid"], held["started"])
    except (ValueError, KeyError, FileNotFoundError):
        # It has just begun or is just ending.
        return None
    return process if process.alive else None


def pipeline_trouble(root: Path, cluster_id: str) -> str | None:
    """Return why the cluster's pipeline ended, in its own words; None when it has not."""
    try:
        return layout.trouble(root, cluster_id).read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def _spawn(module: str, role: str, cluster_id: str, words: list[str]) -> Process:
    log = paths.log_dir() / f"{role}-{paths.safe_name(cluster_id)}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    # -P: a folder `core` where the user happens to be must not be taken for ours.
    return spawn([sys.executable, "-P", "-m", module, *words], output=log)
