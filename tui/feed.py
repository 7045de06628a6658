"""Feed: the threads that read cluster, load and runs, and tell the dashboard what they saw.

No Textual in here: reading begins before Textual is imported, and events wait until `attach`.
Threads share only messages; what they deliver is immutable.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from core.cluster.connect import connect
from core.errors import AccessDeniedError, TrimtabError, UnreachableError
from core.load.snapshot import Float64, Load, Source
from tui.first_look import FirstLook
from tui.session import Freshness

if TYPE_CHECKING:
    from core.cli.context import Target
    from core.cluster.connect import Connection
    from core.cluster.document import DocumentGroup
    from core.cluster.state import ClusterState
    from core.load.background import Reader
    from core.load.snapshot import LoadSnapshot
    from core.run.progress import RunView

LOAD_POLL_SECONDS = 2.0
RUN_POLL_SECONDS = 1.0
GROUPS_POLL_SECONDS = 30.0
RETRY_SECONDS = 2.0
LIVE_INTERVAL_SECONDS = 15.0
SNAPSHOT_INTERVAL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Connected:
    """The cluster was opened."""

    connection: Connection


@dataclass(frozen=True, slots=True)
class PictureSeen:
    """A state and the load laid upon it; both or either are new."""

    state: ClusterState
    load: Load
    snapshot: LoadSnapshot | None
    metadata_age: Freshness | None
    load_age: Freshness | None


@dataclass(frozen=True, slots=True)
class ClusterLost:
    """The cluster could not be read; the threads go on trying."""

    error: TrimtabError


@dataclass(frozen=True, slots=True)
class RunSeen:
    """The newest run of this cluster, or None when there is none."""

    run: RunView | None


@dataclass(frozen=True, slots=True)
class GroupsSeen:
    """The consumer groups of this cluster, with their lags."""

    groups: tuple[DocumentGroup, ...]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something beside the cluster went wrong: said once, calmly."""

    error: TrimtabError


Event: TypeAlias = Connected | PictureSeen | ClusterLost | RunSeen | GroupsSeen | Trouble
Deliver: TypeAlias = Callable[[Event], None]


def relaid(load: Load, old: ClusterState, new: ClusterState) -> Load:
    """Return `load` of `old` laid upon `new`; partitions that `old` lacked are unknown."""
    if same_partitions(old, new):
        return load
    index = np.array([old.topic_index.get(topic.name, -1) for topic in new.topics], np.int64)
    wanted = (index[new.topic_of] << 32) | new.partition
    known = (old.topic_of.astype(np.int64) << 32) | old.partition
    at = np.searchsorted(known, wanted)
    at[at == len(known)] = 0
    found = known[at] == wanted if len(known) else np.zeros(len(wanted), np.bool_)

    def laid(column: Float64) -> Float64:
        out = np.full(len(wanted), np.nan)
        out[found] = column[at[found]]
        return out

    return Load(
        laid(load.in_bytes_per_s),
        laid(load.out_bytes_per_s),
        laid(load.messages_per_s),
        load.source,
        load.as_of,
    )


def _freshness(began: float) -> Freshness:
    """Return the freshness of what was asked for at `began` and is there now."""
    return Freshness(began, max(1.0, 10 * (time.monotonic() - began)))


def same_partitions(one: ClusterState, other: ClusterState) -> bool:
    """Return whether two states list the same partitions, so that columns can be shared."""
    return one is other or (
        one.partition_count == other.partition_count
        and len(one.topics) == len(other.topics)
        and all(a.name == b.name for a, b in zip(one.topics, other.topics, strict=True))
        and np.array_equal(one.topic_of, other.topic_of)
        and np.array_equal(one.partition, other.partition)
    )


