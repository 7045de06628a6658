"""Observes one cluster: its state, its load, its configuration, and the runs of this machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from core import paths
from core.autopilot.decision import Reason
from core.autopilot.guards import MIN_KNOWN_PART
from core.autopilot.log import Entry, EntryKind
from core.autopilot.observation import (
    Imbalance,
    LoadView,
    Observation,
    leader_imbalance,
    placement_imbalance,
)
from core.autopilot.settings import MIN_LIVE_INTERVALS, AutopilotSettings
from core.autopilot.switch import Switch
from core.clock import Clock
from core.cluster.capacity import (
    UNKNOWN_CAPACITY,
    Capacity,
    configured_capacity,
    with_broker_capacity,
)
from core.cluster.client import ClusterClient
from core.cluster.known_names import name_and_id
from core.cluster.leaders import fetch_rebalance_settings, rebalance_interval_seconds
from core.cluster.observer import CONFIGS_SECONDS, Observer
from core.cluster.state import ClusterState
from core.errors import DocumentError, StoreError, UnreachableError, UsageError
from core.load.load import Load, Source, align_rows, take_rows
from core.load.snapshot.format import LoadSnapshot, Quality
from core.load.store import Root
from core.run.journal.journal import journal_path
from core.run.reporting.runs import calibration, left_behind, list_runs, read_run, unreadable
from core.run.reporting.views import RunStatus
from core.settings import load_settings
from core.units import format_bytes, format_duration


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """What is said of one cluster; of others, which of their brokers nothing may change."""

    capacity: Capacity = UNKNOWN_CAPACITY
    read_only: bool = False
    read_only_servers: frozenset[str] = frozenset()
    balancer_topics: frozenset[str] = frozenset()
    error: str = ""
    """Why the file cannot be read now, in a sentence: it may mark the cluster."""


class ConfigReader:
    """Of one cluster; as it was known last, and `error`, where the file cannot be read now."""

    def __init__(self, switch: Switch) -> None:
        self._name, self._bootstrap = switch.name, switch.address.bootstrap
        self._known = ClusterConfig(switch.address.capacity)
        self._was_there = False

    def read(self) -> ClusterConfig:
        path = paths.config_file()
        if path.exists():
            self._was_there = True
        elif self._was_there:  # what it marked is marked still
            return replace(self._known, error=f"{path} is gone.")
        try:
            settings = load_settings()
        except UsageError as error:  # it is being written, or wrong
            return replace(self._known, error=error.title)
        about = settings.about(self._name, self._bootstrap).values()
        self._known = ClusterConfig(
            configured_capacity(settings, self._name, self._bootstrap),
            any(cluster.read_only for cluster in about),
            settings.read_only_servers,
            settings.balancer_topics,
        )
        return self._known


HORIZONS = ("1h", "5m")
"""What is judged, the first that is known of enough partitions: an hour forgives a burst."""
USUAL = "24h"
"""What is planned by, where that is known of enough partitions, too."""


class LoadSource:
    """What is published of one cluster's load, look after look."""

    def __init__(self, root: Root, cluster_id: str) -> None:
        self._root, self._cluster_id = root, cluster_id
        self._live: deque[LoadSnapshot] = deque(maxlen=MIN_LIVE_INTERVALS)

    def look(self, state: ClusterState, now: datetime, stale_seconds: float) -> LoadView | None:
        """Return the best that there is, good or not; None when there is nothing."""
        from core.load.snapshot.reader import read_live, read_snapshot

        try:
            published = read_snapshot(self._root, self._cluster_id)
        except (UsageError, StoreError):
            published = None
        try:
            self._keep(read_live(self._root, self._cluster_id), stale_seconds)
        except DocumentError:
            self._live.clear()
        window = None if published is None else window_load_view(state, published)
        live = live_load_view(state, tuple(self._live)) if self._live else None
        if window is None or live is None:
            return window or live
        published_at, measured_at = window.load.as_of, live.load.as_of
        assert published_at is not None
        assert measured_at is not None
        is_fresh = now - published_at <= timedelta(seconds=stale_seconds)
        is_usable = is_fresh and window.good >= MIN_KNOWN_PART
        return window if is_usable or published_at > measured_at else live

    def _keep(self, live: LoadSnapshot | None, stale_seconds: float) -> None:
        """Keep successive intervals; after a gap they begin anew."""
        if live is None:
            self._live.clear()
            return
        if self._live:
            last = self._live[-1]
            if last.snapshot_id == live.snapshot_id:
                return
            gap = live.window_end - last.window_end
            if not timedelta(0) < gap <= timedelta(seconds=stale_seconds):
                self._live.clear()
        self._live.append(live)


def window_load_view(state: ClusterState, snapshot: LoadSnapshot) -> LoadView:
    """Return a published window as it is judged."""
    rows = align_rows(snapshot.topics, snapshot.topic_of, snapshot.partition, state)
    good = take_rows(snapshot.quality <= Quality.HALF, rows, unknown=False)
    for horizon in HORIZONS:
        load = snapshot.aligned(state, horizon)
        part = _known_part(state, load, good)
        if part >= MIN_KNOWN_PART:
            break

    def usual() -> Load | None:
        day = snapshot.aligned(state, USUAL)
        return day if _known_part(state, day, good) >= MIN_KNOWN_PART else None

    return LoadView(snapshot.snapshot_id, load, part, usual=usual)


