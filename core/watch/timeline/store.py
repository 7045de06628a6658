"""The timeline's store: one SQLite file per cluster, of changes and periodic full states.

One process records, others may tell of what they do, any number read at the same time. The cluster
at a moment is the last picture before it and the changes since; how many those may be bounds the
time of a jump.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from heapq import merge
from pathlib import Path
from typing import Any, Final

from core.cluster.state import ClusterState
from core.errors import UsageError
from core.watch.timeline import codec as packing
from core.watch.timeline import database_file as tables
from core.watch.timeline.changes import apply_changes
from core.watch.timeline.codec import from_milliseconds, to_milliseconds
from core.watch.timeline.database_file import (
    open_to_read,
    open_to_write,
    sqlite_errors,
    transaction,
)
from core.watch.timeline.events import ALL_KINDS, Event, Kind, Note

STATE_CHANGES: Final = 5_000
"""After so many changes a whole picture is kept: a jump applies no more than these."""
STATE_MS: Final = 86_400_000
"""And with the first change after a day: what is old is let go up to a picture."""
RETENTION: Final = timedelta(days=30)
MAX_BYTES: Final = 200_000_000


class Timeline:
    """An open timeline; times are aware and in UTC, kept to the millisecond.

    Times of looks only rise, also where the clock was set back: order is what is relied on.
    """

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self.path = path
        self._database = database
        self._topics: dict[str, int] = {}
        self._since_picture = self._picture_ms = 0

    @classmethod
    def write(cls, path: Path) -> Timeline:
        """Open for who records or tells, made when it is not there. Raises TimelineError."""
        timeline = cls(path, open_to_write(path))
        try:
            with sqlite_errors(path):
                sql = "SELECT max(seq), max(at) FROM pictures"
                seq, at = timeline._database.execute(sql).fetchone()
                timeline._topics = timeline._numbers()
                timeline._since_picture = timeline._next_seq() - int(seq or 1)
                timeline._picture_ms = int(at or 0)
        except BaseException:
            timeline.close()
            raise
        return timeline

    @classmethod
    def read(cls, path: Path) -> Timeline:
        """Open for reading. Raises TimelineError, UsageError for one that is not there."""
        database = open_to_read(path)
        if database is None:
            raise UsageError(
                "Nothing has been recorded of this cluster on this machine.",
                next="Record it: trimtab -b HOST:PORT timeline --record, or open the dashboard.",
            )
        return cls(path, database)

    def close(self) -> None:
        self._database.close()

    def begin(self, state: ClusterState) -> None:
        """Keep a whole picture; what is written next came after it. Raises TimelineError."""
        with transaction(self.path, self._database):
            at = max(to_milliseconds(state.fetched_at), self._last_ms())
            self._keep(state, self._next_seq(), at)
        self._since_picture = 0

    def append(self, events: Sequence[Event], after: ClusterState) -> None:
        """Keep what was seen at one look, and the picture when it is time for one."""
        if not events:
            return
        with transaction(self.path, self._database):
            seq = self._next_seq()
            added = self._add_topics(events)
            topics = self._topics | added if added else self._topics
            at = max(to_milliseconds(events[0].at), self._last_ms() + 1)
            self._database.execute("INSERT INTO looks VALUES (?, ?)", (seq, at))
            self._database.executemany(
                "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)",
                (
                    (
                        *(seq + n, int(e.kind), None if e.topic is None else topics[e.topic]),
                        e.partition,
                        *(packing.encode(e.before), packing.encode(e.after)),
                    )
                    for n, e in enumerate(events)
                ),
            )
            since_picture = self._since_picture + len(events)
            if since_picture >= STATE_CHANGES or at - self._picture_ms >= STATE_MS:
                self._keep(after, seq + len(events), at)
                since_picture = 0
        # Only now: what was not kept must not be counted on.
        self._topics, self._since_picture = topics, since_picture

    def note_poll(self, at: datetime) -> None:
        """Note that the cluster was looked at, and was as it was. Raises TimelineError."""
        with transaction(self.path, self._database):
            sql = "INSERT OR REPLACE INTO seen VALUES (1, ?)"
            self._database.execute(sql, (to_milliseconds(at),))

    def report(self, events: Sequence[Event]) -> None:
        """Keep what somebody tells of; `after` of each is a Note. Raises TimelineError."""
        if not events:
            return
        rows = []
        for event in events:
            if not isinstance(event.after, Note):
                raise TypeError(f"not a note: {event}")
            of = event.after
            at = (to_milliseconds(event.at), int(event.kind), event.topic, event.partition)
            rows.append((*at, of.by, of.text, json.dumps(of.brokers)))
        sql = "INSERT INTO told (at, kind, topic, partition, by, text, brokers)"
        with transaction(self.path, self._database):
            self._database.executemany(f"{sql} VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def forget(self, before: datetime, max_bytes: int = MAX_BYTES) -> None:
        """Let go of what is older, and of the oldest while the file is larger than `max_bytes`.

        The picture that the rest begins with stays. Raises TimelineError.
        """
        tables.apply_retention(self.path, self._database, before, max_bytes)

    @property
    def bytes(self) -> int:
        """Return how large the file is, what is free in it left out."""
        with sqlite_errors(self.path):
            return tables.used_bytes(self._database)

    def _keep(self, state: ClusterState, seq: int, at: int) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO pictures VALUES (?, ?, ?)",
            (seq, at, packing.encode_state(state)),
        )
        self._picture_ms = at

    def _last_ms(self) -> int:
        """Return when the newest look or picture is of."""
        (last,) = self._first(
            "SELECT max(coalesce((SELECT at FROM looks ORDER BY seq DESC LIMIT 1), 0),"
            " coalesce((SELECT at FROM pictures ORDER BY seq DESC LIMIT 1), 0))"
        )
        return int(last)

    def _next_seq(self) -> int:
        (following,) = self._first(
            "SELECT max(coalesce((SELECT max(seq) + 1 FROM changes), 1),"
            " coalesce((SELECT max(seq) FROM pictures), 1))"
        )
        return int(following)

    def _first(self, sql: str, *parameters: object) -> Any:
        """Return the first row, None for none. Raises TimelineError."""
        with sqlite_errors(self.path):
            return self._database.execute(sql, parameters).fetchone()

    def _numbers(self) -> dict[str, int]:
        rows = self._database.execute("SELECT number, name FROM topics")
        return {packing.text_of(name): number for number, name in rows}

    def _add_topics(self, events: Sequence[Event]) -> dict[str, int]:
        """Give numbers to the topics that have none yet, and return those."""
        added = {}
        for name in dict.fromkeys(event.topic for event in events):
            if name is not None and name not in self._topics:
                row = self._database.execute("INSERT INTO topics (name) VALUES (?)", (name,))
                assert row.lastrowid is not None
                added[name] = row.lastrowid
        return added

    @contextmanager
    def as_of_now(self) -> Iterator[None]:
        """Read all within as of one moment, whatever is kept or let go of meanwhile."""
        with sqlite_errors(self.path):
            self._database.execute("BEGIN")
            try:
                yield
            finally:
                if self._database.in_transaction:
                    self._database.execute("COMMIT")

    @property
    def span(self) -> tuple[datetime, datetime] | None:
        """Return from when to when the cluster is known; None when nothing was recorded."""
        (first,) = self._first("SELECT min(at) FROM pictures")
        (last,) = self._first(
            "SELECT max(at) FROM (SELECT max(at) AS at FROM looks"
            " UNION SELECT max(at) FROM pictures UNION SELECT at FROM seen)"
        )
        return None if first is None else (self._time(first), self._time(last))

    @property
    def noted(self) -> datetime | None:
        """Return when the cluster was last noted as looked at, by the clock as it was then."""
        row = self._first("SELECT at FROM seen")
        return None if row is None else self._time(row[0])

    def events(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        kinds: Kind = ALL_KINDS,
    ) -> Iterator[Event]:
        """Yield changes and notes from `since` to `until`, both included, of `kinds` or all."""
        changes = self.changes(since, until, kinds)
        notes = self.notes(since, until, kinds)
        return merge(changes, notes, key=lambda event: event.at)

    def changes(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        kinds: Kind = ALL_KINDS,
    ) -> Iterator[Event]:
        """Yield the changes that were seen in that time, without notes."""
        with sqlite_errors(self.path):
            yield from self._changes_between(self._from(since), self._to(until), kinds)

    def notes(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        kinds: Kind = ALL_KINDS,
    ) -> Iterator[Event]:
        """Yield the notes of that time, in the order of their times, without changes."""
        with sqlite_errors(self.path):
            rows = tables.note_rows(
                self._database,
                "SELECT at, kind, topic, partition, by, text, brokers FROM told"
                " WHERE at >= ? AND at <= ? AND (? = 0 OR kind & ?) ORDER BY at, seq",
                -(2**62) if since is None else to_milliseconds(since),
                2**62 if until is None else to_milliseconds(until),
                *(int(kinds), int(kinds)),
            )
            for at, kind, topic, partition, by, text, brokers in rows:
                note = packing.decode_note(by, text, brokers)
                named = None if topic is None else packing.text_of(topic)
                number = packing.partition_of(partition)
                yield Event(from_milliseconds(at), Kind(kind), None, note, named, number)

    @property
    def last_note(self) -> int:
        """Return a number that rises with each thing that is told; 0 for nothing."""
        with sqlite_errors(self.path):
            (last,) = next(tables.note_rows(self._database, "SELECT max(seq) FROM told"), (0,))
        return int(last or 0)

    @property
    def note_span(self) -> tuple[datetime, datetime] | None:
        """Return of which times something was told; None for nothing."""
        with sqlite_errors(self.path):
            rows = tables.note_rows(self._database, "SELECT min(at), max(at) FROM told")
            first, last = next(rows, (None, None))
        if first is None or last is None:
            return None
        return self._time(first), self._time(last)

    def _time(self, milliseconds: int) -> datetime:
        """Return a time; raises TimelineError for what is none."""
        with sqlite_errors(self.path):
            return from_milliseconds(milliseconds)

    @property
    def topics(self) -> set[str]:
        """Return the topics that anything was kept or told of."""
        with sqlite_errors(self.path):
            sql = "SELECT DISTINCT topic FROM told WHERE topic IS NOT NULL"
            noted = tables.note_rows(self._database, sql)
            return {*self._numbers(), *(packing.text_of(topic) for (topic,) in noted)}

    @property
    def note_brokers(self) -> set[int]:
        """Return the brokers that anything was told of."""
        with sqlite_errors(self.path):
            rows = tables.note_rows(self._database, "SELECT DISTINCT brokers FROM told")
            return {broker for (among,) in rows for broker in packing.decode_brokers(among)}

    def since_newest_notes(self, count: int) -> datetime | None:
        """Return since when no more than `count` were told of; None for all."""
        with sqlite_errors(self.path):
            sql = "SELECT at FROM told ORDER BY at DESC LIMIT 1 OFFSET ?"
            row = next(tables.note_rows(self._database, sql, count), None)
        return None if row is None else self._time(row[0] + 1)

    def moments(self, since: datetime | None, until: datetime | None) -> list[datetime]:
        """Return when something changed, in order."""
        with sqlite_errors(self.path):
            rows = self._database.execute(
                "SELECT at FROM looks WHERE seq >= ? AND seq < ? ORDER BY seq",
                (self._from(since), self._to(until)),
            )
            return [from_milliseconds(at) for (at,) in rows]

    def since_newest(self, count: int) -> datetime | None:
        """Return since when there are at most `count` changes, or one look; None for all."""
        last, first = self._first("SELECT max(seq), min(seq) FROM looks")
        first_kept = self._next_seq() - count
        if first is None or first >= first_kept:
            return None
        sql = "SELECT at FROM looks WHERE seq >= ? ORDER BY seq LIMIT 1"
        return self._time(self._first(sql, min(first_kept, last))[0])

    def state_at(self, moment: datetime) -> ClusterState | None:
        """Return the cluster as it was; None before it was first seen.

        Sizes, lags and log dirs are not kept.
        """
        with sqlite_errors(self.path):
            # A picture that was kept with the last change of a look is as new as that look.
            row = self._first(
                "SELECT seq, at, data FROM pictures WHERE at <= ? ORDER BY seq DESC LIMIT 1",
                to_milliseconds(moment),
            )
            if row is None:
                return None
            seq, at, data = row
            state = packing.decode_state(data, from_milliseconds(at))
            changes = self._changes_between(seq, self._to(moment), ALL_KINDS, onward=True)
            return apply_changes(state, changes, moment)

    def _from(self, since: datetime | None) -> int:
        """Return the number of the first change that was seen at `since` or later."""
        return 0 if since is None else self._first_seq(">=", since)

    def _to(self, until: datetime | None) -> int:
        """Return the number of the first change after `until`."""
        return self._next_seq() if until is None else self._first_seq(">", until)

    def _first_seq(self, is_when: str, moment: datetime) -> int:
        sql = f"SELECT seq FROM looks WHERE at {is_when} ? ORDER BY seq LIMIT 1"
        row = self._first(sql, to_milliseconds(moment))
        return int(row[0]) if row else self._next_seq()

    def _changes_between(
        self, first: int, last: int, kinds: Kind, *, onward: bool = False
    ) -> Iterator[Event]:
        """Yield changes; for going `onward` from a picture without what was before a new thing."""
        names = {number: name for name, number in self._numbers().items()}
        observations = self._database.execute(
            "SELECT seq, at FROM looks WHERE seq < ? AND seq >="
            " coalesce((SELECT max(seq) FROM looks WHERE seq <= ?), 0) ORDER BY seq",
            (last, first),
        ).fetchall()
        rows = self._database.execute(
            "SELECT seq, kind, topic, partition, before, after FROM changes"
            " WHERE seq >= ? AND seq < ? AND (? = 0 OR kind & ?) ORDER BY seq",
            (first, last, int(kinds), int(kinds)),
        )
        look = 0
        for seq, kind, topic, partition, before, after in rows:
            while look + 1 < len(observations) and observations[look + 1][0] <= seq:
                look += 1
            yield Event(
                from_milliseconds(observations[look][1]),
                Kind(kind),
                None if onward and after is not None else packing.decode(before, kind, partition),
                packing.decode(after, kind, partition),
                names.get(topic),
                packing.partition_of(partition),
            )
