"""Who looks on beside a recorder of real brokers."""

from __future__ import annotations

from datetime import UTC, datetime

from core.clock import Clock
from core.load.locate import newest_snapshot
from core.watch.timeline.events import Kind
from core.watch.timeline.load_news import LoadNews
from core.watch.timeline.onlooker import Onlooker
from core.watch.timeline.run_news import RunNews
from core.watch.timeline.store import Timeline


def onlookers(cluster_id: str, clock: Clock, timeline: Timeline) -> tuple[Onlooker, ...]:
    """Return those that go on where the recorder before left off."""
    runs = [event.at for event in timeline.told(kinds=Kind.RUN)]
    span = timeline.span
    since = max((*runs, datetime.now(UTC) if span is None else span[0]))
    return (
        RunNews(cluster_id, clock, since),
        LoadNews(lambda: newest_snapshot(cluster_id), clock, timeline.told(kinds=Kind.LOAD)),
    )
