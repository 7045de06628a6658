"""With --ascii every screen and dialog is drawn with ASCII alone, names and messages too."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from maps import map_of, press, text
from pictures import LOAD, STATE, a_run, a_session, dashboard, pressed
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.pilot import Pilot
from textual.screen import ModalScreen

import tui
from core.cli.common.context import Target
from core.cluster.connect import Address
from core.cluster.drills.drill import DrillKind, Offer
from core.errors import TrimtabError, UsageError
from core.passwords import MissingPassword
from core.run.reporting.views import RunStatus
from core.text.terminal import in_ascii
from tui.actions.action import MOVES, SCREENS
from tui.dialogs.base import AskDialog, ProblemDialog
from tui.dialogs.password import PasswordDialog
from tui.drawing.compositor import AsciiOnly
from tui.global_actions.autopilot import AutopilotDialog
from tui.global_actions.clusters_dialog import ClustersDialog
from tui.global_actions.drills import DrillDialog
from tui.global_actions.leave_dialog import LeaveDialog
from tui.moves.questions import (
    cancel_dialog,
    cancel_some_dialog,
    pause_dialog,
    recover_dialog,
    roll_back_dialog,
)
from tui.moves.rate_dialog import RateDialog
from tui.moves.retarget_dialog import RetargetDialog, targets_of
from tui.plan.apply import ApplyDialog
from tui.plan.apply_options import PlanToApply
from tui.plan.suggest_dialog import SuggestDialog
from tui.plan.suggest_form import SuggestForm
from tui.screen.command_palette import CommandScreen
from tui.screen.help import HelpScreen
from tui.screen.services import OpenCluster
from tui.session import Session

NAME = "größe…消費"


def a_named_session() -> Session:
    session = a_session()
    session.cluster_name = NAME
    session.run = replace(a_run(), cluster_name=NAME)
    return session


def leaked(pilot: Pilot[int]) -> set[str]:
    """Return what is on the screen and not ASCII."""
    shown = text(pilot)
    assert shown.strip()
    return {char for char in shown if not char.isascii()}


@pytest.mark.parametrize("size", [(30, 5), (80, 24), (200, 60)])
@pytest.mark.parametrize("screen", SCREENS)
async def test_every_screen_is_drawn_with_ascii_only(screen: str, size: tuple[int, int]) -> None:
    async with dashboard(a_named_session(), screen, size, ascii_only=True) as pilot:
        assert not leaked(pilot)
        for keys in {
            "map": (["enter"], ["enter"], ["escape", "space", "l"]),
            "moves": (["l"], ["b"], ["escape", "o"]),
        }.get(screen, (["enter"], ["/", "ö"])):
            await pressed(pilot, *keys)
            assert not leaked(pilot)
        await pressed(pilot, "escape", "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        assert not leaked(pilot)
        await pressed(pilot, "j", "escape", "colon")
        assert isinstance(pilot.app.screen, CommandScreen)
        assert not leaked(pilot)


async def test_screen_of_a_cluster_that_has_not_answered_is_drawn_with_ascii_only() -> None:
    async with dashboard(Session(NAME), "map", ascii_only=True) as pilot:
        assert "asking gr" in text(pilot)
        assert not leaked(pilot)


class NamedClusters:
    """One cluster to go on with, which is not opened here."""

    known = (Target(Address("größe:9092"), name=NAME, color="red"),)
    here, write = "…", True

    def read(self) -> tuple[Target, ...]:
        return self.known

    def open(self, label: str) -> OpenCluster:
        raise UsageError("größe → …")


DIALOGS: dict[str, Callable[[Session], ModalScreen[object]]] = {
    "apply": lambda session: ApplyDialog(session, PlanToApply(session.plan, "Apply…")),
    "ask": lambda session: AskDialog("Write it where…", f"{NAME}.json", "Write…"),
    "autopilot": lambda session: AutopilotDialog(session),
    "cancel": lambda session: cancel_dialog(a_run(cluster_name=NAME)),
    "cancel some": lambda session: cancel_some_dialog(a_run(), range(4)),
    "clusters": lambda session: ClustersDialog(NamedClusters(), lambda: None, None),
    "drill": lambda session: DrillDialog(NAME, lambda dialog: None),
    "password": lambda session: PasswordDialog(
        MissingPassword(Path("größe…"), "ssl.key.password", NAME), lambda *_: None
    ),
    "pause": lambda session: pause_dialog(a_run()),
    "problem": lambda session: ProblemDialog((TrimtabError("größe → …", detail="±—✓"),)),
    "rate": lambda session: RateDialog(a_run(), STATE, LOAD, 1),
    "recover": lambda session: recover_dialog(a_run(RunStatus.DIED)),
    "retarget": lambda session: RetargetDialog(
        a_run().run, targets_of(STATE, LOAD, {1: a_run().moves[1]}), (STATE, LOAD)
    ),
    "roll back": lambda session: roll_back_dialog(a_run(cluster_name=NAME)),
    "suggest": lambda session: SuggestDialog(SuggestForm(drain=NAME), STATE, session.plan),
    "leave": lambda session: LeaveDialog(session, lambda: None),
}


@pytest.mark.parametrize("name", DIALOGS)
async def test_every_dialog_is_drawn_with_ascii_only(name: str) -> None:
    session = a_named_session()
    async with dashboard(session, MOVES, (80, 24), ascii_only=True) as pilot:
        dialog = DIALOGS[name](session)
        await pilot.app.push_screen(dialog)
        if isinstance(dialog, DrillDialog):
            dialog.offer((Offer(DrillKind.JOIN, why_not="no …"),))
        await pressed(pilot, "down")
        assert not leaked(pilot)


def test_every_dialog_class_is_covered_by_the_ascii_test() -> None:
    def kinds(of: type) -> Iterator[type]:
        below = of.__subclasses__()
        yield from [kind for part in below for kind in kinds(part)] if below else [of]

    opened = {type(make(a_named_session())) for make in DIALOGS.values()}
    ours = {kind for kind in kinds(ModalScreen) if kind.__module__.startswith("tui.")}
    assert ours <= opened | {HelpScreen, CommandScreen}


async def test_minimum_map_size_is_shown_with_an_ascii_x() -> None:
    async with map_of((30, 5), ascii_only=True) as pilot:
        await press(pilot, "j")
        assert "a map needs 32x6" in text(pilot)


# -- the table -------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["● 1→4 …", "größe", "消費", "e\u0301", "é\u200b"])
def test_ascii_text_has_as_many_columns_as_the_original(written: str) -> None:
    drawn = in_ascii(written)
    assert drawn.isascii()
    assert cell_len(drawn) == cell_len(written)
    (segment,) = AsciiOnly().apply([Segment(written)], Color(0, 0, 0))
    assert segment.text == drawn


def test_every_character_in_dashboard_source_strings_has_an_ascii_replacement() -> None:
    """A name may hold anything, and becomes `?`; our own words and marks do not."""
    for path in sorted(Path(tui.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                asked = node.value.replace("?", "").replace("\xa0", "")
                assert "?" not in in_ascii(asked), (path.name, node.lineno, asked)
