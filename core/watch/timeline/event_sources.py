"""Event sources beside the cluster's changes: imbalance, runs, denied reads, throttles."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from core import paths
from core.clock import Clock
from core.cluster.client import ClusterClient
from core.cluster.configs import Resource, ResourceKind
from core.cluster.kafka_errors import Fault
from core.cluster.state import ClusterState
from core.errors import AccessDeniedError
from core.load.snapshot.format import LoadSnapshot
from core.load.view.heat import Metric
from core.load.view.totals import broker_totals
from core.load.view.verdicts import SKEW
from core.run.external.throttles import any_rate, explain_throttles
from core.run.journal.journal import SUFFIX, JournalError
from core.run.journal.records import Kind as Wrote
from core.run.journal.throttle_values import ALL, RATES, Configs, entries
from core.run.reporting.runs import read_journal, with_throttles
from core.run.reporting.views import Level
from core.run.throttles.write_and_read_back import fetch_throttle_configs
from core.units import counted, format_rate
from core.watch.timeline.events import Event, Kind, Note

EventSource = Callable[[ClusterState], list[Event]]
"""Returns what there is to tell since the last call; it is given what was just seen.

Called about once a second, so it has to be quick, or to look more seldom itself. Raises
TrimtabError: that is logged, and the others are asked all the same.
"""
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


RECOVERED: Final = 1.2
"""Under this many times its fair share a broker is in the band again; over SKEW it leaves it."""
SNAPSHOT_SECONDS: Final = 10.0
MIN_DURATION: Final = timedelta(seconds=60)
"""What comes and goes in less is not told."""
_LEFT, _CAME_BACK = "left the band", "came back into the band"
_BrokerMetric = tuple[int, str]


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
        self._out: set[_BrokerMetric] = set()
        self._turned: dict[_BrokerMetric, datetime] = {}
        """Since when a broker has been on the other side of the band's edge."""
        for event in already_known:
            if isinstance(event.after, Note) and event.after.brokers:
                key = (event.after.brokers[0], event.after.by.rpartition(" ")[2])
                (self._out.add if event.after.text.startswith(_LEFT) else self._out.discard)(key)

    def news(self, state: ClusterState) -> list[Event]:
        """Return who left the band or came back, once it has lasted. Raises DocumentError."""
        if (now := self._clock.monotonic()) < self._due:
            return []
        self._due = now + SNAPSHOT_SECONDS
        snapshot = self._snapshot()
        if snapshot is None or snapshot.window_end == self._last:
            return []
        self._last = at = snapshot.window_end
        totals = broker_totals(state, snapshot.aligned(state))
        events = []
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
                    events.append(Event(since, Kind.LOAD, None, note))
        return events

    def _since(self, key: _BrokerMetric, ratio: float, at: datetime) -> datetime | None:
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
JOURNALS_COST: Final = 20.0
"""Reading journals takes no more than the 20th part of the time."""


class RunEvents:
    """Reads the journals of a cluster's runs on this machine, those that have changed.

    What was told by recorders before is not told again: `since` is the end of that.
    """

    def __init__(self, cluster_id: str, clock: Clock, since: datetime) -> None:
        self._cluster_id, self._clock, self._since = cluster_id, clock, since
        self._stamps: dict[str, tuple[int, int]] = {}
        self._counts: dict[str, int] = {}
        self._reported: dict[str, str] = {}
        """Why a journal cannot be read, as it was said."""
        self._due = float("-inf")

    def news(self, state: ClusterState) -> list[Event]:
        """Return what runs have done since the last call."""
        began = self._clock.monotonic()
        if began < self._due:
            return []
        events: list[Event] = []
        refused: dict[str, JournalError] = {}
        for path in sorted(paths.runs_dir(self._cluster_id).glob(f"*{SUFFIX}")):
            run = path.name.removesuffix(SUFFIX)
            try:
                events += self._of(run, path.stat().st_mtime_ns)
            except FileNotFoundError:
                continue  # it was removed meanwhile
            except JournalError as error:
                refused[run] = error
        spent = self._clock.monotonic() - began
        self._due = began + max(MIN_INTERVAL_SECONDS, spent * JOURNALS_COST)
        if events:
            return sorted(events, key=lambda event: event.at)
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
        if run not in self._counts and max(stamp) < self._since.timestamp() * 1e9:
            return []  # it ended before
        events = read_journal(self._cluster_id, run).view.events
        self._stamps[run] = stamp
        # Of the whole run: partitions and rates would drown the rest.
        lines = [line for line in events if line.kind != Wrote.RATES_CHANGING.value]
        moved, fine = Wrote.MOVED.value, Level.GOOD
        lines = [line for line in lines if line.kind != moved or line.level is not fine]
        first = self._counts.get(run)
        if first is None:
            first = sum(line.at <= self._since for line in lines)
        self._counts[run] = len(lines)
        by = f"run {run}"
        return [Event(line.at, Kind.RUN, None, Note(by, line.text)) for line in lines[first:]]


THROTTLES_SECONDS: Final = 60.0
"""As often as topics' other configs are looked at."""
IDLE_LISTS_SECONDS: Final = 600.0
"""How often topics' lists are looked at while no broker has a rate."""
THROTTLES_COST: Final = 10.0
"""So many times the duration of what was asked is it not asked again."""
_Config = tuple[Resource, str]
"""A broker or topic, and the config."""
_NOTE_TEXT = re.compile(r"(\S+) (?:set to|found at) (.+?)(?:, before it .*)?")


