"""Which cluster each name of config.toml was when it was last used, and what each is called by it.

A name may come to be another cluster's: that is refused until `trimtab clusters forget`. Kept in
the data folder, by this user alone.
"""

from __future__ import annotations

import json
from contextlib import suppress

from core import files, paths
from core.errors import UnreachableError
from core.text.json_text import parse_json


class NameTakenError(UnreachableError):
    """A name of config.toml leads to another cluster than before."""


def check_name(name: str, cluster_id: str) -> None:
    """Remember which cluster a name is; raises NameTakenError where it was another before."""
    before = known_names().get(name)
    if before is None:
        _remember(name, cluster_id)
    elif before != cluster_id:
        raise NameTakenError(
            f"{name} was cluster {before} when it was last used, and is cluster {cluster_id} now.",
            next=f"Check its bootstrap in config.toml. If it is meant: trimtab clusters forget "
            f"{name}",
        )


def known_names() -> dict[str, str]:
    """Return the cluster id of each name that has been used; what cannot be read is no memory."""
    try:
        document = parse_json(paths.known_names_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {name: id for name, id in document.items() if isinstance(id, str)}


def display_name(cluster_id: str, recorded: str | None = None) -> str:
    """Return the name that a cluster was last used by; without one, the beginning of its id.

    `recorded` is what it was called elsewhere: that holds unless it is another cluster's by now.
    """
    if (name := own_name(cluster_id)) != cluster_id:
        return name
    is_taken = recorded is None or recorded in known_names()
    return short_name(cluster_id) if is_taken else recorded or ""


def own_name(cluster_id: str) -> str:
    """Return the name that a cluster was last used by, else its id: what a command takes for it."""
    names = [name for name, id in known_names().items() if id == cluster_id]
    return names[-1] if names else cluster_id


def name_and_id(cluster_id: str) -> str:
    """Return a cluster's id, after its name where it has one: for what is about two clusters."""
    name = own_name(cluster_id)
    return cluster_id if name == cluster_id else f"{name} ({cluster_id})"


def short_name(cluster_id: str) -> str:
    """Return what a cluster without a name of its own is called, and confirmed by."""
    return cluster_id[:8]


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
