"""A cluster that does not answer is seen on every screen, and in dialogs, within five seconds."""

from __future__ import annotations

import math
from datetime import datetime
from typing import cast

import pytest
from hands import rested
from hypothesis import given
from hypothesis import strategies as st
from pictures import a_session, dashboard, pressed
from textual.pilot import Pilot
from textual.widgets import Label

from core.errors import UnreachableError
from tui.actions.action import SCREENS
from tui.app import TrimtabApp
from tui.drawing.canvas import Canvas
from tui.plan.apply import ApplyDialog
from tui.screen.footer import FooterLine, LongMessage
from tui.screen.header import HeaderLine
from tui.session import Freshness, Session

SMALL, LARGE = (80, 24), (120, 40)


def answered_at_0() -> Session:
    session = a_session()
    session.metadata_age = Freshness(0.0, 1.0)
    return session


def since(session: Session) -> str:
    assert session.state is not None
    at: datetime = session.state.fetched_at.astimezone()
    return f"not answering since {at:%H:%M:%S}"


async def at(pilot: Pilot[int], seconds: float) -> None:
    """Draw what the dashboard shows so many seconds after the cluster's last answer."""
    app = cast(TrimtabApp, pilot.app)
    app.monotonic = lambda: seconds  # type: ignore[method-assign]
    app.draw()
    await rested(pilot)


def weak(pilot: Pilot[int]) -> bool:
    """Return whether all that is drawn between header and footer is drawn weakly."""
    pages = [
        canvas
        for canvas in pilot.app.screen.query(Canvas)
        if not isinstance(canvas, HeaderLine | FooterLine | LongMessage) and canvas.text.strip()
    ]
    assert pages
    written = [
        segment
        for page in pages
        for y in range(page.size.height)
        for segment in page.render_line(y)
        if segment.text.strip()
    ]
    return all(segment.style is not None and segment.style.dim for segment in written)


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("screen", SCREENS)
async def test_every_screen_shows_since_when_the_cluster_is_silent_and_is_dimmed(
    screen: str, size: tuple[int, int]
) -> None:
    session = answered_at_0()
    async with dashboard(session, screen, size) as pilot:
        header = pilot.app.screen.query_one(HeaderLine)
        await at(pilot, 3.0)
        assert "not answering" not in header.text
        assert not weak(pilot)
        await at(pilot, 4.5)
        assert since(session) in header.text
        assert ("shown is what was known then" in header.text) is (size == LARGE)
        assert weak(pilot)
        session.metadata_age = Freshness(5.0, 1.0)
        await at(pilot, 5.0)
        assert "not answering" not in header.text
        assert not weak(pilot)


async def test_error_marks_the_cluster_as_lost_at_once_and_a_pause_does_not() -> None:
    session = answered_at_0()
    async with dashboard(session, "plan") as pilot:
        header = pilot.app.screen.query_one(HeaderLine)
        session.paused = True
        await at(pilot, 60.0)
        assert "not answering" not in header.text
        cast(TrimtabApp, pilot.app).action_pause()
        await at(pilot, 61.0)
        assert "not answering" not in header.text, "it is asked again, and may take its time"
        await at(pilot, 70.0)
        assert since(session) in header.text
        session.problem = UnreachableError("No broker answers.")
        await at(pilot, 1.0)
        assert since(session) in header.text


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_dialog_reports_a_lost_cluster_on_opening_and_while_it_is_open(
    size: tuple[int, int],
) -> None:
    session = answered_at_0()
    async with dashboard(session, "plan", size) as pilot:
        await pressed(pilot, "A")
        assert isinstance(pilot.app.screen, ApplyDialog)
        assert not banner_text(pilot)
        await at(pilot, 4.5)
        assert since(session)[1:] in banner_text(pilot)
        await pressed(pilot, "escape", "A")
        assert since(session)[1:] in banner_text(pilot)
        session.metadata_age = Freshness(5.0, 1.0)
        await at(pilot, 5.0)
        assert not banner_text(pilot)


def banner_text(pilot: Pilot[int]) -> str:
    (label,) = pilot.app.screen.query(".lost").results(Label)
    return str(label.render()) if label.display else ""


@given(
    *(st.floats(0.0, 100.0), st.floats(0.1, 60.0)),
    *(st.none() | st.floats(0.0, 60.0), st.floats(0.0, 100.0)),
)
def test_next_freshness_check_is_no_later_than_the_source_falls_silent(
    age: float, interval: float, due: float | None, heard: float
) -> None:
    freshness, heard_at = Freshness(0.0, interval, due), min(heard, age)
    woken = age + freshness.next_change(age, heard_at)
    assert woken > age
    if not freshness.silent(age, heard_at):
        ends = max(4.0, 2 * interval) if due is None else max(due, heard_at) + 3.5
        assert not freshness.silent(woken, heard_at) or woken <= ends + 1e-6


@pytest.mark.parametrize(
    ("due", "patience", "heard", "now", "silent"),
    [
        (1.0, 4.0, None, 4.9, False),
        (1.0, 4.0, None, 5.1, True),
        (1.0, 4.0, 3.0, 5.1, False),
        (1.0, 4.0, 3.0, 7.1, True),
        (0.5, 30.0, None, 20.0, False),
        (30.0, 4.0, None, 33.9, False),
        (30.0, 4.0, None, 34.1, True),
    ],
    ids=[
        "asked lately",
        "in flight for more than 4 s",
        "some of it comes",
        "no more of it comes",
        "the first look at a cluster of unknown size",
        "a cluster that is slow is asked seldom",
        "and waited for no longer",
    ],
)
def test_request_not_answered_for_4_s_counts_as_silence(
    due: float, patience: float, heard: float | None, now: float, silent: bool
) -> None:
    """However long the call itself may wait, and however far questions are apart."""
    freshness = Freshness(0.0, 30.0, due, patience)
    assert freshness.silent(now, -math.inf if heard is None else heard) is silent
