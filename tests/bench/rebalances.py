"""How soon a rebalance is shown: on the Groups screen, and on the timeline, on real brokers.

Each from when the last client of the group holds its new partitions. A third consumer joins two,
and leaves them, of a classic group and of one of the new protocol.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from core import paths
from core.cluster.connect import Address, connect
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.sandbox.sandbox import Sandbox
from core.cluster.sandbox.workload import create_topics
from core.errors import TrimtabError
from core.load.load import Load
from core.watch.timeline.events import Kind, Note
from core.watch.timeline.group_changes import watch_in_thread
from core.watch.timeline.store import Timeline
from tests.acceptance.group_clients import Heard, Reader
from tests.bench.harness import arguments, brokers, home_folder, leave_and_print, summed_up
from tests.hands import operated
from tui.app import TrimtabApp
from tui.drawing.page import Page
from tui.session import Session

TOPIC = "bench.read"
CHANGES = 20
"""Of each protocol."""
WAIT_SECONDS = 30.0
SIZE, SIDE = (160, 50), 64
"""The terminal's, and how wide the screen's left half is in it."""
TWO, THREE = "2 members, 2+1 partitions", "3 members, 1+1+1 partitions"


def texts(cluster_id: str, since: datetime) -> list[str]:
    """Return what the timeline tells of groups since then."""
    try:
        timeline = Timeline.read(paths.timeline_file(cluster_id))
    except TrimtabError:
        return []
    try:
        events = list(timeline.notes(since, None, Kind.GROUP))
    finally:
        timeline.close()
    return [event.after.text for event in events if isinstance(event.after, Note)]


@contextmanager
def two_readers(sandbox: Sandbox, protocol: str) -> Iterator[list[Reader]]:
    """Give three readers of a group, two of which read already."""
    settings, heard = ConnectionSettings(sandbox.bootstrap), Heard()
    group = f"bench-{protocol}"
    readers = [Reader(settings, f"c{n}", group, TOPIC, heard, protocol=protocol) for n in (1, 2, 3)]
    try:
        for reader in readers[:2]:
            reader.start()
        yield readers
    finally:
        for reader in readers:
            reader.stop()


async def shown_after(sandbox: Sandbox, protocol: str) -> dict[str, list[float]]:
    """Return for each change the seconds until the screen, and the timeline, had it."""
    address = Address(sandbox.bootstrap)
    connection = connect(address)
    state = connection.client.describe_cluster()
    session = Session("bench", address=address, connection=connection)
    session.state, session.load = state, Load.unknown(state)
    app, ended = TrimtabApp(session), threading.Event()
    took: dict[str, list[float]] = {"screen": [], "timeline": []}
    watching = watch_in_thread(
        connect(address).client, state.cluster_id, lambda: not ended.is_set(), lambda events: None
    )
    with two_readers(sandbox, protocol) as readers, watching:
        async with operated(app, SIZE) as pilot:
            app.action_show_screen("groups")
            await pilot.press("s")
            await _until(lambda: sorted(len(r.assigned) for r in readers) == [0, 1, 2])
            await _until(lambda: f"bench-{protocol}" in app.screen.query_one(Page).text)
            await pilot.press("G")  # the group is the last by name
            for number in range(CHANGES):
                # At any moment between two looks.
                await asyncio.sleep(3 + random.Random(number).random())
                joins = number % 2 == 0
                wanted = THREE if joins else TWO
                since = datetime.now(UTC)
                change = readers[2].start if joins else readers[2].stop
                await asyncio.to_thread(change)
                reading = readers if joins else readers[:2]
                counts = [1, 1, 1] if joins else [1, 2]
                seen = {}
                deadline = time.monotonic() + WAIT_SECONDS
                happened = 0.0
                while len(seen) < len(took) or not happened:
                    now = time.monotonic()
                    assert now < deadline, f"{wanted} is not on {took.keys() - seen.keys()}"
                    if "timeline" not in seen and any(
                        wanted in text for text in texts(state.cluster_id, since)
                    ):
                        seen["timeline"] = now
                    if "screen" not in seen and _newest(app).startswith(f"rebalanced: {wanted}"):
                        seen["screen"] = now
                    if not happened and sorted(len(r.assigned) for r in reading) == counts:
                        happened = max(reader.assigned_at for reader in reading)
                    await asyncio.sleep(0.02)
                for where, at in seen.items():
                    # The coordinator may tell of it before the last client has heard.
                    took[where].append(max(0.0, at - happened))
        ended.set()
    return took


def _newest(app: TrimtabApp) -> str:
    """Return the newest rebalance on the screen, without its time."""
    lines = [line[:SIDE] for line in app.screen.query_one(Page).text.split("\n")]
    at = next((n for n, line in enumerate(lines) if "rebalances, UTC" in line), None)
    if at is None or at + 1 >= len(lines):
        return ""
    following = lines[at + 2].strip() if at + 2 < len(lines) else ""
    return f"{lines[at + 1][11:].strip()} {following}"


async def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def main() -> None:
    chosen = arguments(__doc__)
    delays: dict[str, Any] = {}
    overrides = {
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "500",
    }
    with brokers("rebalances", (1, 2, 3), overrides=overrides) as sandbox, home_folder():
        create_topics(ConnectionSettings(sandbox.bootstrap), {TOPIC: [(1,), (2,), (3,)]})
        for protocol in ("classic", "consumer"):
            took = asyncio.run(shown_after(sandbox, protocol))
            delays[protocol] = {where: summed_up(all) for where, all in took.items()}
    leave_and_print(delays, chosen.output)


if __name__ == "__main__":
    main()
