"""Dialogs that have much to say: it scrolls, the name and the buttons stay in sight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from clusters import NOON
from pictures import a_session, dashboard, in_sight, pressed
from textual.screen import ModalScreen
from textual.widgets import Button, Input

from core.autopilot.daemon import AutopilotStatus
from core.autopilot.decision import Reason
from core.autopilot.history import DecisionHistory
from core.autopilot.log import Entry, EntryKind
from core.autopilot.settings import AutopilotSettings
from core.autopilot.switch import Switch
from core.cluster.connect import Address
from tui.dialogs.base import ChoiceDialog, ConfirmDialog, Question, Words
from tui.global_actions.autopilot import AutopilotDialog
from tui.moves.questions import ConfirmByNameDialog
from tui.session import Session

MUCH = tuple(
    f"{n}: of what is said before a yes, this is one sentence among many." for n in range(60)
)


def ask(session: Session) -> Question:
    return Question(MUCH)


LAST = Entry(NOON, EntryKind.WAIT, (Reason("broker-down", " ".join(MUCH)),))
STANDING = AutopilotStatus(
    Switch("c-1", "prod-eu", Address("b:9092"), AutopilotSettings(), NOON, "ada"),
    None,
    LAST,
    DecisionHistory(),
)


@pytest.mark.parametrize("size", [(80, 24), (80, 14), (120, 40)])
@pytest.mark.parametrize(
    "dialog",
    [
        lambda: ConfirmDialog("Sure?", ask, no="No", yes="Yes"),
        lambda: ConfirmByNameDialog("Sure?", ask, name="prod-eu", yes="Yes"),
        lambda: ChoiceDialog("Sure?", ask, ("no", "No", 0), ("yes", "Yes", 1), ("all", "All", 2)),
        lambda: AutopilotDialog(a_session()),
    ],
    ids=["confirm", "typed", "choice", "autopilot"],
)
async def test_buttons_stay_visible_and_the_text_of_a_dialog_is_paged_to_its_end(
    dialog: Callable[[], ModalScreen[object]], size: tuple[int, int]
) -> None:
    session = replace(a_session(), autopilot=STANDING)
    async with dashboard(session, "plan", size) as pilot:
        pilot.app.push_screen(dialog())
        await pressed(pilot, "pageup")
        screen = pilot.app.screen
        for widget in (*screen.query(Button), *screen.query(Input)):
            assert in_sight(pilot, widget), widget
        words = screen.query_one(Words)
        assert not words.is_vertical_scroll_end
        for _ in range(40):
            if words.is_vertical_scroll_end:
                break
            await pressed(pilot, "pagedown")
        assert words.is_vertical_scroll_end