class Feed:
    """Reads one target until `stop`; `attach` says where events go."""

    def __init__(self, target: Target, *, start_load: bool = True) -> None:
        self._target = target
        self._look: FirstLook | None = None
        self._start_load = start_load
        self._lock = threading.Lock()
        self._waiting: list[Event] = []
        self._deliver: Deliver | None = None
        self._stopped = threading.Event()
        self._painted = threading.Event()
        self._asked = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._state_known = threading.Event()
        self._connection: Connection | None = None
        self._state: ClusterState | None = None
        self._load: Load | None = None
        self._snapshot: LoadSnapshot | None = None
        self._metadata_age: Freshness | None = None
        self._load_age: Freshness | None = None
        self._reader: Reader | None = None
        self._told: str | None = None

    # -- called by the dashboard -----------------------------------------------------------------

    def start(self) -> None:
        """Begin reading the cluster; load and runs are read once the first map is painted.

        To be called before any thread is started: it may fork.
        """
        address = self._target.address
        if address is not None and FirstLook.suits(address):
            self._look = FirstLook(address)
        self._thread(self._read_document if self._target.from_file else self._read_cluster)

    def attach(self, deliver: Deliver) -> None:
        """Deliver what was seen so far, and everything from now on, from the reading threads."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._deliver = deliver
        for event in waiting:
            deliver(event)

    def painted(self) -> None:
        """Say that the map is on the screen: what costs imports may begin now."""
        if self._painted.is_set():
            return
        self._painted.set()
        # What is there now stays until the end: no collection need look at it again.
        gc.freeze()
        gc.enable()
        if not self._target.from_file:
            self._thread(self._read_load)
            self._thread(self._read_runs)
            self._thread(self._read_groups)

    def refresh(self) -> None:
        """Ask the cluster at once."""
        self._asked.set()

    def pause(self, paused: bool) -> None:
        if paused:
            self._running.clear()
        else:
            self._running.set()
            self._asked.set()

    def stop(self) -> None:
        """Stop reading; threads end by themselves, none is waited for."""
        self._stopped.set()
        if (look := self._look) is not None:
            look.stop()
        self._painted.set()
        self._running.set()
        self._asked.set()
        self._state_known.set()
        with self._lock:
            reader = self._reader
        if reader is not None:
            reader.close()

    # -- the threads -----------------------------------------------------------------------------

    def _thread(self, work: Callable[[], None]) -> None:
        threading.Thread(target=self._guard, args=(work,), name=work.__name__, daemon=True).start()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except TrimtabError as error:
            self._send(ClusterLost(error) if self._state is None else Trouble(error))
        except Exception:  # noqa: BLE001 - a bug in a thread must reach the log and the user
            if self._stopped.is_set():
                return
            from core.bugs import log_bug

            bug = TrimtabError(
                "This is a bug in trimtab: a part of the dashboard stopped.",
                detail=log_bug(),
            )
            self._send(ClusterLost(bug) if self._state is None else Trouble(bug))

    def _send(self, event: Event) -> None:
        with self._lock:
            if self._deliver is None:
                self._waiting.append(event)
                return
            deliver = self._deliver
        if not self._stopped.is_set():
            deliver(event)

    def _send_picture(self) -> None:
        with self._lock:
            if self._state is None:
                return
            load = self._load or Load.unknown(self._state)
            event = PictureSeen(
                self._state, load, self._snapshot, self._metadata_age, self._load_age
            )
        self._send(event)

    def _read_document(self) -> None:
        from core.load.locate import picture_of_document

        assert self._target.from_file is not None
        self._state, self._load = picture_of_document(self._target.from_file)
        self._send_picture()

    def _read_cluster(self) -> None:
        """Poll the cluster by the observer's cadence; after a failure try again more slowly."""
        began = time.monotonic()
        seen = self._first_look()
        if seen is not None:
            self._take_state(seen, _freshness(began))
            # What follows imports much, and so does the way to the screen.
            self._painted.wait()
            if self._stopped.is_set():
                return
        from core.cluster.observe import Observer

        assert self._target.address is not None
        connection = self._connection = connect(self._target.address)
        self._send(Connected(connection))
        observer = Observer(connection.client, connection.clock)
        if seen is not None:
            observer.first_look(lambda: seen)
            self._state_known.set()
        try:
            while not self._stopped.is_set():
                self._running.wait()
                began = time.monotonic()
                try:
                    if self._state is None:
                        # Sizes and configs can wait until there is something to look at.
                        state = observer.first_look(connection.client.describe)
                    else:
                        self._painted.wait()
                        state = observer.poll()
                except TrimtabError as error:
                    self._send(ClusterLost(error))
                    self._wait(RETRY_SECONDS)
                    continue
                self._take_state(state, _freshness(began))
                self._state_known.set()
                self._wait(max(0.05, observer.next_due()))
        finally:
            connection.client.close()

    def _first_look(self) -> ClusterState | None:
        """Return what the fork saw; None when there is none, or it ended without an answer."""
        if self._look is None:
            return None
        try:
            return self._look.result()
        finally:
            self._look = None

    def _take_state(self, state: ClusterState, age: Freshness) -> None:
        with self._lock:
            if self._state is not None and self._load is not None:
                self._load = relaid(self._load, self._state, state)
            self._state, self._metadata_age = state, age
        self._send_picture()

    def _read_load(self) -> None:
        """Follow published snapshots, and the collector's last interval until there are some."""
        from core.load import layout
        from core.load.locate import load_root, newest_snapshot
        from core.load.manifest import read_manifest

        self._state_known.wait()
        if self._start_load and not self._target.snapshots:
            self._begin_load()
        root = load_root(self._target.snapshots)
        seen: object = None
        while not self._stopped.is_set():
            self._running.wait()
            self._tell_trouble()
            state = self._state
            if state is not None:
                manifest = read_manifest(root, state.cluster_id)
                live = layout.live(root, state.cluster_id)
                newest = (
                    manifest.snapshot_id if manifest else None,
                    live.stat().st_mtime_ns if live.exists() else None,
                )
                if newest != seen:
                    seen = newest
                    snapshot = newest_snapshot(state.cluster_id, self._target.snapshots)
                    if snapshot is not None:
                        self._take_load(snapshot.aligned(state), state, snapshot)
            self._stopped.wait(LOAD_POLL_SECONDS)

    def _begin_load(self) -> None:
        from core.load.background import start_load

        assert self._target.address is not None
        assert self._state is not None
        reader = start_load(self._target.address, self._state.cluster_id)
        with self._lock:
            self._reader = reader
        if self._stopped.is_set() and reader is not None:
            reader.close()

    def _tell_trouble(self) -> None:
        """Say once why Spark does not run; the collector's last interval is there meanwhile."""
        trouble = self._reader.trouble() if self._reader else None
        if trouble is not None and trouble != self._told:
            self._send(Trouble(TrimtabError(trouble.splitlines()[0])))
        self._told = trouble

    def _take_load(self, load: Load, state: ClusterState, snapshot: LoadSnapshot) -> None:
        with self._lock:
            if self._load is not None and self._load.as_of == load.as_of:
                return
            self._load = relaid(load, state, self._state) if self._state else load
            self._snapshot = snapshot
            if load.as_of is not None and self._connection is not None:
                behind = (self._connection.clock.now() - load.as_of).total_seconds()
                live = load.source is Source.LIVE
                interval = LIVE_INTERVAL_SECONDS if live else SNAPSHOT_INTERVAL_SECONDS
                self._load_age = Freshness(time.monotonic() - max(0.0, behind), interval)
        self._send_picture()

    def _read_runs(self) -> None:
        """Follow the newest run of this cluster, whoever started it."""
        from core.run.progress import read_run
        from core.run.service import list_runs

        self._state_known.wait()
        last: RunView | None = None
        while not self._stopped.is_set():
            state = self._state
            if state is not None:
                runs = list_runs(state.cluster_id)
                if runs:
                    newest = max(runs, key=lambda run: run.started_at)
                    view = read_run(state.cluster_id, newest.run)
                    if view != last:
                        last = view
                        self._send(RunSeen(view))
            self._stopped.wait(RUN_POLL_SECONDS)

    def _read_groups(self) -> None:
        """Follow consumer groups slowly; when they cannot be read they stay what they were."""
        from core.cluster.document import read_groups

        self._state_known.wait()
        while not self._stopped.is_set():
            self._running.wait()
            connection = self._connection
            with suppress(AccessDeniedError, UnreachableError):
                if connection is not None:
                    self._send(GroupsSeen(read_groups(connection.client)))
            self._stopped.wait(GROUPS_POLL_SECONDS)

    def _wait(self, seconds: float) -> None:
        """Wait, unless somebody asks for more at once."""
        self._asked.wait(seconds)
        self._asked.clear()
