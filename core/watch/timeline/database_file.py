"""A timeline's SQLite file: its tables, their retention and its errors.

Anybody may add a note: what no poll of the cluster shows. It stands in a table of its own.
"""

from __future__ import annotations

import sqlite3
import struct
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from core import files, paths
from core.errors import TrimtabError
from core.watch.timeline.codec import from_milliseconds, to_milliseconds

FORMAT: Final = 2
"""The first had no table of what is told."""
_APPLICATION_ID: Final = 0x7472746C  # "trtl"
_NOTES_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS told (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind INTEGER NOT NULL,
    topic TEXT, partition INTEGER, by TEXT NOT NULL, text TEXT NOT NULL, brokers TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS told_at ON told (at);
"""
_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {_APPLICATION_ID};
CREATE TABLE IF NOT EXISTS looks (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS looks_at ON looks (at);
CREATE TABLE IF NOT EXISTS changes (
    seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL, topic INTEGER, partition INTEGER,
    before BLOB, after BLOB
);
CREATE TABLE IF NOT EXISTS pictures (
    seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS seen (only INTEGER PRIMARY KEY CHECK (only = 1), at INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS topics (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
{_NOTES_SCHEMA}
PRAGMA user_version = {FORMAT};
COMMIT;
"""
DAMAGED: Final = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError),
    *(struct.error, zlib.error),
)
"""What values raise that SQLite takes for whole, and that are not what was written."""
# A look's `seq` is that of its first change; a picture's, that of the first change after it.


class TimelineError(TrimtabError):
    """A timeline cannot be read or written."""


def open_to_write(path: Path) -> sqlite3.Connection:
    """Return a timeline to write to, made or brought up to this format. Raises TimelineError."""
    try:
        paths.make_folder(path.parent)
        # SQLite would make it as the umask has it, and what lies beside it like it. One that is
        # there is not opened: to close it would take away the locks that this process has on it.
        with suppress(FileExistsError):
            open(path.resolve(), "xb", opener=files.private).close()
    except OSError as error:
        raise unusable_timeline(path, error) from error
    with _opened(path, str(path)) as database:
        if _pragma(database, "user_version") < FORMAT:
            with files.locked(path.parent / ".lock"):  # several may begin at the same moment
                if _pragma(database, "user_version") < FORMAT:
                    _make(path, database)
        # What the last second brought may be lost with the machine's power: it is seen again.
        database.execute("PRAGMA synchronous = NORMAL")
        return _check_format(path, database)


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """Return a timeline, None for one that nothing is in yet. Raises TimelineError."""
    if not path.exists():
        return None
    with _opened(path, f"{path.absolute().as_uri()}?mode=ro") as database:
        if not _is_empty(database):
            return _check_format(path, database)
    database.close()
    return None


class _Connection(sqlite3.Connection):
    """Ends its statements as it is closed: one that an error still holds would keep the file."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        cursor = super().execute(sql, parameters)
        self._cursors.add(cursor)
        return cursor

    def close(self) -> None:
        for cursor in list(self._cursors):
            cursor.close()
        super().close()


@contextmanager
def _opened(path: Path, address: str) -> Iterator[sqlite3.Connection]:
    """Open a file, and close it again if it turns out to be of no use."""
    try:
        database = sqlite3.connect(
            address,
            uri=address.startswith("file:"),
            isolation_level=None,
            factory=_Connection,
        )
    except sqlite3.Error as error:
        raise unusable_timeline(path, error) from error
    try:
        yield database
    except BaseException as error:
        database.close()
        if isinstance(error, (OSError, sqlite3.Error, *DAMAGED)):
            raise unusable_timeline(path, error) from error
        raise


def _make(path: Path, database: sqlite3.Connection) -> None:
    """Make an empty file a timeline, or one of an earlier format one of this."""
    if not _is_empty(database):
        _check_format(path, database)
    database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    database.execute("PRAGMA journal_mode = WAL")
    database.executescript(_SCHEMA)


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Tell what SQLite has against a timeline, or what is in it, as TimelineError."""
    try:
        yield
    except (sqlite3.Error, *DAMAGED) as error:
        raise unusable_timeline(path, error) from error


@contextmanager
def transaction(path: Path, database: sqlite3.Connection) -> Iterator[None]:
    """Change all of it or nothing. Raises TimelineError: a full disk may show only at the end."""
    with sqlite_errors(path):
        database.execute("BEGIN IMMEDIATE")
        try:
            yield
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise


def _is_empty(database: sqlite3.Connection) -> bool:
    """Return whether nothing is in a file yet; all of a timeline comes in one transaction."""
    return not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _check_format(path: Path, database: sqlite3.Connection) -> sqlite3.Connection:
    """Return the database if it is a timeline of a format that is known here."""
    if _pragma(database, "application_id") != _APPLICATION_ID:
        raise TimelineError(f"{path} is not a timeline.", next="Move it out of that folder.")
    if _pragma(database, "user_version") > FORMAT:
        raise TimelineError(
            f"{path} was written by a newer trimtab.", next="Install that version, or a newer one."
        )
    return database


def unusable_timeline(path: Path, error: Exception) -> TimelineError:
    why = f"it is damaged ({error})" if isinstance(error, DAMAGED) else error
    return TimelineError(
        f"The timeline cannot be read or written: {why}.",
        detail=str(path),
        next="Make room there, or move the file away: another one is begun.",
    )


NOTES_STEP: Final = 1_000
"""So many that were told go at once, where there is no room: some 150 kB."""


def apply_retention(
    path: Path, database: sqlite3.Connection, before: datetime, max_bytes: int
) -> None:
    """Let go of what is older, and of the oldest while more is in use. Raises TimelineError."""
    with sqlite_errors(path):
        with transaction(path, database):
            _delete_notes(database, before)
            # All before the last picture of an earlier time, though never the newest picture.
            (seq,) = database.execute(
                "SELECT max(seq) FROM pictures"
                " WHERE at <= ? AND seq < (SELECT max(seq) FROM pictures)",
                (to_milliseconds(before),),
            ).fetchone()
            _delete_changes(database, int(seq or 0))
        while used_bytes(database) > max_bytes and _delete_oldest(path, database):
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


def _delete_oldest(path: Path, database: sqlite3.Connection) -> bool:
    """Let go of what was seen before the second picture, or of some that was told before that."""
    second = database.execute(
        "SELECT seq, at FROM pictures ORDER BY seq LIMIT 1 OFFSET 1"
    ).fetchone()
    sql = "SELECT max(at) FROM (SELECT at FROM told ORDER BY at LIMIT ?)"
    (noted_ms,) = next(note_rows(database, sql, NOTES_STEP))
    if second is None and noted_ms is None:
        return False
    with transaction(path, database):
        if noted_ms is None or (second is not None and second[1] <= noted_ms):
            _delete_changes(database, second[0])
        else:
            _delete_notes(database, from_milliseconds(noted_ms), included=True)
    return True


def _delete_changes(database: sqlite3.Connection, seq: int) -> None:
    for table in ("looks", "changes", "pictures"):
        database.execute(f"DELETE FROM {table} WHERE seq < ?", (seq,))


def _delete_notes(
    database: sqlite3.Connection, before: datetime, *, included: bool = False
) -> None:
    """Let go of what is older, `included` of that moment itself."""
    database.execute("DELETE FROM told WHERE at < ?", (to_milliseconds(before) + included,))


def note_rows(database: sqlite3.Connection, sql: str, *parameters: object) -> Iterator[Any]:
    """Return rows of the notes' table; none from a file of the format before, which has none."""
    if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'told'").fetchone():
        return database.execute(sql, parameters)
    return iter(())