def live_load_view(state: ClusterState, intervals: tuple[LoadSnapshot, ...]) -> LoadView:
    """Return the mean of the collector's last intervals; what one of them lacks is not known."""
    loads = [interval.aligned(state) for interval in intervals]
    newest, count = intervals[-1], len(intervals)
    produced = [load.in_bytes_per_s for load in loads]
    # By how much the mean of a few may be off; nothing tells it of one only.
    error = np.std(produced, axis=0, ddof=1) / np.sqrt(count) if count > 1 else None
    mean = Load(
        in_bytes_per_s=np.asarray(np.mean(produced, axis=0)),
        out_bytes_per_s=np.asarray(np.mean([load.out_bytes_per_s for load in loads], axis=0)),
        messages_per_s=np.asarray(np.mean([load.messages_per_s for load in loads], axis=0)),
        source=Source.LIVE,
        as_of=newest.window_end,
        in_error_bytes_per_s=None if error is None else np.asarray(error),
    )
    known = np.ones(state.partition_count, np.bool_)
    return LoadView(newest.snapshot_id, mean, _known_part(state, mean, known), count)


def _known_part(state: ClusterState, load: Load, good: np.ndarray) -> float:
    """Return the part of partitions that are known well: rate, size, and how they were measured."""
    if not state.partition_count:
        return 1.0
    known = ~np.isnan(load.in_bytes_per_s) & (state.partition_size_bytes >= 0) & good
    return float(known.mean())


class ClusterObserver:
    """Sees a cluster through a client; `root` is where its load is published. For one thread.

    `configured` tells at each look what config.toml says by then.
    """

    def __init__(
        self,
        client: ClusterClient,
        clock: Clock,
        cluster_id: str,
        root: Root,
        configured: Callable[[], ClusterConfig] = ClusterConfig,
    ) -> None:
        self._client, self._clock, self._cluster_id = client, clock, cluster_id
        self._configured = configured
        self._observer = Observer(client, clock)
        self._load_source = LoadSource(root, cluster_id)
        self._returns: float | None = None
        self._returns_due = float("-inf")
        self._ahead: dict[datetime, datetime] = {}
        """Ends of runs by a clock that has been set back since, and when they were first seen."""

    def look(self, settings: AutopilotSettings) -> Observation:
        """Return one look; reassignments first, so that what has just ended is seen as it ended.

        Raises UnreachableError, AccessDeniedError, or JournalError.
        """
        reassignments = self._client.fetch_reassignments()
        configured = self._configured()
        state = with_broker_capacity(self._observer.poll(), configured.capacity)
        state = replace(state, balancer_topics=configured.balancer_topics)
        if state.cluster_id != self._cluster_id:
            raise UnreachableError(
                f"This is cluster {name_and_id(state.cluster_id)}, not "
                f"{name_and_id(self._cluster_id)}.",
                next="Its address has become another cluster's; turn this autopilot off.",
            )
        now = self._clock.now()
        load_view = self._load_source.look(state, now, settings.stale_seconds)
        runs = list_runs(self._cluster_id)
        ends = [
            run.ended_at if run.ended_at <= now else self._ahead.setdefault(run.ended_at, now)
            for run in runs
            if run.ended_at is not None
        ]
        placement = leaders = None
        if load_view is not None:
            placement = placement_imbalance(settings, state, load_view.load)
            leaders = leader_imbalance(settings, state, load_view.load)
        return Observation(
            now=now,
            state=state,
            capacity=configured.capacity,
            read_only=configured.read_only or state.has_any(configured.read_only_servers),
            config_error=configured.error,
            reassignments=reassignments,
            load_view=load_view,
            imbalance=placement,
            leader_imbalance=leaders,
            returns_every_seconds=self._rebalance_interval(state, leaders),
            running=tuple(run.run for run in runs if not run.state.ended),
            died=left_behind(self._cluster_id),
            unreadable=unreadable(self._cluster_id),
            run_ended_at=max(ends, default=None),
            known=calibration(self._cluster_id),
        )

    def _rebalance_interval(self, state: ClusterState, leaders: Imbalance | None) -> float | None:
        """Return how often brokers give leaders back; asked for while it matters, as configs are.

        Where that may not be asked nobody is taken to do it: an election too many does no harm.
        """
        if leaders is None or not leaders.outside:
            return None
        if (now := self._clock.monotonic()) >= self._returns_due:
            settings = fetch_rebalance_settings(self._client, state)
            self._returns = rebalance_interval_seconds(settings)
            self._returns_due = now + CONFIGS_SECONDS
        return self._returns

    def ended(self, run: str) -> Entry | None:
        """Return how a run of ours has ended; None while it goes on, or has to be brought back.

        One whose process died before it changed anything is over.
        """
        now = self._clock.now()
        if not journal_path(self._cluster_id, run).exists():
            why = Reason("ended", f"Run {run} is not known any more: its journal is gone.")
            return Entry(now, EntryKind.ENDED, (why,), run=run, ended_at=now)
        view = read_run(self._cluster_id, run)
        if not view.state.ended:
            return None
        if view.state is RunStatus.DIED and run in left_behind(self._cluster_id):
            return None
        how = f"Run {run} has ended ({view.state.value})"
        what = f"{format_bytes(view.moved_bytes)} copied in {format_duration(view.elapsed_seconds)}"
        return Entry(
            at=now,
            what=EntryKind.ENDED,
            reasons=(Reason("ended", f"{how}: {what}."),),
            run=run,
            bytes=float(view.moved_bytes),
            ended_at=now if view.ended_at is None else view.ended_at.astimezone(UTC),
        )
