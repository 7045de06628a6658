"""Makes the pictures in screenshots/ from the simulated cluster: `python -m tui.screenshots DIR`.

Deterministic: a seeded cluster, a clock that stands still, keys instead of hands.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from core.cluster.simulation.cluster import SimulatedCluster
    from core.load.snapshot import LoadSnapshot
    from core.run.view import RunView

SEED = 7
NOW = 1_000.0
AGE_SECONDS = 42.0
# The run in the pictures: how many moves, how large, how fast, and when it is looked at.
MOVES, LEAST_BYTES = 8, 2_000_000_000
RUN_RATE, FOREIGN_RATE = 100_000_000, 5_000_000
SLOW_MOVE, SLOW_BROKER = 3, 5
RUN_SECONDS = 90.0
HISTORY = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: its name, the terminal's size, and the keys that lead there."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...] = ()
    theme: str = "dark"
    writable: bool = False
    run: bool = False
    """Whether a run is in progress."""
    history: bool = False
    """Whether windows of the hours before were published."""


SHOTS = (
    Shot("map-80x24", (80, 24)),
    Shot("map-120x40", (120, 40)),
    Shot("map-200x60", (200, 60), ("a", "j", "a", "j", "a", "k"), writable=True, run=True),
    Shot("map-light-120x40", (120, 40), theme="light"),
    Shot("partitions-120x40", (120, 40), ("enter",)),
    Shot("drag-120x40", (120, 40), ("a", "enter", "j", "j", "space", "h", "h"), writable=True),
    Shot("drag-80x24", (80, 24), ("enter", "space", "h", "h"), writable=True),
    Shot("plan-120x40", (120, 40), ("a", "j", "a", "j", "a", "2"), writable=True),
    Shot("moves-120x40", (120, 40), ("3",), writable=True, run=True),
    Shot("load-120x40", (120, 40), ("4", "s", *"llllll"), history=True),
    Shot("help-120x40", (120, 40), ("question_mark",)),
)


async def render(shot: Shot) -> str:
    """Return one picture as SVG."""
    with tempfile.TemporaryDirectory(prefix="trimtab-pictures-") as root:
        return await _render(shot, Path(root))


async def _render(shot: Shot, root: Path) -> str:
    from core.cluster.broker_logs import with_logs
    from core.cluster.document import read_groups
    from core.cluster.simulation.cluster import SimulatedCluster
    from core.cluster.simulation.demo import demo_spec
    from core.cluster.state import TopicPartition
    from core.load.snapshot import Float64, Load, Source
    from tui.app import Seen, TrimtabApp
    from tui.feed_events import GroupsSeen, PictureSeen, RunSeen
    from tui.session import Freshness, Session

    cluster = SimulatedCluster(demo_spec(SEED), SEED)
    run = run_in_progress(cluster) if shot.run else None
    state = cluster.describe()
    state = with_logs(state, cluster.log_dirs([broker.id for broker in state.brokers]))
    import numpy as np

    rates = {
        TopicPartition(topic.name, n): partition.in_bytes_per_s
        for topic in cluster.spec.topics
        for n, partition in enumerate(topic.partitions)
    }
    known: Float64 = np.array([rates[state.tp(i)] for i in range(state.partition_count)])
    load = Load(known, known * 1.4, known / 1000, Source.SIMULATED, state.fetched_at)
    snapshot = published_hours(cluster, root) if shot.history else None
    app = TrimtabApp(
        Session("prod-eu", writable=shot.writable, snapshots=str(root)),
        theme=shot.theme,
        monotonic=lambda: NOW,
    )
    picture = PictureSeen(
        state, load, snapshot, Freshness(NOW, 1.0), Freshness(NOW - AGE_SECONDS, 60.0)
    )
    async with app.run_test(size=shot.size) as pilot:
        app.post_message(Seen(picture))
        app.post_message(Seen(GroupsSeen(read_groups(cluster))))
        await rested(pilot)
        if run is not None:
            app.post_message(Seen(RunSeen(run)))
            await rested(pilot)
            app.action_show_screen("map")
            await rested(pilot)
        for key in shot.keys:
            await pilot.press(key)
            await rested(pilot)
        return placed(app.export_screenshot(title="trimtab"))


def published_hours(cluster: SimulatedCluster, root: Path) -> LoadSnapshot:
    """Publish the hours before and a snapshot, as the simulator's process does; return that."""
    from core.load.published import write_snapshot
    from core.load.simulated_load import Picture, snapshot_of, window_of, window_starts
    from core.load.windows import write_window

    picture = Picture.of(cluster)
    snapshot = snapshot_of(cluster, picture, 1)
    write_snapshot(root, snapshot)
    for start in window_starts(cluster.now - HISTORY, cluster.now):
        write_window(root, snapshot.cluster_id, window_of(cluster, picture, start))
    return snapshot


