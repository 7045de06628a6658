"""What is remembered of runs that have ended, so that a list of hundreds folds no journal twice.

One file beside a cluster's journals. It may be lost or stale at any time: an entry holds only while
the journal has the size and the time of change that it had when it was read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from core import files
from core.errors import UsageError
from core.plan.calibration import Lesson
from core.run.tell import lessons
from core.run.tell.view import RunState, RunSummary
from core.units import format_time, parse_time

FORMAT = 6
NAME = "ended.json"


@dataclass(frozen=True, slots=True)
class Remembered:
    """An ended run in one line, whether it left anything in its cluster, and what it teaches."""

    summary: RunSummary
    left: bool
    lesson: Lesson | None = None


class Summaries:
    """The ended runs of one folder; what was learnt is on disk after `save`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._entries = _read(self._path)
        self._changed = False

    def stamp(self, journal: Path) -> list[int] | None:
        """Return what tells this content of a journal from another; take it before reading.

        None when the journal is not there any more.
        """
        try:
            found = journal.stat()
        except OSError:
            return None
        return [found.st_size, found.st_mtime_ns, found.st_ino]

    def find(self, journal: Path) -> Remembered | None:
        """Return what is known of a journal that has not changed since."""
        entry = self._entries.get(journal.name)
        try:
            if not isinstance(entry, dict) or entry["stamp"] != self.stamp(journal):
                return None
            lesson = entry["lesson"] and lessons.from_json(entry["lesson"])
            return Remembered(_from_json(entry["summary"]), bool(entry["left"]), lesson)
        except (UsageError, KeyError, TypeError, ValueError):
            return None  # it is read from its journal, which says what is wrong

    def learn(self, journal: Path, stamp: list[int] | None, known: Remembered) -> None:
        """Remember an ended run as it was at `stamp`."""
        entry = {
            "stamp": stamp,
            "summary": _to_json(known.summary),
            "left": known.left,
            "lesson": known.lesson and lessons.to_json(known.lesson),
        }
        self._entries[journal.name] = entry
        self._changed = True

    def save(self) -> None:
        """Write down what was learnt; on a disk that takes none it is learnt anew the next time."""
        if self._changed:
            entries = {
                name: entry
                for name, entry in self._entries.items()
                if (self._path.parent / name).exists()
            }
            document = {"format": FORMAT, "runs": entries}
            with suppress(OSError):
                files.write_text(self._path, json.dumps(document, separators=(",", ":")))
                self._path.chmod(0o600)
            self._changed = False


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] == FORMAT and isinstance(document["runs"], dict):
            return dict(document["runs"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing is remembered
    return {}


def _to_json(summary: RunSummary) -> dict[str, Any]:
    document = {field.name: getattr(summary, field.name) for field in fields(summary)}
    return document | {
        "state": summary.state.value,
        "started_at": format_time(summary.started_at),
        "ended_at": format_time(summary.ended_at) if summary.ended_at else None,
    }


def _from_json(document: Mapping[str, Any]) -> RunSummary:
    ended_at = document["ended_at"]
    times = {
        "state": RunState(document["state"]),
        "started_at": parse_time(document["started_at"]),
        "ended_at": parse_time(ended_at) if ended_at else None,
    }
    return RunSummary(**(dict(document) | times))
