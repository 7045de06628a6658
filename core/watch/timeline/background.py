"""Starts and stops the recorder of a cluster as a process of its own; one on this host."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from core import files, paths
from core.cluster.connect import Address
from core.load import layout
from core.load.background import holder
from core.load.readers import Heartbeat
from core.process import Process, spawn

ROLE = "recorder"
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Recording:
    """A cluster that is being recorded for as long as somebody looks at it, and 60 s more."""

    cluster_id: str
    root: Path
    heartbeat: Heartbeat
    started: Process | None

    def close(self) -> None:
        """Look no more."""
        self.heartbeat.close()

    def stop(self) -> None:
        """End the recorder now, whoever else looks; returns when it has ended."""
        self.close()
        found = {self.started, holder(self.root, self.cluster_id, ROLE)} - {None}
        for process in found:
            assert process is not None
            process.signal(15)
        for process in found:
            assert process is not None
            process.stop(STOP_SECONDS)


def start_recording(
    address: Address, cluster_id: str, *, root: Path | None = None
) -> Recording | None:
    """Start the recorder unless one runs, and count as a reader until closed.

    Returns at once; None for a simulated cluster, which is gone with its demo.
    """
    if address.simulated:
        return None
    root = root or paths.load_root()
    layout.mark(root)
    heartbeat = Heartbeat(root, cluster_id)
    started = None
    if not files.is_leased(layout.lock(root, cluster_id, ROLE)):
        log = paths.log_dir() / f"{ROLE}-{paths.safe_name(cluster_id)}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        words = ["--bootstrap", address.bootstrap, "--cluster-id", cluster_id, "--root", str(root)]
        if address.command_config is not None:
            words += ["--command-config", str(address.command_config)]
        # -P: a folder `core` where the user happens to be must not be taken for ours.
        command = [sys.executable, "-P", "-m", "core.watch.timeline.service", *words]
        started = spawn(command, output=log)
    return Recording(cluster_id, root, heartbeat, started)
