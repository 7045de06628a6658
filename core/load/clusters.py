"""Which clusters have load below a root: the list of those with snapshots, and forgetting one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Set
from pathlib import Path

from core import files
from core.errors import DocumentError
from core.load import layout

FORMAT = "trimtab.snapshots/1"


def cluster_ids(root: Path) -> tuple[str, ...]:
    """Return the clusters that have snapshots below this root.

    Raises DocumentError when the list is damaged.
    """
    try:
        document = json.loads(layout.index(root).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except ValueError as error:
        raise DocumentError(f"{layout.index(root)} is not JSON.", next=layout.REPAIR) from error
    if not isinstance(document, dict):
        raise DocumentError(f"{layout.index(root)} is not a list of clusters.", next=layout.REPAIR)
    return tuple(sorted(document.get("clusters", [])))


def list_cluster(root: Path, cluster_id: str) -> None:
    """Put a cluster on the list; a damaged list begins anew."""
    _change(root, lambda known: known | {cluster_id})


def forget_cluster(root: Path, cluster_id: str) -> None:
    """Remove all load of a cluster that nobody will meet again; nothing may be writing it."""
    _change(root, lambda known: known - {cluster_id})
    for place in (
        layout.spool(root, cluster_id),
        layout.archive(root, cluster_id),
        layout.quarantine(root, cluster_id),
        layout.checkpoint(root, cluster_id),
        layout.batches(root, cluster_id),
        layout.partials(root, cluster_id),
        layout.windows(root, cluster_id),
        layout.snapshots(root, cluster_id),
        layout.readers(root, cluster_id),
    ):
        shutil.rmtree(place, ignore_errors=True)
    layout.live(root, cluster_id).unlink(missing_ok=True)
    layout.trouble(root, cluster_id).unlink(missing_ok=True)
    for role in ("collector", "pipeline", "publish", "gate"):
        layout.lock(root, cluster_id, role).unlink(missing_ok=True)


def _change(root: Path, change: Callable[[Set[str]], Set[str]]) -> None:
    with files.locked(root / "locks" / "index.lock"):
        try:
            known = frozenset(cluster_ids(root))
        except DocumentError:
            known = frozenset()
        if (changed := change(known)) != known:
            document = {"format": FORMAT, "clusters": sorted(changed)}
            files.write_text(layout.index(root), json.dumps(document) + "\n")
