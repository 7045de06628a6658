"""One SQLite file per run: what was asked, found, intended and done, on disk before it is done.

Records are only ever appended, by the run's own process; requests may be added by anybody. It is
refused when damaged, of a newer format, or where locks and fsync cannot be trusted: on a network.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from core import files, paths
from core.errors import TrimtabError, UsageError
from core.run.journal.records import Kind, Record, Request, Sample
from core.text.json_text import parse_json
from core.units import format_time, parse_time

FORMAT: Final = 3
"""The kinds of records and what they mean; earlier ones had fewer, and are read still."""
SUFFIX: Final = ".run"
KEPT_SAMPLES: Final = 120

_APPLICATION_ID: Final = 0x74726D74  # "trmt", so that another program's SQLite file is noticed
_UNUSABLE: Final = ("unable to open", "readonly", "is full", "is locked", "disk I/O")
"""What SQLite says of the disk, not of the file."""
_SCHEMA: Final = f"""
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE records (
    seq INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL
);
CREATE TABLE samples (seq INTEGER PRIMARY KEY, at TEXT NOT NULL, payload TEXT NOT NULL);
CREATE TABLE requests (
    seq INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL
);
"""


class JournalError(TrimtabError):
    """A journal cannot be read or written; nothing was changed because of it."""


class Journal:
    """An open journal. Every write is on disk when its call returns."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self.path = path
        self._database = database

    @classmethod
    def create(cls, path: Path) -> Journal:
        """Make a new journal, readable by its owner only.

        Raises JournalError when the place is unfit, FileExistsError when there is one already.
        Half of one never stays: it would be taken for a damaged journal.
        """
        try:
            paths.make_folder(path.parent)
            refuse_network(path.parent)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            raise
        except OSError as error:
            raise unfit(path, error.strerror or str(error)) from error
        with ExitStack() as undo:
            undo.callback(remove_journal, path)
            try:
                database = undo.enter_context(closing(_connect(path)))
                database.execute("PRAGMA journal_mode = WAL")
                database.executescript(f"BEGIN;{_SCHEMA}COMMIT;")
                files.sync(path.parent)
            except (sqlite3.Error, OSError) as error:
                raise unfit(path, str(error)) from error
            undo.pop_all()
        return cls(path, database)

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Open an existing journal; raises JournalError for one that must not be trusted."""
        if not path.is_file():
            raise JournalError(f"There is no run journal {path}.", next="`trimtab runs ls` lists.")
        refuse_network(path.parent)
        with _wrap_read_errors(path):
            database = _connect(path)
            try:
                application = database.execute("PRAGMA application_id").fetchone()[0]
                version = database.execute("PRAGMA user_version").fetchone()[0]
                if application != _APPLICATION_ID:
                    raise JournalError(
                        f"{path} is not a run journal.", next="Move it out of that folder."
                    )
                if version > FORMAT:
                    raise _too_new(path, f"it has format {version}, this one reads up to {FORMAT}")
            except BaseException:
                database.close()
                raise
        return cls(path, database)

    def check(self) -> None:
        """Raise JournalError when the file is damaged anywhere (reads all of it)."""
        with _wrap_read_errors(self.path):
            answer = self._database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if answer != "ok":
            raise _damaged(self.path, str(answer))

    def prove_writable(self) -> None:
        """Raise JournalError unless the disk takes a write (of what stands there already)."""
        with self._wrap_write_errors():
            self._database.execute(f"PRAGMA user_version = {FORMAT}")

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- writing --------------------------------------------------------------------------------

    def write(self, at: datetime, kind: Kind, payload: Mapping[str, Any]) -> Record:
        """Append a record; it is on disk when this returns."""
        seq = self._insert("records", at, kind.value, payload)
        return Record(seq, parse_time(format_time(at)), kind, payload)  # as it is read again

    def ask(self, at: datetime, kind: str, payload: Mapping[str, Any]) -> int:
        """Add a request, from any process; returns its number."""
        return self._insert("requests", at, kind, payload)

    def sample(self, at: datetime, payload: Mapping[str, Any]) -> None:
        """Add a sample and forget the oldest beyond KEPT_SAMPLES.

        Nothing is decided by samples, so that they wait for no fsync: brokers on the same disk
        would wait with them. The next record takes them along: in WAL mode what is written later is
        never there without what came before.
        """
        row = format_time(at), _to_json(payload)
        database = self._database
        with self._wrap_write_errors():
            database.execute("PRAGMA synchronous = NORMAL")
            try:
                database.execute("BEGIN IMMEDIATE")
                cursor = database.execute("INSERT INTO samples (at, payload) VALUES (?, ?)", row)
                oldest = (cursor.lastrowid or 0) - KEPT_SAMPLES
                database.execute("DELETE FROM samples WHERE seq <= ?", (oldest,))
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:  # within one the setting does not change
                    database.rollback()
                raise
            finally:
                database.execute("PRAGMA synchronous = FULL")

    def _insert(self, table: str, at: datetime, kind: str, payload: Mapping[str, Any]) -> int:
        with self._wrap_write_errors():
            cursor = self._database.execute(
                f"INSERT INTO {table} (at, kind, payload) VALUES (?, ?, ?)",
                (format_time(at), kind, _to_json(payload)),
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    @contextmanager
    def _wrap_write_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if self._database.in_transaction:
                self._database.rollback()
            raise JournalError(
                f"The journal {self.path} cannot be written: {error}.",
                next="Free space on that disk; nothing is changed without the journal.",
            ) from error

    # -- reading --------------------------------------------------------------------------------

    def records(self, after: int = 0) -> tuple[Record, ...]:
        """Return the records after number `after`, oldest first."""
        rows = self._rows("records", after)
        return tuple(Record(seq, at, self._kind(kind), payload) for seq, at, kind, payload in rows)

    def _kind(self, name: str) -> Kind:
        try:
            return Kind(name)
        except ValueError:
            raise _too_new(self.path, f"this one does not know its {name} records") from None

    def last_at(self) -> datetime | None:
        """Return the newest time of its records and samples; None while it has none."""
        with _wrap_read_errors(self.path):
            every = "SELECT at FROM records UNION ALL SELECT at FROM samples"
            newest = self._database.execute(f"SELECT max(at) FROM ({every})").fetchone()[0]
            return None if newest is None else parse_time(newest)

    def samples(self) -> tuple[Sample, ...]:
        with _wrap_read_errors(self.path):
            return tuple(
                Sample(parse_time(at), parse_json(payload))
                for at, payload in self._database.execute(
                    "SELECT at, payload FROM samples ORDER BY seq"
                )
            )

    def requests(self, after: int = 0) -> tuple[Request, ...]:
        """Return the requests after number `after`; anybody may write one: none is refused."""
        none = {"refused": "it is no request at all"}
        return tuple(
            Request(seq, at, kind, payload if isinstance(payload, dict) else none)
            for seq, at, kind, payload in self._rows("requests", after)
        )

    def _rows(self, table: str, after: int) -> list[tuple[int, datetime, str, Any]]:
        query = f"SELECT seq, at, kind, payload FROM {table} WHERE seq > ? ORDER BY seq"
        with _wrap_read_errors(self.path):
            return [
                (seq, parse_time(at), kind, parse_json(payload))
                for seq, at, kind, payload in self._database.execute(query, (after,))
            ]


def journal_path(cluster_id: str, run: str) -> Path:
    return paths.runs_dir(cluster_id) / f"{paths.safe_name(run)}{SUFFIX}"


def remove_journal(path: Path) -> None:
    """Remove a journal that nothing has been done by, with what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def refuse_network(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> None:
    """Raise JournalError when `folder` is on a network file system (known on Linux only)."""
    kind = _file_system(folder, mounts)
    if kind in _NETWORK:
        raise JournalError(
            f"{folder} is on a network file system ({kind}).",
            detail="A run's journal needs locks and fsync that hold.",
            next="Set TRIMTAB_HOME to a folder on a local disk.",
        )


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=10
    )
    try:
        database.execute("PRAGMA synchronous = FULL")
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def _wrap_read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError, UsageError) as error:
        if any(words in str(error) for words in _UNUSABLE):
            raise JournalError(
                f"The journal {path} cannot be read: {error}.",
                next="Make its disk writable again, with room; the journal itself may be whole.",
            ) from error
        raise _damaged(path, _reason(error)) from error


