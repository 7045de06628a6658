"""Makes the pictures of the dashboard from the simulated cluster.

Deterministic: a seeded cluster, a clock that stands still, keys instead of hands.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from pathlib import Path

import numpy as np
from hands import operated, rested
from shots.stories import Stage, recorded_night, run_at

from core import paths
from core.cluster.connect import Address, Connection
from core.cluster.documents.cluster_document import fetch_document_groups
from core.cluster.log_dirs import with_log_dirs
from core.cluster.metadata import TopicPartition
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.demo import demo_spec
from core.load.load import Float64, Load, Source
from core.load.simulated_load import (
    SimulatedLoad,
    as_if_at,
    build_snapshot,
    build_window,
    past_hours,
    window_starts,
)
from core.load.snapshot.format import LoadSnapshot
from core.load.snapshot.writer import write_snapshot
from core.load.windows import write_window
from core.run.reporting.report import markdown
from tui.app import FeedMessage, TrimtabApp
from tui.feed.events import Connected, GroupsChanged, PictureChanged, RunChanged
from tui.moves.screen import MovesScreen
from tui.session import Freshness, Session

SEED = 7
NOW = 1_000.0
AGE_SECONDS = 42.0
HISTORY = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: its name, the terminal's size, and the keys that lead there."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...] = ()
    theme: str = "dark"
    writable: bool = False
    run: Stage | None = None
    """How far a run is, when there is one."""
    history: bool = False
    """Whether windows of the hours before were published."""
    recorded: bool = False
    """Whether a broker died and came back while the timeline was recorded."""
    lived_seconds: float = 0.0
    """How long the cluster has lived on when it is looked at again, for rates."""


SHOTS = (
    Shot("map-80x24", (80, 24)),
    Shot("map-120x40", (120, 40)),
    Shot("map-200x60", (200, 60), ("a", "j", "a", "j", "a", "k"), writable=True, run=Stage.GOING),
    Shot("map-light-120x40", (120, 40), theme="light"),
    Shot("partitions-120x40", (120, 40), ("enter",)),
    Shot("drag-120x40", (120, 40), ("a", "enter", "j", "j", "space", "h", "h"), writable=True),
    Shot("drag-80x24", (80, 24), ("enter", "space", "h", "h"), writable=True),
    Shot("plan-120x40", (120, 40), ("a", "j", "a", "j", "a", "2"), writable=True),
    Shot("suggested-120x40", (120, 40), ("2", "a", "enter"), writable=True),
    Shot("suggested-80x24", (80, 24), ("2", "a", "enter", "b"), writable=True),
    Shot("moves-120x40", (120, 40), ("3",), writable=True, run=Stage.GOING),
    Shot("paused-120x40", (120, 40), ("3",), writable=True, run=Stage.PAUSED),
    Shot("report-120x40", (120, 40), ("3",), run=Stage.DONE),
    Shot("load-120x40", (120, 40), ("4", "s", *"llllll"), history=True),
    Shot("hour-120x40", (120, 40), ("4", *"[[", *"llllll"), history=True),
    Shot("hours-80x24", (80, 24), ("H", "j", "j"), history=True),
    Shot("timeline-120x40", (120, 40), ("5", *"[[["), recorded=True),
    Shot("then-120x40", (120, 40), ("5", *"[[[", "m"), recorded=True),
    Shot("changed-120x40", (120, 40), ("5", *"[[[[[[[", "b"), recorded=True),
    Shot("timeline-80x24", (80, 24), ("5", "[", "enter"), recorded=True),
    Shot("groups-120x40", (120, 40), ("6", "j", "j"), lived_seconds=30.0),
    Shot("groups-80x24", (80, 24), ("6", "j", "j"), lived_seconds=30.0),
    Shot("help-120x40", (120, 40), ("question_mark",)),
)


async def render(shot: Shot) -> str:
    """Return one picture as SVG."""
    with tempfile.TemporaryDirectory(prefix="trimtab-pictures-") as root:
        return await _render(shot, Path(root))


async def _render(shot: Shot, root: Path) -> str:
    if shot.recorded:
        cluster, timeline = recorded_night(SEED)
        os.environ["TRIMTAB_HOME"] = str(root)
        file = paths.timeline_file(cluster.describe_cluster().cluster_id)
        file.parent.mkdir(parents=True)
        file.write_bytes(timeline)
    else:
        cluster = SimulatedCluster(demo_spec(SEED), SEED)
    look = run_at(cluster, shot.run) if shot.run else None
    state = cluster.describe_cluster()
    state = with_log_dirs(state, cluster.describe_log_dirs([broker.id for broker in state.brokers]))
    rates = {
        TopicPartition(topic.name, n): partition.in_bytes_per_s
        for topic in cluster.spec.topics
        for n, partition in enumerate(topic.partitions)
    }
    known: Float64 = np.array([rates[state.tp(i)] for i in range(state.partition_count)])
    load = Load(known, known * 1.4, known / 1000, Source.SIMULATED, state.fetched_at)
    snapshot = published_hours(cluster, root) if shot.history else None
    app = TrimtabApp(
        Session(
            "prod-eu",
            writable=shot.writable,
            snapshots=str(root),
            address=Address("sim:") if shot.history else None,
        ),
        theme=shot.theme,
        monotonic=lambda: NOW,
    )
    picture = PictureChanged(
        state, load, snapshot, Freshness(NOW, 1.0), Freshness(NOW - AGE_SECONDS, 60.0)
    )
    async with operated(app, shot.size) as pilot:
        if shot.lived_seconds:
            connection = Connection(cluster, cluster.clock, Address("sim:"))
            app.post_message(FeedMessage(Connected(connection)))
        app.post_message(FeedMessage(picture))
        app.post_message(FeedMessage(GroupsChanged(fetch_document_groups(cluster) or ())))
        await rested(pilot)
        if look is not None:
            app.post_message(FeedMessage(RunChanged(look.view)))
            await rested(pilot)
            app.action_show_screen("map")
            await rested(pilot)
        for key in shot.keys:
            await pilot.press(key)
            await rested(pilot)
        if shot.lived_seconds:
            cluster.clock.sleep(shot.lived_seconds)
            await pilot.press("r")
            await rested(pilot)
        if look is not None and shot.run is Stage.DONE:
            assert isinstance(app.screen, MovesScreen)
            app.screen.show_run(look.view, markdown(look))
            await rested(pilot)
        return placed(app.export_screenshot(title="trimtab"))


def published_hours(cluster: SimulatedCluster, root: Path) -> LoadSnapshot:
    """Publish the hours before and a snapshot, as the simulator's process does; return that."""
    picture = SimulatedLoad.of(cluster)
    for number, hour in enumerate(past_hours(cluster.now - HISTORY, cluster.now), 1):
        write_snapshot(root, build_snapshot(cluster, as_if_at(picture, hour), number))
    snapshot = build_snapshot(cluster, picture, number + 1)
    write_snapshot(root, snapshot)
    for start in window_starts(cluster.now - HISTORY, cluster.now):
        write_window(root, snapshot.cluster_id, build_window(cluster, picture, start))
    return snapshot


