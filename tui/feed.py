"""Feed: the threads that read cluster and load, and tell the dashboard what they saw.

No Textual in here: reading begins before Textual is imported, and events wait until `attach`.
Threads share only messages; what they deliver is immutable.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from core.cluster.connect import connect
from core.errors import TrimtabError
from core.load.relaid import relaid
from core.load.snapshot import Load, Source
from tui.feed_events import (
    ClusterLost,
    Connected,
    Deliver,
    Event,
    GroupsSeen,
    PictureSeen,
    Trouble,
)
from tui.feed_watches import (
    Attempts,
    find_ground,
    watch_autopilot,
    watch_clients,
    watch_groups,
    watch_runs,
)
from tui.first_look import FirstLook
from tui.session import Freshness

if TYPE_CHECKING:
    from core.cli.context import Target
    from core.cluster.connect import Connection
    from core.cluster.state import ClusterState
    from core.load.background import Reader
    from core.load.snapshot import LoadSnapshot
    from core.watch.timeline.background import Recording

LOAD_POLL_SECONDS = 2.0
RETRY_SECONDS = 2.0
LIVE_INTERVAL_SECONDS = 15.0
SNAPSHOT_INTERVAL_SECONDS = 60.0


class Feed:
    """Reads one target until `stop`; `attach` says where events go."""

    def __init__(
        self,
        target: Target,
        *,
        start_load: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = target
        self._monotonic = monotonic
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
        self._recording: Recording | None = None
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
            self._thread(self._read_autopilot)
            self._thread(self._find_ground)
            self._thread(self._read_clients)

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
            begun = (self._reader, self._recording)
        for one in begun:
            if one is not None:
                one.close()

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
        from core.cluster.document_reader import read_document
        from core.load.locate import load_of_document

        assert self._target.from_file is not None
        document = read_document(self._target.from_file)
        self._state, self._load = document.state, load_of_document(document)
        self._send_picture()
        if document.groups is not None:
            self._send(GroupsSeen(document.groups))

    def _read_cluster(self) -> None:
        """Poll the cluster by the observer's cadence; after a failure try again more slowly."""
        began = self._monotonic()
        seen = self._first_look()
        if seen is not None:
            self._take_state(seen, Freshness(began, max(1.0, 10 * (self._monotonic() - began))))
            # What follows imports much, and so does the way to the screen.
            self._painted.wait()
            if self._stopped.is_set():
                return
        from core.cluster.observe import Observer

        assert self._target.address is not None
        connection = self._connection = connect(self._target.address)
        self._send(Connected(connection))
        observer = Observer(connection.client, connection.clock, self._monotonic)
        if seen is not None:
            observer.first_look(lambda: seen)
            self._state_known.set()
        asked = False
        try:
            while not self._stopped.is_set():
                self._running.wait()
                try:
                    if self._state is None:
                        # Sizes and configs can wait until there is something to look at.
                        state = observer.first_look(connection.client.describe)
                    else:
                        self._painted.wait()
                        state = observer.poll(at_once=asked)
                except TrimtabError as error:
                    self._send(ClusterLost(error))
                    asked = self._wait(max(RETRY_SECONDS, observer.next_due()))
                    continue
                age = Freshness(observer.metadata_at, observer.renewed_every_seconds)
                self._take_state(state, age)
                self._state_known.set()
                asked = self._wait(max(0.05, observer.next_due()))
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
        if self._start_load:
            self._begin_load()
        root = load_root(self._target.snapshots)
        seen: object = None
        attempts = Attempts(self._send, "Load")
        while not self._stopped.is_set():
            self._running.wait()
            self._tell_trouble()
            state = self._state
            with attempts.attempt():
                if state is not None:
                    manifest = read_manifest(root, state.cluster_id)
                    live = layout.live(root, state.cluster_id)
                    newest = (
                        manifest.snapshot_id if manifest else None,
                        live.stat().st_mtime_ns if live.exists() else None,
                    )
                    if newest != seen:
                        snapshot = newest_snapshot(state.cluster_id, self._target.snapshots)
                        if snapshot is not None:
                            self._take_load(snapshot.aligned(state), state, snapshot)
                        seen = newest
            self._stopped.wait(LOAD_POLL_SECONDS)

    def _begin_load(self) -> None:
        """Have the cluster recorded, and its load measured unless somebody else publishes it."""
        from core.load.background import start_load
        from core.watch.timeline.background import start_recording

        address = self._target.address
        assert address is not None
        assert self._state is not None
        cluster_id, foreign = self._state.cluster_id, self._target.snapshots
        reader = None if foreign else start_load(address, cluster_id)
        recording = start_recording(address, cluster_id, foreign)
        with self._lock:
            self._reader, self._recording = reader, recording
        if self._stopped.is_set():
            self.stop()

    def _tell_trouble(self) -> None:
        """Say once why what serves this reader does not run; what it left is there meanwhile."""
        told = (begun.trouble() for begun in (self._reader, self._recording) if begun is not None)
        trouble = next(filter(None, told), None)
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
                self._load_age = Freshness(self._monotonic() - max(0.0, behind), interval)
        self._send_picture()

    def _read_runs(self) -> None:
        self._state_known.wait()
        watch_runs(lambda: self._state, self._send, self._stopped)

    def _read_groups(self) -> None:
        self._state_known.wait()
        watch_groups(lambda: self._connection, self._send, self._running, self._stopped)

    def _read_clients(self) -> None:
        self._state_known.wait()
        address = self._target.address
        if self._state is not None and address is not None and not address.simulated:
            watch_clients(self._state.cluster_id, self._send, self._stopped)

    def _read_autopilot(self) -> None:
        self._state_known.wait()
        if self._target.address is not None:
            watch_autopilot(lambda: self._state, self._send, self._stopped)

    def _find_ground(self) -> None:
        self._state_known.wait()
        if self._state is not None and self._target.address is not None:
            find_ground(self._target.address, self._state.cluster_id, self._send, self._stopped)

    def _wait(self, seconds: float) -> bool:
        """Wait; return whether somebody asked for more at once instead."""
        asked = self._asked.wait(seconds)
        self._asked.clear()
        return asked
