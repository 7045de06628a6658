"""A run's end and its stalls are called out, each of them once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hands import rested
from pictures import a_move, a_run, a_session, at, dashboard

from core.run.reporting.alerts import NoticeTracker
from core.run.reporting.views import MoveStatus, RunRequest, RunStatus, RunView
from core.settings import NotifyBy
from core.text.terminal import notice_sequence
from tui.app import FeedMessage, TrimtabApp
from tui.feed.events import RunChanged

MOVING = a_run(moves=(a_move("orders-2", MoveStatus.MOVING, 25),))
STUCK = a_run(moves=(a_move("orders-2", MoveStatus.STUCK, 25, why="b9 is down"),))
WAITS = a_run(RunStatus.WAITING, why="broker 9 is down")
DONE = a_run(RunStatus.DONE, ended_at=at(3, 11, 1))
DIED = a_run(RunStatus.DIED)
HALTS = a_run(RunStatus.PAUSED, why="its throttles go")
PAUSED = replace(HALTS, requests=(RunRequest(at(2, 0), "pause", "pause", "ann", taken=True),))


def later(run: RunView, minutes: int) -> RunView:
    return replace(run, last_event_at=run.last_event_at + timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("views", "texts"),
    [
        ([MOVING, MOVING], []),
        ([MOVING, DONE, DONE], ["done"]),
        ([MOVING, DIED, DIED], ["its process died"]),
        ([MOVING, DIED, MOVING, DIED], ["its process died", "its process died"]),
        ([DONE, DONE], []),
        ([MOVING, STUCK, STUCK], ["orders-2 b9 is down"]),
        ([MOVING, WAITS, WAITS], ["broker 9 is down"]),
        ([MOVING, HALTS, HALTS], ["its throttles go"]),
        ([MOVING, PAUSED, PAUSED], []),
        ([MOVING, STUCK, MOVING, STUCK], ["b9 is down"]),
        ([MOVING, STUCK, later(MOVING, 5), later(STUCK, 9)], ["b9 is down", "b9 is down"]),
        ([STUCK, STUCK], []),
        ([DONE, replace(MOVING, run="0101-030000")], []),
        ([MOVING, a_run(moves=(*STUCK.moves, *MOVING.moves))], []),
    ],
)
def test_each_end_and_each_stall_of_a_run_is_notified_once(
    views: Sequence[RunView], texts: list[str]
) -> None:
    notices = NoticeTracker()
    announcements = [notice for run in views if (notice := notices.update(run)) is not None]
    assert len(announcements) == len(texts), announcements
    assert all(text in notice.text for notice, text in zip(announcements, texts, strict=True))
    assert all("prod-eu" in notice.title for notice in announcements)


@pytest.mark.parametrize(
    ("environment", "sequence"),
    [
        ({"TERM": "xterm-256color"}, "\x1b]9;trimtab  x: it  is\x07"),
        ({"TERM": "foot"}, "\x1b]777;notify;trimtab  x;it  is\x07"),
        (
            {"TERM": "tmux-256color", "TMUX": "/tmp/1"},
            "\x1bPtmux;\x1b\x1b]9;trimtab  x: it  is\x07\x1b\\",
        ),
    ],
)
def test_notification_is_one_escape_sequence_without_embedded_control_characters(
    environment: dict[str, str], sequence: str
) -> None:
    assert notice_sequence("trimtab \x07x", "it\x1b;is", environment) == sequence


@pytest.mark.parametrize(
    ("by", "written"),
    [
        (NotifyBy(), ["\a", "\x1b]9;"]),
        (NotifyBy(bell=False), ["\x1b]9;"]),
        (NotifyBy(desktop=False), ["\a"]),
        (NotifyBy(bell=False, desktop=False), []),
    ],
)
async def test_bell_and_desktop_notification_follow_the_users_settings(
    by: NotifyBy, written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("TMUX", raising=False)
    async with dashboard(a_session(), "moves") as pilot:
        app = pilot.app
        assert isinstance(app, TrimtabApp)
        app.notify_by = by
        sent: list[str] = []
        monkeypatch.setattr(app._driver, "write", sent.append)
        for run in (MOVING, DONE, DONE):
            app.post_message(FeedMessage(RunChanged(run)))
            await rested(pilot)
        assert [part[:4] for part in sent] == written
