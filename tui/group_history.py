"""What was recorded of consumer groups before the Groups screen looked itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

from core import paths
from core.errors import TrimtabError
from core.watch.groups.rebalances import Rebalance
from core.watch.timeline.events import Kind, Told
from core.watch.timeline.store import Timeline

BACK = timedelta(days=7)
MOST = 2_000
_BY = "group "


def recalled(cluster_id: str, until: datetime, seen: Iterable[Rebalance]) -> tuple[Rebalance, ...]:
    """Return what was recorded, and what was `seen` here of groups that nobody records."""
    recorded = recorded_rebalances(cluster_id, until)
    known = {one.group for one in recorded}
    unrecorded = (one for one in seen if one.group not in known)
    return tuple(sorted((*recorded, *unrecorded), key=lambda one: one.at)[-MOST:])


def recorded_rebalances(cluster_id: str, until: datetime) -> tuple[Rebalance, ...]:
    """Return the newest that the timeline has, the oldest first; none where nothing was recorded.

    A timeline that cannot be read is the Timeline's to tell of.
    """
    try:
        timeline = Timeline.read(paths.timeline_file(cluster_id))
    except TrimtabError:
        return ()
    try:
        events = deque(timeline.told(until - BACK, until, Kind.GROUP), MOST)
    except TrimtabError:
        return ()
    finally:
        timeline.close()
    return tuple(
        Rebalance(event.at, event.after.by.removeprefix(_BY), event.after.text, event.topic)
        for event in events
        if isinstance(event.after, Told) and event.after.by.startswith(_BY)
    )