def _reason(error: Exception) -> str:
    return error.title.rstrip(".") if isinstance(error, TrimtabError) else str(error)


def _too_new(path: Path, why: str) -> JournalError:
    return JournalError(
        f"The journal {path} was written by a newer trimtab: {why}.",
        next="Use that one; nothing was changed.",
    )


def _damaged(path: Path, why: str) -> JournalError:
    return JournalError(
        f"The journal {path} is damaged: {why}.",
        next="Keep the file; see `trimtab throttles ls` for what may be left in the cluster.",
    )


def unfit(path: Path, why: str) -> JournalError:
    """Return the error of a place at which no journal can be made."""
    return JournalError(
        f"A run's journal cannot be made at {path}: {why}.",
        detail="No run starts without its journal.",
        next="Free or mount that disk writable, or set TRIMTAB_HOME to another place.",
    )


def _to_json(payload: Mapping[str, Any]) -> str:
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False)


_NETWORK: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "glusterfs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "beegfs", "gpfs", "9p"),
    )
)


def _file_system(folder: Path, mounts: Path) -> str | None:
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    target = folder.resolve()
    best: tuple[int, str | None] = (-1, None)
    for line in lines:
        head, _, tail = line.partition(" - ")
        fields = head.split(" ")
        if len(fields) < 5 or not tail:
            continue
        mount = Path(fields[4].encode().decode("unicode_escape"))
        if target.is_relative_to(mount) and len(mount.parts) >= best[0]:
            best = (len(mount.parts), tail.split(" ")[0])
    return best[1]
