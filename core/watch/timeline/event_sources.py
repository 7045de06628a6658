"""Event sources beside the cluster's changes: imbalance, runs, denied reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final, Protocol

import numpy as np

from core import paths
from core.clock import Clock
from core.cluster.state import ClusterState
from core.load.snapshot.format import LoadSnapshot
from core.load.view.heat import Metric
from core.load.view.totals import broker_totals
from core.load.view.verdicts import SKEW
from core.run.journal.journal import SUFFIX, JournalError
from core.run.journal.records import Kind as Wrote
from core.run.reporting.runs import read_journal
from core.run.reporting.views import Level
from core.units import counted, format_rate
from core.watch.timeline.events import Event, Kind, Note


class EventSource(Protocol):
    def news(self, state: ClusterState) -> list[Event]:
        """Return what there is to tell since the last call; `state` is what was just seen.

        Called about once a second, so it has to be quick, or to look more seldom itself. Raises
        TrimtabError: that is logged, and the others are asked all the same.
        """
        ...


RECORDER: Final = "recorder"
"""Who tells of the recorder's own limits, beside those that tell of the cluster."""
SETTLE_SECONDS: Final = 75.0
"""Some topics' configs are asked for again after a minute: until then they may be late."""


class AccessNotice:
    """Whether something of one kind can be read, told when that changes."""

    def __init__(self, kind: Kind, what: str) -> None:
        self._kind, self._what = kind, what
        self._access = False

    def notice(self, at: datetime, why: str) -> list[Event]:
        """Return what there is to tell; `why` it cannot be read now, "" when it can."""
        if bool(why) == self._access:
            return []
        self._access = bool(why)
        text = f"could not read {self._what}: {why}" if why else f"could read {self._what} again"
        return [Event(at, self._kind, None, Note(RECORDER, text))]


class ConfigAccess:
    """Looks on for topics whose configs the recorder may not read: no change of them shows."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._access = AccessNotice(Kind.CONFIG, "configs of topics")
        self._since: float | None = None

    def news(self, state: ClusterState) -> list[Event]:
        """Return that topics cannot be read, or can again, when that is new."""
        count = sum(topic.min_insync is None for topic in state.topics)
        if not count:
            self._since = None
            return self._access.notice(state.fetched_at, "")
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        if count < len(state.topics) and now - self._since < SETTLE_SECONDS:
            return []
        why = f"changes of {counted(count, 'topic')} of {len(state.topics):,} do not show"
        return self._access.notice(state.fetched_at, f"{why} (DESCRIBE_CONFIGS is missing?)")


class ReassignmentAccess:
    """Looks on for moves that the recorder may not see: that one begins does not show."""

    def __init__(self) -> None:
        self._access = AccessNotice(Kind.ASSIGNMENT, "what is in flight")

    def news(self, state: ClusterState) -> list[Event]:
        """Return that it cannot be read, or can again, when that is new."""
        return self._access.notice(state.fetched_at, state.moves_unknown)


RECOVERED: Final = 1.2
"""Under this many times its fair share a broker is in the band again; over SKEW it leaves it."""
POLL_SECONDS: Final = 10.0
MIN_DURATION: Final = timedelta(seconds=60)
"""What comes and goes in less is not told."""
_LEFT, _CAME_BACK = "left the band", "came back into the band"
_Key = tuple[int, str]


class LoadEvents:
    """Compares each new snapshot with the fair shares; `already_known` was told before."""

    def __init__(
        self,
        snapshot: Callable[[], LoadSnapshot | None],
        clock: Clock,
        already_known: Iterable[Event] = (),
    ) -> None:
        self._snapshot, self._clock = snapshot, clock
        self._due = float("-inf")
        self._last: datetime | None = None
        self._out: set[_Key] = set()
        self._turned: dict[_Key, datetime] = {}
        """Since when a broker has been on the other side of the band's edge."""
        for event in already_known:
            if isinstance(event.after, Note) and event.after.brokers:
                key = (event.after.brokers[0], event.after.by.rpartition(" ")[2])
                (self._out.add if event.after.text.startswith(_LEFT) else self._out.discard)(key)

    def news(self, state: ClusterState) -> list[Event]:
        """Return who left the band or came back, once it has lasted. Raises DocumentError."""
        if (now := self._clock.monotonic()) < self._due:
            return []
        self._due = now + POLL_SECONDS
        snapshot = self._snapshot()
        if snapshot is None or snapshot.window_end == self._last:
            return []
        self._last = at = snapshot.window_end
        totals = broker_totals(state, snapshot.aligned(state))
        found = []
        for metric in (Metric.IN, Metric.OUT):
            values, fair = totals.values[metric], totals.fair[metric]
            for column, broker in enumerate(totals.brokers.tolist()):
                if not totals.alive[column] or not fair[column] > 0 or np.isnan(values[column]):
                    continue
                ratio = float(values[column] / fair[column])
                since = self._since((broker, metric.value), ratio, at)
                if since is not None:
                    text = f"{ratio:.1f} × its fair share, {format_rate(float(values[column]))}"
                    left = (broker, metric.value) in self._out
                    text = f"{_LEFT if left else _CAME_BACK}: {text}"
                    note = Note(f"broker {broker} {metric.value}", text, (broker,))
                    found.append(Event(since, Kind.LOAD, None, note))
        return found

    def _since(self, key: _Key, ratio: float, at: datetime) -> datetime | None:
        """Return since when a broker is on the other side, once it has stayed there."""
        out = key in self._out
        turned = ratio < RECOVERED if out else ratio >= SKEW
        if not turned:
            self._turned.pop(key, None)
            return None
        since = self._turned.setdefault(key, at)
        if at - since < MIN_DURATION:
            return None
        del self._turned[key]
        (self._out.discard if out else self._out.add)(key)
        return since


MIN_INTERVAL_SECONDS: Final = 2.0
COST: Final = 20.0
"""Reading journals takes no more than the 20th part of the time."""


class RunEvents:
    """Reads the journals of a cluster's runs on this machine, those that have changed.

    What was told by recorders before is not told again: `since` is the end of that.
    """

    def __init__(self, cluster_id: str, clock: Clock, since: datetime) -> None:
        self._cluster_id, self._clock, self._since = cluster_id, clock, since
        self._stamps: dict[str, tuple[int, int]] = {}
        self._told: dict[str, int] = {}
        self._reported: dict[str, str] = {}
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
        self._due = began + max(MIN_INTERVAL_SECONDS, spent * COST)
        if found:
            return sorted(found, key=lambda event: event.at)
        # What was not said of a journal yet is raised; it is read again until it can be.
        self._reported = {run: why for run, why in self._reported.items() if run in refused}
        for run, refusal in refused.items():
            if self._reported.get(run) != str(refusal):
                self._reported[run] = str(refusal)
                raise refusal
        return []

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
        # Of the whole run: partitions and rates would drown the rest.
        lines = [line for line in events if line.kind != Wrote.RATES_CHANGING.value]
        moved, fine = Wrote.MOVED.value, Level.GOOD
        lines = [line for line in lines if line.kind != moved or line.level is not fine]
        first = self._told.get(run)
        if first is None:
            first = sum(line.at <= self._since for line in lines)
        self._told[run] = len(lines)
        by = f"run {run}"
        return [Event(line.at, Kind.RUN, None, Note(by, line.text)) for line in lines[first:]]
