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
    found = document.get("clusters", []) if isinstance(document, dict) else None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise DocumentError(f"{layout.index(root)} is not a list of clusters.", next=layout.REPAIR)
    return tuple(sorted(found))


def list_cluster(root: Path, cluster_id: str) -> None:
    """Put a cluster on the list; a damaged list begins anew."""
    _change(root, lambda known: known | {cluster_id})


def forget_cluster(root: Path, cluster_id: str) -> None:
    """Remove all load of a cluster that nobody will meet again; nothing may be writing it."""
    _change(root, lambda known: known - {cluster_id})
    folder = layout.cluster_folder(cluster_id)
    for place in (*root.glob(f"*/{folder}"), *root.glob(f"*/v*/{folder}")):
        shutil.rmtree(place, ignore_errors=True)
    for path in root.glob(f"*/{folder}.*"):
        path.unlink(missing_ok=True)


def _change(root: Path, change: Callable[[Set[str]], Set[str]]) -> None:
    with files.locked(root / "locks" / "index.lock"):
        try:
            known = frozenset(cluster_ids(root))
        except DocumentError:
            known = frozenset()
        if (changed := change(known)) != known:
            document = {"format": FORMAT, "clusters": sorted(changed)}
            files.write_text(layout.index(root), json.dumps(document) + "\n")
