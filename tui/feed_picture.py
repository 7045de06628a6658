"""The picture that the feed's threads share: the newest state, and the load laid upon it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from core.load.realign import relaid
from core.load.snapshot.format import Load
from tui.feed_events import PictureSeen

if TYPE_CHECKING:
    from core.cluster.state import ClusterState
    from core.load.snapshot.format import LoadSnapshot
    from tui.session import Freshness


class Picture:
    """State and load, each taken in by a thread of its own; all that leaves it is immutable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.state: ClusterState | None = None
        self._load: Load | None = None
        self._snapshot: LoadSnapshot | None = None
        self._metadata_age: Freshness | None = None
        self._load_age: Freshness | None = None

    def take_state(self, state: ClusterState, age: Freshness) -> PictureSeen:
        """Take in what the cluster is now; return the picture."""
        with self._lock:
            if self.state is not None and self._load is not None:
                self._load = relaid(self._load, self.state, state)
            self.state, self._metadata_age = state, age
            return self._seen(state)

    def take_load(
        self, load: Load, state: ClusterState, snapshot: LoadSnapshot, age: Freshness | None
    ) -> PictureSeen | None:
        """Take in a load that fits `state`; return the picture, None when it is known already."""
        with self._lock:
            if self._load is not None and self._load.as_of == load.as_of:
                return None
            now = state if self.state is None else self.state
            self._load, self._snapshot = relaid(load, state, now), snapshot
            self._load_age = age or self._load_age
            return self._seen(now)

    def _seen(self, state: ClusterState) -> PictureSeen:
        load = self._load or Load.unknown(state)
        return PictureSeen(state, load, self._snapshot, self._metadata_age, self._load_age)