_TEXT = re.compile(
    r'<text (?P<before>[^>]*?)x="(?P<x>[\d.]+)"(?P<middle>[^>]*?)'
    r'textLength="(?P<length>[\d.]+)"(?P<after>[^>]*)>(?P<text>[^<]*)</text>'
)


def placed(svg: str) -> str:
    """Return an SVG whose texts begin at their first character: some viewers drop leading blanks.

    The ids that Rich derives from the content stay; only blanks at both ends go.
    """

    def moved(match: re.Match[str]) -> str:
        text = unescape(match["text"]).replace("\xa0", " ")
        if not text.strip():
            return ""
        cell = float(match["length"]) / len(text)
        x = float(match["x"]) + cell * (len(text) - len(text.lstrip(" ")))
        inner = match["text"]
        while inner.startswith("&#160;"):
            inner = inner.removeprefix("&#160;")
        while inner.endswith("&#160;"):
            inner = inner.removesuffix("&#160;")
        length = cell * len(text.strip(" "))
        return (
            f'<text {match["before"]}x="{x:.1f}"{match["middle"]}'
            f'textLength="{length:.1f}"{match["after"]}>{inner}</text>'
        )

    return _TEXT.sub(moved, svg)


def draw(shots: Sequence[Shot]) -> Iterator[str]:
    """Yield one picture after the other; all processors draw."""
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as processes:
        yield from processes.map(_draw, shots)


def _draw(shot: Shot) -> str:
    return asyncio.run(render(shot))


def main(argv: Sequence[str]) -> int:
    """Write all pictures into a folder, or with `--check` compare; 1 when one differs."""
    parser = argparse.ArgumentParser(prog="python -P -m shots", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("screenshots"))
    parser.add_argument("--check", action="store_true", help="only compare; 1 when one differs")
    given = parser.parse_args(argv)
    os.environ.pop("NO_COLOR", None)
    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    if not given.check:
        given.folder.mkdir(parents=True, exist_ok=True)
    stale = []
    for shot, svg in zip(SHOTS, draw(SHOTS), strict=True):
        path = given.folder / f"{shot.name}.svg"
        if given.check and (not path.exists() or path.read_text(encoding="utf-8") != svg):
            stale.append(path)
        elif not given.check:
            path.write_text(svg, encoding="utf-8")
    for path in stale:
        print(f"{path} is not what the dashboard draws: make screenshots", file=sys.stderr)
    return 1 if stale else 0
