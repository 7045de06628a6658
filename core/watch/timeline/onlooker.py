"""Who looks on beside the recorder, and tells the timeline what no picture of the cluster shows."""

from __future__ import annotations

from typing import Protocol

from core.cluster.state import ClusterState
from core.watch.timeline.events import Event


class Onlooker(Protocol):
    def news(self, state: ClusterState) -> list[Event]:
        """Return what there is to tell since the last call; `state` is what was just seen.

        Called about once a second, so it has to be quick, or to look more seldom itself. Raises
        TrimtabError: that is logged, and the others are asked all the same.
        """
        ...
