"""Small clusters for the timeline's tests, and a night that was recorded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from core import paths
from core.cluster.metadata import Broker, PartitionRow, Topic
from core.cluster.state import ClusterState
from core.watch.timeline.changes import find_changes
from core.watch.timeline.store import Timeline

BEGAN = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def row(
    topic: str,
    partition: int,
    replicas: Sequence[int],
    *,
    leader: int | None = None,
    isr: Sequence[int] | None = None,
    adding: Sequence[int] = (),
    removing: Sequence[int] = (),
) -> PartitionRow:
    in_sync = tuple(replicas if isr is None else isr)
    first = replicas[0] if leader is None else leader
    return PartitionRow(
        topic, partition, first, tuple(replicas), in_sync, tuple(adding), tuple(removing)
    )


def cluster(
    rows: Collection[PartitionRow],
    *,
    seconds: float = 0.0,
    down: Collection[int] = (),
    topics: Mapping[str, Topic] | None = None,
    controller: int | None = 1,
    brokers: Collection[int] = (1, 2, 3, 4),
) -> ClusterState:
    known = {r.topic: Topic(r.topic, f"id-{r.topic}", 1) for r in rows} | dict(topics or {})
    return ClusterState.build(
        cluster_id="watched",
        fetched_at=at(seconds),
        controller=controller,
        brokers=[Broker(b, "ab"[b % 2], "localhost", 9000 + b, b not in down) for b in brokers],
        topics=known.values(),
        partitions=rows,
    )


RECORDED = "recorded"


def record_night(cluster_id: str = RECORDED) -> None:
    """Record on this machine how broker 2 dies and returns, and how a topic is made."""
    whole = [row("orders", p, (2, 1)) for p in range(4)]
    without = [row("orders", p, (2, 1), leader=1, isr=(1,)) for p in range(4)]
    back = [row("orders", p, (2, 1), leader=1) for p in range(4)]
    pictures = [
        cluster(whole),
        cluster(without, seconds=10, down=(2,)),
        cluster(back, seconds=70),
        cluster([*back, row("new", 0, (1, 2))], seconds=100),
    ]
    timeline = Timeline.write(paths.timeline_file(cluster_id))
    timeline.begin(pictures[0])
    for before, after in pairwise(pictures):
        timeline.append(find_changes(before, after), after)
    timeline.note_poll(at(120))
    timeline.close()


def damage(path: Path) -> None:
    """Spoil all of a timeline but its first page: it can be opened, and not read."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
