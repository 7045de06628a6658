"""The notes table of a timeline's file: any process adds notes, retention removes the oldest."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from core.watch.timeline.codec import from_milliseconds, to_milliseconds
from core.watch.timeline.events import ALL_KINDS, Event, Kind, Note

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS told (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind INTEGER NOT NULL,
    topic TEXT, partition INTEGER, by TEXT NOT NULL, text TEXT NOT NULL, brokers TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS told_at ON told (at);
"""


def add(database: sqlite3.Connection, events: Iterable[Event]) -> None:
    """Keep events whose `after` is Told; within a transaction of the caller's."""
    rows = []
    for event in events:
        if not isinstance(event.after, Note):
            raise TypeError(f"nobody told {event}")
        of = event.after
        rows.append(
            (
                *(to_milliseconds(event.at), int(event.kind), event.topic, event.partition),
                *(of.by, of.text, json.dumps(of.brokers)),
            )
        )
    database.executemany(
        "INSERT INTO told (at, kind, topic, partition, by, text, brokers)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def read(
    database: sqlite3.Connection,
    since: datetime | None = None,
    until: datetime | None = None,
    kinds: Kind = ALL_KINDS,
) -> Iterator[Event]:
    """Yield what was told of from `since` to `until`, both included, in the order of its times."""
    if not _is_there(database):
        return
    rows = database.execute(
        "SELECT at, kind, topic, partition, by, text, brokers FROM told"
        " WHERE at >= ? AND at <= ? AND (? = 0 OR kind & ?) ORDER BY at, seq",
        (
            -(2**62) if since is None else to_milliseconds(since),
            2**62 if until is None else to_milliseconds(until),
            *(int(kinds), int(kinds)),
        ),
    )
    for at, kind, topic, partition, by, text, brokers in rows:
        told = Note(by, text, tuple(json.loads(brokers)))
        yield Event(from_milliseconds(at), Kind(kind), None, told, topic, partition)


def last(database: sqlite3.Connection) -> int:
    """Return the number of what was told last: another one when more was; 0 for nothing."""
    if not _is_there(database):
        return 0
    found = database.execute("SELECT max(seq) FROM told").fetchone()[0]
    return int(found or 0)


def span(database: sqlite3.Connection) -> tuple[datetime, datetime] | None:
    """Return of which times something was told; None for nothing."""
    if not _is_there(database):
        return None
    first, latest = database.execute("SELECT min(at), max(at) FROM told").fetchone()
    return None if first is None else (from_milliseconds(first), from_milliseconds(latest))


def topics(database: sqlite3.Connection) -> set[str]:
    """Return the topics that were told of."""
    if not _is_there(database):
        return set()
    rows = database.execute("SELECT DISTINCT topic FROM told WHERE topic IS NOT NULL")
    return {topic for (topic,) in rows}


def brokers(database: sqlite3.Connection) -> set[int]:
    """Return the brokers that were told of."""
    if not _is_there(database):
        return set()
    rows = database.execute("SELECT DISTINCT brokers FROM told")
    return {broker for (among,) in rows for broker in json.loads(among)}


def newest(database: sqlite3.Connection, count: int) -> datetime | None:
    """Return since when no more than `count` were told of; None for all."""
    if not _is_there(database):
        return None
    found = database.execute(
        "SELECT at FROM told ORDER BY at DESC LIMIT 1 OFFSET ?", (count,)
    ).fetchone()
    return None if found is None else from_milliseconds(found[0] + 1)


def oldest(database: sqlite3.Connection, count: int) -> datetime | None:
    """Return until when the `count` that are oldest were told of, or all; None for nothing."""
    found = database.execute(
        "SELECT max(at) FROM (SELECT at FROM told ORDER BY at LIMIT ?)", (count,)
    ).fetchone()[0]
    return None if found is None else from_milliseconds(found)


def forget(database: sqlite3.Connection, before: datetime, *, included: bool = False) -> None:
    """Let go of what is older, `included` of that moment itself."""
    database.execute("DELETE FROM told WHERE at < ?", (to_milliseconds(before) + included,))


def _is_there(database: sqlite3.Connection) -> bool:
    """Return whether the file has the table: of the format before it had none."""
    return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'told'").fetchone())
