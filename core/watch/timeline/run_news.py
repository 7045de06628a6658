"""What runs did, for the timeline: the story that their journals tell, without each partition."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from core import paths
from core.clock import Clock
from core.cluster.state import ClusterState
from core.run.journal.journal import SUFFIX, JournalError
from core.run.journal.records import Kind as Wrote
from core.run.reporting.runs import read_journal
from core.run.reporting.views import Level, RunEvent
from core.watch.timeline.events import Event, Kind, Told

LEAST_SECONDS: Final = 2.0
AT_MOST_PART: Final = 20.0
"""Reading journals takes no more than the 20th part of the time."""


class RunNews:
    """Reads the journals of a cluster's runs on this machine, those that have changed.

    What was told by recorders before is not told again: `since` is the end of that.
    """

    def __init__(self, cluster_id: str, clock: Clock, since: datetime) -> None:
        self._cluster_id, self._clock, self._since = cluster_id, clock, since
        self._stamps: dict[str, tuple[int, int]] = {}
        self._told: dict[str, int] = {}
        self._said: dict[str, str] = {}
        """Why a journal cannot be read, as it was said."""
        self._due = float("-inf")

    def news(self, state: ClusterState) -> list[Event]:
        """Return what runs have done since the last call."""
        began = self._clock.monotonic()
        if began < self._due:
            return []
        found: list[Event] = []
        refused: dict[str, JournalError] = {}
        for path in sorted(paths.runs_dir(self._cluster_id).glob(f"*{SUFFIX}")):
            run = path.name.removesuffix(SUFFIX)
            try:
                found += self._of(run, path.stat().st_mtime_ns)
            except FileNotFoundError:
                continue  # it was removed meanwhile
            except JournalError as error:
                refused[run] = error
        spent = self._clock.monotonic() - began
        self._due = began + max(LEAST_SECONDS, spent * AT_MOST_PART)
        if not found:
            self._say(refused)
        return sorted(found, key=lambda event: event.at)

    def _say(self, refused: dict[str, JournalError]) -> None:
        """Raise what was not said of a journal yet; it is read again until it can be."""
        self._said = {run: said for run, said in self._said.items() if run in refused}
        for run, error in refused.items():
            if self._said.get(run) != str(error):
                self._said[run] = str(error)
                raise error

    def _of(self, run: str, changed: int) -> list[Event]:
        """Return what a run has done since its journal was read last."""
        path = paths.runs_dir(self._cluster_id) / f"{run}{SUFFIX}"
        wal = path.with_name(path.name + "-wal")
        stamp = (changed, wal.stat().st_mtime_ns if wal.exists() else 0)
        if self._stamps.get(run) == stamp:
            return []
        if run not in self._told and max(stamp) < self._since.timestamp() * 1e9:
            return []  # it ended before
        events = read_journal(self._cluster_id, run).view.events
        self._stamps[run] = stamp
        lines = [line for line in events if _matters(line)]
        first = self._told.get(run)
        if first is None:
            first = sum(line.at <= self._since for line in lines)
        self._told[run] = len(lines)
        by = f"run {run}"
        return [Event(line.at, Kind.RUN, None, Told(by, line.text)) for line in lines[first:]]


def _matters(line: RunEvent) -> bool:
    """Return whether a line is of the whole run: partitions and rates would drown the rest."""
    if line.kind == Wrote.MOVED.value:
        return line.level is not Level.GOOD
    return line.kind != Wrote.RATES_CHANGING.value
