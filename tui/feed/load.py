"""The newest state with its load, shared by the feed's threads, and how the load is followed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import TrimtabError
from core.load.load import Load, Source, realign_load
from tui.feed.events import Deliver, PictureChanged, Trouble
from tui.feed.watchers import Attempts
from tui.session import Freshness

if TYPE_CHECKING:
    from core.cli.common.context import Target
    from core.cluster.connect import Connection
    from core.cluster.state import ClusterState
    from core.daemons.supervisor import Supervisor
    from core.load.snapshot.format import LoadSnapshot


class Picture:
    """State and load, each taken in by a thread of its own; all that leaves it is immutable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.state: ClusterState | None = None
        self._load: Load | None = None
        self._snapshot: LoadSnapshot | None = None
        self._metadata_age: Freshness | None = None
        self._load_age: Freshness | None = None

    def take_state(self, state: ClusterState, age: Freshness) -> PictureChanged:
        """Take in what the cluster is now; return the picture."""
        with self._lock:
            if self.state is not None and self._load is not None:
                self._load = realign_load(self._load, self.state, state)
            self.state, self._metadata_age = state, age
            return self._changed(state)

    def take_load(
        self, load: Load, state: ClusterState, snapshot: LoadSnapshot, age: Freshness | None
    ) -> PictureChanged | None:
        """Take in a load that fits `state`; return the picture, None when it is known already."""
        with self._lock:
            if self._load is not None and self._load.as_of == load.as_of:
                return None
            now = state if self.state is None else self.state
            self._load, self._snapshot = realign_load(load, state, now), snapshot
            self._load_age = age or self._load_age
            return self._changed(now)

    def _changed(self, state: ClusterState) -> PictureChanged:
        load = self._load or Load.unknown(state)
        return PictureChanged(state, load, self._snapshot, self._metadata_age, self._load_age)


LOAD_POLL_SECONDS = 2.0
STORE_POLL_SECONDS = 10.0
"""Each look at a store is paid for, and snapshots come no more often."""
LIVE_INTERVAL_SECONDS = 15.0
SNAPSHOT_INTERVAL_SECONDS = 60.0


class FeedLoad:
    """Lays published load upon a picture; what serves it is begun here, and closed by `close`."""

    def __init__(
        self,
        target: Target,
        picture: Picture,
        connection: Callable[[], Connection | None],
        send: Deliver,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target, self._picture, self._send = target, picture, send
        self._connection, self._monotonic = connection, monotonic
        self._lock = threading.Lock()
        self._supervisors: tuple[Supervisor | None, Supervisor | None] = (None, None)
        self._reported: str | None = None

    def begin(self) -> None:
        """Have the cluster recorded, and its load measured unless somebody else publishes it."""
        from core.load.daemon import start_load
        from core.watch.timeline.daemon import start_recording

        address, state = self._target.address, self._picture.state
        assert address is not None
        assert state is not None
        foreign = self._target.snapshots
        reader = None if foreign else start_load(address, state.cluster_id)
        recording = start_recording(address, state.cluster_id, foreign)
        with self._lock:
            self._supervisors = reader, recording

    def close(self) -> None:
        """Let go of what was begun; it ends by itself when nobody else needs it."""
        with self._lock:
            supervisors = self._supervisors
        for supervisor in supervisors:
            if supervisor is not None:
                supervisor.close()

    def follow(self, running: threading.Event, stopped: threading.Event) -> None:
        """Follow published snapshots, and the collector's last interval until there are some."""
        from core.load import load_paths as layout
        from core.load.load_source import newest_snapshot, version

        root = layout.root_of(self._target.snapshots)
        known: object = None
        attempts = Attempts(self._send, "Load")
        while not stopped.is_set():
            running.wait()
            self._report_trouble()
            state = self._picture.state
            with attempts.attempt():
                if state is not None:
                    newest = version(root, state.cluster_id)
                    if newest != known:
                        snapshot = newest_snapshot(state.cluster_id, self._target.snapshots)
                        if snapshot is not None and snapshot.has_rates:
                            load = snapshot.aligned(state)
                            age = self._age(load)
                            picture = self._picture.take_load(load, state, snapshot, age)
                            if picture is not None:
                                self._send(picture)
                        known = newest
            stopped.wait(LOAD_POLL_SECONDS if isinstance(root, Path) else STORE_POLL_SECONDS)

    def _age(self, load: Load) -> Freshness | None:
        """Return how old a load is by the cluster's clock; None while there is no clock."""
        connection = self._connection()
        if load.as_of is None or connection is None:
            return None
        behind = (connection.clock.now() - load.as_of).total_seconds()
        live = load.source is Source.LIVE
        interval = LIVE_INTERVAL_SECONDS if live else SNAPSHOT_INTERVAL_SECONDS
        return Freshness(self._monotonic() - max(0.0, behind), interval)

    def _report_trouble(self) -> None:
        """Say once why what serves this reader does not run; what it left is there meanwhile."""
        troubles = (
            supervisor.trouble() for supervisor in self._supervisors if supervisor is not None
        )
        trouble = next(filter(None, troubles), None)
        if trouble is not None and trouble != self._reported:
            self._send(Trouble(TrimtabError(trouble.splitlines()[0])))
        self._reported = trouble
