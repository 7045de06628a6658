"""Recording put together: a recorder, who looks on beside it, and groups in their own thread."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from core.clock import Clock, SystemClock
from core.cluster.connect import Connection
from core.errors import TrimtabError
from core.load.locate import newest_snapshot
from core.watch.timeline.events import Event, Kind
from core.watch.timeline.group_watch import groups_watched
from core.watch.timeline.load_news import LoadNews
from core.watch.timeline.onlooker import Onlooker
from core.watch.timeline.recorder import Recorder, record
from core.watch.timeline.run_news import RunNews
from core.watch.timeline.store import Timeline
from core.watch.timeline.throttle_news import ThrottleNews
from core.watch.timeline.unread import ConfigsUnread, MovesUnread


def record_cluster(
    connection: Connection,
    cluster_id: str,
    timeline: Timeline,
    snapshots: str | None = None,
    *,
    keep_on: Callable[[], bool],
    tell: Callable[[list[Event] | TrimtabError], None],
) -> None:
    """Record a cluster until `keep_on` says no; what fails is told, and tried again.

    Load is what lies under `snapshots`, else this machine's own. `tell` is called by two threads.
    """
    clock = SystemClock()
    throttles = timeline.told(kinds=Kind.CONFIG)
    looking_on = (
        *_onlookers(cluster_id, clock, timeline, snapshots),
        ConfigsUnread(clock),
        MovesUnread(),
        ThrottleNews(connection.client, cluster_id, clock, throttles),
    )
    recorder = Recorder(connection.client, connection.clock, timeline, looking_on)
    with groups_watched(connection.client, cluster_id, keep_on, tell) as going:
        record(recorder, clock, keep_on=going, tell=tell)


def _onlookers(
    cluster_id: str, clock: Clock, timeline: Timeline, snapshots: str | None
) -> tuple[Onlooker, ...]:
    """Return those that go on where the recorder before left off."""
    runs = [event.at for event in timeline.told(kinds=Kind.RUN)]
    span = timeline.span
    since = max((*runs, datetime.now(UTC) if span is None else span[0]))
    load = timeline.told(kinds=Kind.LOAD)
    return (
        RunNews(cluster_id, clock, since),
        LoadNews(lambda: newest_snapshot(cluster_id, snapshots), clock, load),
    )