async def rested(pilot: Pilot[int], seconds: float = 60.0) -> None:
    """Wait until nothing is being worked out and all that was found is drawn.

    Workers are looked at anew after each wait: one that is replaced by a newer one only goes.
    """
    from tui.screens.map import MapScreen

    app = pilot.app
    deadline = time.monotonic() + seconds
    while True:
        idle = not list(app.workers)
        await pilot.pause()
        busy = isinstance(screen := app.screen, MapScreen) and screen.busy
        if idle and not busy and not list(app.workers):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"still at work: {[worker.name for worker in app.workers]}")
        if isinstance(screen, MapScreen):
            screen.ahead.work_out()
        await asyncio.sleep(0.005)


def run_in_progress(cluster: SimulatedCluster) -> RunView:
    """Carry a small plan out on the cluster's own clock and return its view some way in.

    It takes the smallest replicas of broker 7 to its rack, in two batches, while somebody else's
    quota holds one destination back.
    """
    from core.cluster.broker_logs import with_logs
    from core.cluster.client import FOLLOWER_RATE, ConfigChange, ConfigOp, Resource
    from core.cluster.connect import Address
    from core.load.snapshot import Load
    from core.plan.check import Severity, drop_finding
    from core.plan.plan import Plan
    from core.run.progress import run_view
    from core.run.runner import Runner
    from core.run.service import RunOptions, create_journal

    slow = ConfigChange(
        Resource.broker(SLOW_BROKER), FOLLOWER_RATE, ConfigOp.SET, str(FOREIGN_RATE)
    )
    cluster.alter_configs([slow])
    state = cluster.describe()
    state = with_logs(state, cluster.log_dirs([broker.id for broker in state.brokers]))
    plan = Plan(state.cluster_id)
    for row in state.partition_size_bytes.argsort(kind="stable").tolist():
        tp, target = state.tp(row), SLOW_BROKER if len(plan) == SLOW_MOVE else 6
        if 7 not in state.replicas(row) or state.partition_size_bytes[row] < LEAST_BYTES:
            continue
        found = drop_finding(state, Load.unknown(state), plan, tp, 7, target)
        if found is None or found.severity < Severity.UNSAFE:
            plan = plan.with_move(state, tp, 7, target)
        if len(plan) == MOVES:
            break
    with tempfile.TemporaryDirectory(prefix="trimtab-pictures-") as home:
        os.environ["TRIMTAB_HOME"] = home
        options = RunOptions(RUN_RATE, cluster_name="prod-eu", batch_size=MOVES - 2)
        address = Address("sim:pictures")
        journal = create_journal(address, state.cluster_id, plan, options, None, at=cluster.now)
        runner = Runner(journal, cluster, cluster.clock)
        until = cluster.elapsed_seconds + RUN_SECONDS
        while cluster.elapsed_seconds < until and runner.history.ended is None:
            runner.advance()
        view = run_view(journal.records(), journal.samples(), living=True)
        journal.close()
    return view


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


def main(argv: Sequence[str]) -> int:
    """Write all pictures into a folder, or with `--check` compare; 1 when one differs."""
    check = "--check" in argv
    folders = [word for word in argv if not word.startswith("-")]
    folder = Path(folders[0] if folders else "screenshots")
    os.environ.pop("NO_COLOR", None)
    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    folder.mkdir(parents=True, exist_ok=True)
    stale = []
    for shot in SHOTS:
        svg = asyncio.run(render(shot))
        path = folder / f"{shot.name}.svg"
        if check and (not path.exists() or path.read_text(encoding="utf-8") != svg):
            stale.append(path)
        elif not check:
            path.write_text(svg, encoding="utf-8")
    for path in stale:
        print(f"{path} is not what the dashboard draws: make screenshots", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
