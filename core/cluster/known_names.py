"""Which cluster each name of config.toml was when it was last used: it may come to be another.

Kept in the data folder, by this user alone; `trimtab clusters forget` lets a name be another's.
"""

from __future__ import annotations

import json
from contextlib import suppress

from core import files, paths
from core.errors import UnreachableError


def check_name(name: str, cluster_id: str) -> None:
    """Remember which cluster a name is; raises UnreachableError where it was another before."""
    before = known_names().get(name)
    if before is None:
        _remember(name, cluster_id)
    elif before != cluster_id:
        raise UnreachableError(
            f"{name} was cluster {before} when it was last used, and is cluster {cluster_id} now.",
            next=f"Check its bootstrap in config.toml. If it is meant: trimtab clusters forget "
            f"{name}",
        )


def known_names() -> dict[str, str]:
    """Return the cluster id of each name that has been used; what cannot be read is no memory."""
    try:
        found = json.loads(paths.known_names_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: id for name, id in found.items() if isinstance(id, str)}


def forget_name(name: str) -> bool:
    """Let a name be another cluster's; return whether it was known. Raises OSError."""
    place = paths.known_names_file()
    if name not in known_names():
        return False
    with files.locked(place.with_suffix(".lock")):
        _write({known: id for known, id in known_names().items() if known != name})
    return True


def _remember(name: str, cluster_id: str) -> None:
    # Who may only read a home, or has a full disk, is not kept from looking at a cluster.
    with suppress(OSError), files.locked(paths.known_names_file().with_suffix(".lock")):
        _write({**known_names(), name: cluster_id})


def _write(known: dict[str, str]) -> None:
    files.write_text(paths.known_names_file(), json.dumps(known, indent=2) + "\n")
