"""A dashboard on the demo's cluster for tests of the map, fed with pictures by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pictures
from hands import operated
from textual.pilot import Pilot

from core.cluster.log_dirs import with_log_dirs
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.demo import demo_spec
from core.cluster.state import ClusterState
from core.load.load import Load, Source
from tui.app import TrimtabApp
from tui.feed.events import PictureChanged
from tui.map.drag_controller import MapCanvas
from tui.map.screen import MapScreen
from tui.session import Freshness, Session

SIZES = pictures.SIZES
press = pictures.pressed
publish_events = pictures.publish_events
NOW = 1000.0


@cache
def demo_picture(brokers: int = 12) -> tuple[ClusterState, Load]:
    """Return the demo's cluster, whose broker 7 is hot and 12 almost idle, and its load."""
    cluster = SimulatedCluster(demo_spec(3, brokers, 900), 3)
    state = cluster.describe_cluster()
    state = with_log_dirs(state, cluster.describe_log_dirs([broker.id for broker in state.brokers]))
    rates = {
        TopicPartition(topic.name, n): partition.in_bytes_per_s
        for topic in cluster.spec.topics
        for n, partition in enumerate(topic.partitions)
    }
    known = np.array([rates[state.tp(i)] for i in range(state.partition_count)])
    return state, Load(known, known * 1.4, known / 1000, Source.SPARK, state.fetched_at)


def picture_changed(state: ClusterState, load: Load) -> PictureChanged:
    return PictureChanged(state, load, None, Freshness(NOW, 1.0), Freshness(NOW - 42, 60.0))


@asynccontextmanager
async def map_of(
    size: tuple[int, int] = (120, 40),
    *,
    picture: tuple[ClusterState, Load] | None = None,
    writable: bool = False,
    ascii_only: bool = False,
    few_colors: bool = False,
) -> AsyncIterator[Pilot[int]]:
    """Open the map on a picture, the demo's by default."""
    app = TrimtabApp(
        Session("prod-eu", writable=writable),
        monotonic=lambda: NOW,
        ascii_only=ascii_only,
        few_colors=few_colors,
    )
    async with operated(app, size) as pilot:
        await pilot.pause()
        await publish_events(pilot, picture_changed(*(picture or demo_picture())))
        yield pilot


def the_map(pilot: Pilot[int]) -> MapScreen:
    screen = pilot.app.screen
    assert isinstance(screen, MapScreen)
    return screen


def look(pilot: Pilot[int], **changes: Any) -> None:
    """Put the cursor somewhere at once."""
    screen = the_map(pilot)
    screen.view = replace(screen.view, **changes)
    screen.show(screen.session)


def session(pilot: Pilot[int]) -> Session:
    return the_map(pilot).session


def text(pilot: Pilot[int]) -> str:
    """Return all that is on the screen."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.text for strip in strips)


def lines(pilot: Pilot[int]) -> list[str]:
    return text(pilot).split("\n")


def row_of(pilot: Pilot[int], name: str) -> int:
    """Return the line, counted from the top of the map, on which a row's name stands."""
    for y, line in enumerate(lines(pilot)[1:]):
        if line[2:].startswith(f"{name} "):
            return y
    raise AssertionError(f"no row {name!r}:\n{text(pilot)}")


def column_of(pilot: Pilot[int], broker: int) -> int:
    """Return a column inside a broker's cell."""
    screen = the_map(pilot)
    assert screen.scene is not None
    at = screen.scene.columns.at(screen.scene.model.state.broker_ids.tolist().index(broker))
    assert at is not None
    return at + screen.scene.columns.cell - 1


async def mouse_down(pilot: Pilot[int], name: str, broker: int) -> None:
    await pilot.mouse_down(MapCanvas, offset=(column_of(pilot, broker), row_of(pilot, name)))
    await pilot.pause()


async def mouse_over(pilot: Pilot[int], y: int, broker: int) -> None:
    await pilot.hover(MapCanvas, offset=(column_of(pilot, broker), y))
    await pilot.pause()
