"""How soon a change on real brokers is seen: on the map, and on the timeline.

Each from the answer of the call that makes it, at any moment between two looks: until the map draws
it, and until it can be read back from the timeline's file.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.cli.common.context import Target
from core.clock import SystemClock
from core.cluster.client import NewPartitions, NewTopic
from core.cluster.connect import Address
from core.cluster.kafka.client import KafkaClient
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.metadata import TopicPartition
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.errors import UsageError
from core.watch.timeline.events import Event, Kind
from core.watch.timeline.recorder import Recorder, run_recorder
from core.watch.timeline.store import Timeline
from tests.bench.harness import summed_up
from tests.hands import operated
from tests.waiting import eventually
from tui.app import TrimtabApp
from tui.feed.feed import Feed
from tui.map.drag_controller import MapCanvas
from tui.session import Session

WATCHED, MADE = "bench.watched", "bench.made"
P0 = TopicPartition(WATCHED, 0)
EACH = 10
"""So many changes of each of five kinds."""
WAIT_SECONDS = 30.0
SIZE = (160, 50)


@dataclass(frozen=True, slots=True)
class Change:
    """One change: how it is made, and how it shows on each of the two."""

    kind: str
    make: Callable[[], object]
    is_drawn: Callable[[str], bool]
    is_recorded: Callable[[Event], bool]


def change_delays(sandbox: Sandbox, folder: Path) -> dict[str, Any]:
    """Return in seconds how soon changes are seen, in all and by kind."""
    settings = ConnectionSettings(sandbox.bootstrap)
    create_topics(settings, {WATCHED: [(1, 2)]})
    client = KafkaClient(settings)
    try:
        with recorded(settings, folder / "real.timeline") as timeline:
            took = asyncio.run(_measure_delays(sandbox, client, timeline))
    finally:
        client.close()
    return {
        where: summed_up([by[where] for _, by in took])
        | {
            "kinds": {
                kind: summed_up([by[where] for change_kind, by in took if change_kind == kind])
                for kind in dict.fromkeys(kind for kind, _ in took)
            }
        }
        for where in ("map", "timeline")
    }


@contextmanager
def recorded(settings: ConnectionSettings, path: Path) -> Iterator[Timeline]:
    """Record the cluster in a thread of its own; give the timeline to read it back from."""
    ended = threading.Event()
    watching = KafkaClient(settings)

    def watch() -> None:
        timeline = Timeline.write(path)
        recorder = Recorder(watching, SystemClock(), timeline)
        run_recorder(
            recorder, SystemClock(), keep_on=lambda: not ended.is_set(), report=lambda _: None
        )
        timeline.close()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        eventually(lambda: _has_begun(path), WAIT_SECONDS)
        reader = Timeline.read(path)
        yield reader
        reader.close()
    finally:
        ended.set()
        thread.join()
        watching.close()


def _has_begun(path: Path) -> bool:
    try:
        timeline = Timeline.read(path)
    except UsageError:  # there is nothing in it yet
        return False
    try:
        return timeline.span is not None
    finally:
        timeline.close()


async def _measure_delays(
    sandbox: Sandbox, client: KafkaClient, timeline: Timeline
) -> list[tuple[str, dict[str, float]]]:
    address = Address(sandbox.bootstrap)
    feed = Feed(Target(address=address), start_load=False)
    app = TrimtabApp(Session("bench", address=address), feed=feed)
    feed.start()
    took = []
    async with operated(app, SIZE) as pilot:

        def drawn() -> str:
            return app.screen.query_one(MapCanvas).text

        await _until(lambda: WATCHED in drawn())
        for inside in (False, True):
            if inside:
                await _until(lambda: WATCHED in drawn() and MADE not in drawn())
                await pilot.press("g", "enter")
                await _until(lambda: bool(_row(drawn(), "p0")))
            for number in range(EACH):
                for change in _inside(client, number) if inside else _topics(client):
                    await asyncio.sleep(random.Random(len(took)).uniform(1.0, 2.0))
                    took.append((change.kind, await _timed(change, drawn, timeline)))
    return took


def _topics(client: KafkaClient) -> Iterator[Change]:
    def topic_created(event: Event) -> bool:
        return event.kind is Kind.TOPIC_CREATED and event.topic == MADE

    def gone(event: Event) -> bool:
        return event.kind is Kind.TOPIC_DELETED and event.topic == MADE

    new = NewTopic(MADE, ((3, 1),))
    yield Change(
        "topic made", lambda: client.create_topics([new]), lambda t: MADE in t, topic_created
    )
    yield Change(
        "topic deleted", lambda: client.delete_topics([MADE]), lambda t: MADE not in t, gone
    )


def _inside(client: KafkaClient, number: int) -> Iterator[Change]:
    """Yield what changes within a topic: who holds P0, who leads it, how many there are in all."""
    comes, goes = (3, 2) if number % 2 == 0 else (2, 3)
    held = (1, comes)

    def is_held(text: str) -> bool:
        marks = _marks(text)
        return marks[comes - 1 : comes] == ["○"] and marks[goes - 1 : goes] == ["·"]

    def has_moved(event: Event) -> bool:
        return event.tp == P0 and getattr(event.after, "replicas", None) == held

    def leads(event: Event) -> bool:
        return bool(event.kind & Kind.LEADER) and getattr(event.after, "leader", None) == comes

    yield Change(
        "replica moved", lambda: client.alter_reassignments({P0: held}), is_held, has_moved
    )
    client.alter_reassignments({P0: held[::-1]})
    yield Change(
        "leader elected",
        lambda: client.elect_leaders([P0]),
        lambda text: _marks(text)[comes - 1 : comes] == ["●"],
        leads,
    )
    client.alter_reassignments({P0: held})
    client.elect_leaders([P0])
    total = number + 2
    yield Change(
        "partition added",
        lambda: client.add_partitions({WATCHED: NewPartitions(total, ((3, 1),))}),
        lambda text: bool(_row(text, f"p{total - 1}")),
        lambda event: event.tp == TopicPartition(WATCHED, total - 1),
    )


def _marks(text: str) -> list[str]:
    """Return what the map shows of P0 for each broker."""
    return [mark for mark in _row(text, "p0") if mark in "●○·"]


def _row(text: str, name: str) -> str:
    """Return the row of a partition, after the cursor's columns; "" where there is none."""
    lines = (line[2:] for line in text.split("\n"))
    return next((line for line in lines if line.startswith(f"{name} ")), "")


async def _timed(change: Change, drawn: Callable[[], str], timeline: Timeline) -> dict[str, float]:
    since = datetime.now(UTC) - timedelta(seconds=1)
    assert not change.is_drawn(drawn()), f"{change.kind}: it is there already"
    await asyncio.to_thread(change.make)
    began, seen = time.monotonic(), dict[str, float]()
    while len(seen) < 2:
        passed = time.monotonic() - began
        assert passed < WAIT_SECONDS, f"{change.kind} is only on {[*seen]}\n{drawn()}"
        if "map" not in seen and change.is_drawn(drawn()):
            seen["map"] = passed
        if "timeline" not in seen and any(map(change.is_recorded, timeline.events(since))):
            seen["timeline"] = passed
        await asyncio.sleep(0.02)
    return seen


async def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
