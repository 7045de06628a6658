"""Starts and stops the recorder of a cluster as a process of its own; one on this host."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core import paths
from core.cluster.connect import Address
from core.load import layout, serving
from core.load.readers import Heartbeat
from core.load.serving import Kept

ROLE = "recorder"
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Recording:
    """A cluster that is being recorded for as long as somebody looks at it, and 60 s more."""

    cluster_id: str
    root: Path
    heartbeat: Heartbeat
    kept: Kept

    def trouble(self) -> str | None:
        """Return why nothing is recorded; None while it is fine."""
        why = self.kept.trouble
        return None if why is None else f"The recorder cannot be started: {why}."

    def close(self) -> None:
        """Look no more."""
        self.heartbeat.close()

    def stop(self) -> None:
        """End the recorder now, whoever else looks; returns when it has ended."""
        self.close()
        started = self.kept.started
        serving.stop(self.root, self.cluster_id, (ROLE,), started=started, seconds=STOP_SECONDS)


def start_recording(
    address: Address, cluster_id: str, snapshots: str | None = None, *, root: Path | None = None
) -> Recording | None:
    """Keep the recorder going, and count as a reader, until closed.

    One that is started tells of the load under `snapshots`, else of this machine's own. Returns
    at once; None for a simulated cluster, which is gone with its demo.
    """
    if address.simulated:
        return None
    root = root or paths.load_root()
    layout.mark(root)
    module = "core.watch.timeline.service"
    words = () if snapshots is None else (f"--snapshots={snapshots}",)
    start = partial(serving.start, ROLE, module, cluster_id, root=root, address=address)
    kept = Kept(partial(start, words=words))
    return Recording(cluster_id, root, Heartbeat(root, cluster_id, kept.look), kept)
