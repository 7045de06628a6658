"""What a timeline lets go of: what is old, then the oldest of what was seen or told, until it fits.

Within a file that stays a timeline at each step: the picture that the rest begins with is kept.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Final

from core.watch.timeline import told_table
from core.watch.timeline.database import guarded, whole
from core.watch.timeline.packing import milliseconds

TOLD_STEP: Final = 1_000
"""So many that were told go at once, where there is no room: some 150 kB."""


def forget(path: Path, database: sqlite3.Connection, before: datetime, most_bytes: int) -> None:
    """Let go of what is older, and of the oldest while more is in use. Raises TimelineError."""
    with guarded(path):
        with whole(path, database):
            told_table.forget(database, before)
            _forget_seen(database, _oldest_needed(database, before))
        while used_bytes(database) > most_bytes and _forget_oldest(path, database):
            pass
        if _pragma(database, "freelist_count"):
            # A page a step, and Python's `execute` makes one step of what returns no columns.
            database.executescript("PRAGMA incremental_vacuum")


def used_bytes(database: sqlite3.Connection) -> int:
    """Return how large a file is, what is free in it left out."""
    pages = _pragma(database, "page_count") - _pragma(database, "freelist_count")
    return pages * _pragma(database, "page_size")


def _pragma(database: sqlite3.Connection, name: str) -> int:
    return int(database.execute(f"PRAGMA {name}").fetchone()[0])


def _oldest_needed(database: sqlite3.Connection, before: datetime) -> int:
    """Return the number of the last picture before that time but the newest, 0 for none."""
    found = database.execute(
        "SELECT max(seq) FROM pictures WHERE at <= ? AND seq < (SELECT max(seq) FROM pictures)",
        (milliseconds(before),),
    ).fetchone()
    return int(found[0] or 0)


def _forget_oldest(path: Path, database: sqlite3.Connection) -> bool:
    """Let go of what was seen before the second picture, or of some that was told before that."""
    seen = database.execute("SELECT seq, at FROM pictures ORDER BY seq LIMIT 1 OFFSET 1").fetchone()
    told = told_table.oldest(database, TOLD_STEP)
    if seen is None and told is None:
        return False
    with whole(path, database):
        if told is None or (seen is not None and seen[1] <= milliseconds(told)):
            _forget_seen(database, seen[0])
        else:
            told_table.forget(database, told, included=True)
    return True


def _forget_seen(database: sqlite3.Connection, seq: int) -> None:
    for table in ("looks", "changes", "pictures"):
        database.execute(f"DELETE FROM {table} WHERE seq < ?", (seq,))
