"""Makes the pictures in screenshots/ from the simulated cluster: `python -m tui.screenshots DIR`.

Deterministic: a seeded cluster, a clock that stands still, keys instead of hands.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.cluster.state import ClusterState
    from core.run.progress import RunView

SEED = 7
NOW = 1_000.0
AGE_SECONDS = 42.0


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
    Shot("help-120x40", (120, 40), ("question_mark",)),
)


async def render(shot: Shot) -> str:
    """Return one picture as SVG."""
    from core.cluster.document import read_groups
    from core.cluster.simulation.cluster import SimulatedCluster
    from core.cluster.simulation.demo import demo_spec
    from core.cluster.state import TopicPartition
    from core.load.snapshot import Float64, Load, Source
    from tui.app import Seen, TrimtabApp
    from tui.feed import GroupsSeen, PictureSeen, RunSeen
    from tui.screens.map import MapScreen
    from tui.session import Freshness, Session

    cluster = SimulatedCluster(demo_spec(SEED), SEED)
    state = cluster.describe()
    state = state.with_logs(cluster.log_dirs([broker.id for broker in state.brokers]))
    import numpy as np

    rates = {
        TopicPartition(topic.name, n): partition.in_bytes_per_s
        for topic in cluster.spec.topics
        for n, partition in enumerate(topic.partitions)
    }
    known: Float64 = np.array([rates[state.tp(i)] for i in range(state.partition_count)])
    load = Load(known, known * 1.4, known / 1000, Source.SIMULATED, state.fetched_at)
    app = TrimtabApp(
        Session("prod-eu", writable=shot.writable), theme=shot.theme, monotonic=lambda: NOW
    )
    picture = PictureSeen(
        state, load, None, Freshness(NOW, 1.0), Freshness(NOW - AGE_SECONDS, 60.0)
    )
    async with app.run_test(size=shot.size) as pilot:

        async def rested() -> None:
            await pilot.pause()
            deadline = time.monotonic() + 60
            while isinstance(screen := app.screen, MapScreen) and screen.busy:
                screen.ahead.work_out()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{shot.name} is still being worked out")
                await pilot.pause(0.01)
            await app.workers.wait_for_complete()
            await pilot.pause()

        app.post_message(Seen(picture))
        app.post_message(Seen(GroupsSeen(read_groups(cluster))))
        await rested()
        if shot.run:
            app.post_message(Seen(RunSeen(run_in_progress(state))))
            await rested()
            app.action_show_screen("map")
            await rested()
        for key in shot.keys:
            await pilot.press(key)
            await rested()
        return placed(app.export_screenshot(title="trimtab"))


def run_in_progress(state: ClusterState) -> RunView:
    """Return a run that takes payments.v2 from broker 7 to 12: some done, some stuck, some not."""
    from datetime import timedelta

    from core.run.progress import (
        BrokerProgress,
        Level,
        MoveProgress,
        MoveState,
        RunEvent,
        RunState,
        RunView,
    )

    began = state.fetched_at.replace(hour=2, minute=11, second=1, microsecond=0)
    rate = 50_000_000
    states = (
        (MoveState.DONE, 1.0),
        (MoveState.DONE, 1.0),
        (MoveState.MOVING, 0.74),
        (MoveState.MOVING, 0.31),
        (MoveState.STUCK, 0.09),
        (MoveState.QUEUED, 0.0),
    )
    rows = [
        row
        for row in state.partitions_of("payments.v2")
        if 7 in state.replicas(row) and 12 not in state.replicas(row)
    ]
    moves = []
    for row, (kind, share) in zip(rows, states, strict=False):
        total = int(state.partition_size_bytes[row])
        before = tuple(state.replicas(row))
        moving = kind is MoveState.MOVING
        moves.append(
            MoveProgress(
                tp=state.tp(row),
                before=before,
                after=tuple(12 if broker == 7 else broker for broker in before),
                total_bytes=total,
                moved_bytes=int(total * share),
                bytes_per_s=rate / 2 if moving else 0.0 if kind is MoveState.STUCK else None,
                left_seconds=total * (1 - share) / (rate / 2) if moving else None,
                state=kind,
                why="stuck 4 m: b12 quota" if kind is MoveState.STUCK else "",
                batch=2 if kind is MoveState.QUEUED else 1,
                done_at=began + timedelta(minutes=19) if kind is MoveState.DONE else None,
            )
        )
    moved = sum(move.moved_bytes for move in moves)
    total = sum(move.total_bytes or 0 for move in moves)
    left = (total - moved) / rate
    return RunView(
        run="0101-021101",
        cluster_id=state.cluster_id,
        cluster_name="prod-eu",
        state=RunState.RUNNING,
        why="",
        pid=4711,
        started_at=began,
        ended_at=None,
        seen_at=began + timedelta(minutes=23),
        rate_bytes_per_s=rate,
        total_bytes=total,
        moved_bytes=moved,
        bytes_per_s=float(rate),
        average_bytes_per_s=float(rate),
        left_seconds=left,
        left_range=(left * 0.9, left * 1.2),
        estimated_seconds=total / rate,
        moves=tuple(moves),
        brokers=(
            BrokerProgress(7, "sends", float(rate), rate, "at its limit"),
            BrokerProgress(12, "receives", float(rate), rate, "at its limit"),
        ),
        events=(
            RunEvent(began, "started", "journal opened; original order kept"),
            RunEvent(began + timedelta(seconds=1), "throttle", "throttles set and read back"),
            RunEvent(began + timedelta(seconds=2), "batch", "batch 1 of 2 submitted"),
            *(
                RunEvent(move.done_at, "moved", f"{move.tp} done", Level.GOOD)
                for move in moves
                if move.done_at is not None
            ),
        ),
        batches=2,
    )


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
