"""Spark's checkpoint of one cluster: whether it has grown out, and taking it away whole.

Spark names every segment it has ever read in each tenth file of `sources/0` and never forgets one.
The ledger knows the same of the last two days, so a checkpoint may go when no query runs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from core import files

LIMIT_BYTES = 1 << 20
"""Of the largest list of segments: 14 hours of polls at ten seconds."""


def query_id(folder: Path) -> str:
    """Return the id of the query that the checkpoint is of."""
    return str(json.loads((folder / "metadata").read_text(encoding="utf-8"))["id"])[:8]


def outgrown(folder: Path, times: int = 1) -> bool:
    """Return whether the checkpoint is to be taken away; `times` as long a list may be kept."""
    lists = (folder / "sources" / "0").glob("*")
    return max((_size(path) for path in lists), default=0) > times * LIMIT_BYTES


def take_away(folder: Path) -> None:
    """Delete the checkpoint; killed meanwhile, it is there whole or not at all."""
    aside = folder.with_name(f"{files.TEMPORARY}{folder.name}")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    files.sync(folder.parent)
    shutil.rmtree(aside)


def _size(path: Path) -> int:
    """Return a file's size; 0 for what Spark has just deleted."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
