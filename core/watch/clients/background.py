"""Starts and stops a cluster's probe as a process of its own, and reads what it reports."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

from core import paths
from core.cluster.connect import Address
from core.errors import DocumentError
from core.load import layout, serving
from core.process import Process
from core.watch.clients.report import Report, from_json

ROLE = "probe"
STOP_SECONDS = 20.0
SILENT = timedelta(seconds=10)
"""A report older than this is of a probe that hangs or was killed."""


def start_probe(address: Address, cluster_id: str, *, root: Path | None = None) -> Process | None:
    """Start the cluster's probe, whose topic may be made; None when one runs on this machine.

    Returns at once. It ends with `stop_probe`, or 60 s after the cluster's last reader has gone.
    """
    root = root or paths.load_root()
    layout.mark(root)
    module = "core.watch.clients.service"
    return serving.start(ROLE, module, cluster_id, root=root, address=address)


def stop_probe(
    cluster_id: str, started: Process | None = None, *, root: Path | None = None
) -> None:
    """End the cluster's probe, whoever started it; returns when it has ended."""
    begun = () if started is None else (started,)
    where = root or paths.load_root()
    serving.stop(where, cluster_id, (ROLE,), started=begun, seconds=STOP_SECONDS)


def prober(cluster_id: str, *, root: Path | None = None) -> Process | None:
    """Return the process that probes this cluster on this machine."""
    return serving.holder(root or paths.load_root(), cluster_id, ROLE)


def newest_report(cluster_id: str, now: datetime, *, root: Path | None = None) -> Report | None:
    """Return what the cluster's probe reported last; None where none runs."""
    try:
        text = layout.clients(root or paths.load_root(), cluster_id).read_text(encoding="utf-8")
        report = from_json(json.loads(text))
    except (OSError, ValueError, DocumentError):
        return None
    return report if abs(now - report.at) < SILENT else None
