"""Ends and forgets the runs of a cluster that nobody will meet again, such as a demo's."""

from __future__ import annotations

import shutil

from core import paths
from core.process import running_with


def forget_runs(cluster_id: str) -> None:
    """End the processes of this cluster's runs and remove their journals."""
    folder = paths.runs_dir(cluster_id)
    if not folder.is_dir():
        return
    for process in running_with({str(path) for path in folder.glob("*.run")}):
        process.stop()
    shutil.rmtree(folder)