class ThrottleEvents:
    """Looks at throttles again and again; `already_known` was told before.

    Brokers' rates are asked for once a minute; topics' lists, of which there may be thousands, as
    often while any rate is set, else now and then: they throttle nothing without one. Neither more
    often than at ten times its duration by the `stopwatch`, this machine's time.

    What runs of this machine set is left to their own story.
    """

    def __init__(
        self,
        client: ClusterClient,
        cluster_id: str,
        clock: Clock,
        already_known: Iterable[Event] = (),
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._cluster_id, self._clock = client, cluster_id, clock
        self._stopwatch = stopwatch
        self._due = self._lists_due = self._idle_due = float("-inf")
        self._limited = False
        """Whether a rate was set at the last look: lists go as rates do."""
        self._first = True
        self._access = AccessNotice(Kind.CONFIG, "brokers' throttle rates")
        self._known: dict[_Config, str] = {}
        for event in already_known:
            self._remember(event)

    def _remember(self, event: Event) -> None:
        if not isinstance(event.after, Note) or event.after.by == RECORDER:
            return
        topic, brokers = event.topic, event.after.brokers
        of = Resource.topic(topic) if topic is not None else Resource.broker(brokers[0])
        if (match := _NOTE_TEXT.fullmatch(event.after.text)) is not None:
            self._known[of, match[1]] = match[2]
        else:
            self._known.pop((of, event.after.text.split(" ")[0]), None)

    def news(self, state: ClusterState) -> list[Event]:
        """Return what has changed since the last look. Raises what asking the cluster raises."""
        if (now := self._clock.monotonic()) < self._due:
            return []
        self._due = now + THROTTLES_SECONDS
        begun = self._stopwatch()
        try:
            answers = fetch_throttle_configs(self._client, brokers=state.alive_ids)
        except AccessDeniedError as error:  # of every broker
            return self._access.notice(state.fetched_at, error.title)
        faults = (answer for answer in answers.values() if isinstance(answer, Fault))
        denied = next((str(fault) for fault in faults if fault.is_denial), "")
        access = self._access.notice(state.fetched_at, denied)
        limited, self._limited = self._limited, any_rate(answers)
        self._due = self._after(now, begun, THROTTLES_SECONDS)
        if now >= (self._lists_due if limited or self._limited else self._idle_due):
            begun = self._stopwatch()
            names = (topic.name for topic in state.topics)
            lists = fetch_throttle_configs(self._client, names)
            self._lists_due = self._after(now, begun, THROTTLES_SECONDS)
            self._idle_due = self._after(now, begun, IDLE_LISTS_SECONDS)
            answers |= lists
        return [*access, *self._detect_changes(state, answers)]

    def _after(self, now: float, begun: float, seconds: float) -> float:
        return now + max(seconds, THROTTLES_COST * (self._stopwatch() - begun))

    def _detect_changes(self, state: ClusterState, answers: Configs) -> list[Event]:
        """Return what has changed, by what was asked for."""
        messages, unknown = self._read(state, answers)
        fresh = {key for key, words in messages.items() if words != self._known.get(key)}
        if fresh:
            # A run of ours may have set it right after its journal was read: that tells by now.
            brokers = {of for of, _ in fresh if of.kind is ResourceKind.BROKER}
            topics = (of.name for of in {of for of, _ in fresh} - brokers)
            ids = (int(broker.name) for broker in brokers)
            rechecked, _ = self._read(state, fetch_throttle_configs(self._client, topics, ids))
            fresh = {key for key in fresh if rechecked.get(key) == messages[key]}
        gone = {key for key in self._known if key not in messages and key not in unknown}
        events = [self._set(state, key, messages[key]) for key in sorted(fresh, key=str)]
        for key in sorted(gone, key=str):
            del self._known[key]
            if _exists(state, key[0]):
                events.append(_event(state, key, "is set no more"))
        self._first = False
        return events

    def _read(
        self, state: ClusterState, answers: Configs
    ) -> tuple[dict[_Config, str], set[_Config]]:
        """Return others' throttles in words, and of which known ones nothing can be said now."""
        throttles, faults = explain_throttles(answers, {}, {}, with_throttles(self._cluster_id))
        values: defaultdict[_Config, set[str]] = defaultdict(set)
        ours = set()
        for throttle in throttles:
            key = (throttle.resource, throttle.config)
            if throttle.run is not None:
                ours.add(key)
            else:
                values[key] |= entries(throttle.value) or {""}
        silent = {
            key
            for key in self._known
            if key[0] in faults or (key[0] not in answers and _exists(state, key[0]))
        }
        return {key: _format_value(key[1], of) for key, of in values.items()}, ours | silent

    def _set(self, state: ClusterState, key: _Config, words: str) -> Event:
        before, self._known[key] = self._known.get(key), words
        if before is not None:
            return _event(state, key, f"set to {words}, before it {before}")
        return _event(state, key, f"{'found at' if self._first else 'set to'} {words}")


def _format_value(config: str, values: set[str]) -> str:
    """Return a rate, or how many replicas a list names."""
    if config in RATES:
        (rate,) = values
        return format_rate(int(rate))
    if ALL in values:
        return "every replica"
    count = len(values - {""})
    return f"{count or 'no'} replica{'' if count == 1 else 's'}"


def _event(state: ClusterState, key: _Config, text: str) -> Event:
    of, config = key
    is_topic = of.kind is ResourceKind.TOPIC
    brokers = () if is_topic else (int(of.name),)
    note = Note(f"{of.kind.value} {of.name}", f"{config} {text}", brokers)
    return Event(state.fetched_at, Kind.CONFIG, None, note, of.name if is_topic else None)


def _exists(state: ClusterState, of: Resource) -> bool:
    if of.kind is ResourceKind.TOPIC:
        return state.topic(of.name) is not None
    return int(of.name) in state.broker_by_id
