"""What screens are tested with: a small cluster, a plan on it, a run, and a dashboard on them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

from clusters import cluster, load_of, tp
from hands import operated, rested
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Button, Static

from core.cluster.connect import Address
from core.cluster.state import ClusterState
from core.plan.plan import Plan
from core.run.reporting.views import (
    BrokerProgress,
    Level,
    MoveProgress,
    MoveStatus,
    RunEvent,
    RunStatus,
    RunView,
)
from tui.app import FeedMessage, TrimtabApp
from tui.drawing.canvas import Canvas
from tui.drawing.page import Page
from tui.drawing.spans import Lines, text_of
from tui.feed.events import Event, PictureChanged
from tui.session import PlanHistory, Session

SIZES = [(80, 24), (120, 40), (200, 60)]
GB = 10**9
MB = 10**6
PROPOSED = 100 * MB
"""The rate that suits `a_plan`: the slowest at which it is done in ten minutes."""

RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
STATE = cluster(
    {
        "orders-0": [1, 2, 3],
        "orders-1": [1, 5, 6],
        "orders-2": [4, 2, 3],
        "clicks-0": [1, 2, 6],
        "clicks-1": [2, 3, 4],
    },
    brokers=list(RACKS),
    racks=RACKS,
    size_bytes={"orders-0": 20 * GB, "orders-1": 10 * GB, "orders-2": 5 * GB, "clicks-0": GB},
    disk_bytes=(1000 * GB, 500 * GB),
)
LOAD = load_of(
    STATE, {"orders-0": 4e6, "orders-1": 3e6, "orders-2": 2e6, "clicks-0": 1e6, "clicks-1": 1e6}
)


def a_plan() -> Plan:
    """Two partitions lose their leader on broker 1 to 4, one changes its order only."""
    plan = Plan().with_move(STATE, tp("orders-0"), 1, 4).with_move(STATE, tp("orders-1"), 1, 4)
    return plan.with_leader(STATE, tp("clicks-0"), 2)


def a_session(plan: Plan | None = None, *, writable: bool = True) -> Session:
    session = Session("prod-eu", writable=writable, address=Address("sim:/nowhere"))
    session.state, session.load, session.runs_known = STATE, LOAD, True
    session.history = PlanHistory(a_plan() if plan is None else plan)
    return session


@asynccontextmanager
async def dashboard(
    session: Session,
    screen: str,
    size: tuple[int, int] = (120, 40),
    *,
    ascii_only: bool = False,
    wait: bool = True,
    monotonic: Callable[[], float] = lambda: 0.0,
) -> AsyncIterator[Pilot[int]]:
    """Open the dashboard on a session that nothing feeds, with one screen in front.

    Without `wait` its workers may still be at work.
    """
    app = TrimtabApp(session, monotonic=monotonic, ascii_only=ascii_only)
    async with operated(app, size) as pilot:
        app.action_show_screen(screen)
        await (rested(pilot) if wait else _composed(pilot))
        yield pilot


async def _composed(pilot: Pilot[int], seconds: float = 30.0) -> None:
    """Wait until the screen in front has its page; its workers may be at work yet."""
    deadline = time.monotonic() + seconds
    while not pilot.app.screen.query(Canvas):
        assert time.monotonic() < deadline, "the screen has no page"
        await pilot.pause()


async def pressed(pilot: Pilot[int], *keys: str) -> None:
    """Press keys as somebody does who looks: each when what the last one began is there."""
    for key in keys:
        await pilot.press(key)
        await rested(pilot)


def body(pilot: Pilot[int]) -> str:
    """Return what the screen in front shows between header and footer."""
    return pilot.app.screen.query_one(Page).text


def footer(pilot: Pilot[int]) -> str:
    """Return what the footer says, with what of a long message is above it."""
    drawn = (pilot.app.screen.query_one(id, Canvas).text for id in ("#message", "#footer"))
    return " ".join(line.strip() for lines in drawn for line in lines.splitlines())


def drawn(lines: Lines) -> str:
    """Return what lines say, beneath each other."""
    return "\n".join(text_of(line) for line in lines)


def button(pilot: Pilot[int], id: str) -> Button:
    return pilot.app.screen.query_one(f"#{id}", Button)


def label(pilot: Pilot[int], id: str) -> str:
    """Return what a label of the dialog in front says, in one line."""
    return " ".join(str(pilot.app.screen.query_one(f"#{id}", Static).render()).split())


async def publish_events(pilot: Pilot[int], *events: Event) -> None:
    """Let the dashboard see something, as a feed would."""
    for event in events:
        pilot.app.post_message(FeedMessage(event))
    await rested(pilot)


def in_sight(pilot: Pilot[int], widget: Widget) -> bool:
    """Return whether all of a widget is on the screen, with nothing over it."""
    screen, region = pilot.app.screen, widget.region
    corners = [region.offset, (region.right - 1, region.bottom - 1)]
    return screen.region.contains_region(region) and all(
        screen.get_widget_at(*corner)[0] is widget for corner in corners
    )


def spot(pilot: Pilot[int], words: str) -> tuple[int, int]:
    """Return where words are drawn, relative to the page."""
    for y, line in enumerate(body(pilot).split("\n")):
        if words in line:
            return line.index(words), y
    raise AssertionError(f"{words!r} is not on the screen:\n{body(pilot)}")


def at(hour: int, minute: int, second: int = 0) -> datetime:
    return datetime(2026, 1, 1, hour, minute, second, tzinfo=UTC)


def a_move(name: str, state: MoveStatus, moved: int = 0, **other: object) -> MoveProgress:
    move = MoveProgress(
        tp=tp(name),
        before=(7, 2, 4),
        after=(12, 2, 4),
        total_bytes=100 * GB,
        moved_bytes=moved * GB,
        bytes_per_s=None,
        left_seconds=None,
        state=state,
        why="",
        batch=1,
    )
    return replace(move, **other)  # type: ignore[arg-type]


def a_run(state: RunStatus = RunStatus.RUNNING, **other: object) -> RunView:
    """One done, one moving, one stuck, one queued."""
    moves = (
        a_move("orders-1", MoveStatus.DONE, 100, done_at=at(2, 31)),
        a_move("orders-2", MoveStatus.MOVING, 25, bytes_per_s=48e6, left_seconds=1140.0),
        a_move("audit-4", MoveStatus.STUCK, 1, bytes_per_s=0.0, why="stuck 4 m: b9 quota"),
        a_move("clicks-9", MoveStatus.QUEUED, batch=4),
    )
    run = RunView(
        run="0101-021101",
        cluster_id="test-cluster",
        cluster_name="prod-eu",
        state=state,
        why="",
        pid=4711,
        started_at=at(2, 11, 1),
        ended_at=None,
        last_event_at=at(2, 34, 12),
        rate_bytes_per_s=50 * MB,
        total_bytes=400 * GB,
        moved_bytes=126 * GB,
        bytes_per_s=48e6,
        average_bytes_per_s=48e6,
        left_seconds=4020.0,
        left_range=(3480.0, 4800.0),
        estimated_seconds=3600.0,
        moves=moves,
        brokers=(
            BrokerProgress(7, "sends", 48e6, 50 * MB, "at its limit"),
            BrokerProgress(9, "receives", 0.0, 50 * MB, "foreign quota 1 MB/s"),
        ),
        events=(
            RunEvent(at(2, 11, 1), "started", "journal opened"),
            RunEvent(at(2, 31, 52), "moved", "orders-1 done", Level.GOOD),
        ),
        batches=4,
    )
    return replace(run, **other)  # type: ignore[arg-type]


class Clock:
    """Goes on only with what is told, so that each picture is assessed."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def publish_events_later(pilot: Pilot[int], *events: Event) -> None:
    for event in events:
        clock = pilot.app.monotonic  # type: ignore[attr-defined]
        clock.now += 60.0
        pilot.app.post_message(FeedMessage(event))
    await rested(pilot)


def picture(state: ClusterState) -> PictureChanged:
    return PictureChanged(state, LOAD, None, None, None)


def grown(times: float, state: ClusterState = STATE) -> ClusterState:
    """Return the cluster with partitions so many times as large, later."""
    size = state.size_bytes.copy()
    size[size > 0] = (size[size > 0] * times).astype(size.dtype)
    return replace(state, size_bytes=size, fetched_at=at(3, 14))


def down(ids: Iterable[int], state: ClusterState = STATE) -> ClusterState:
    dead = set(ids)
    brokers = tuple(replace(b, alive=b.alive and b.id not in dead) for b in state.brokers)
    return replace(state, brokers=brokers)
