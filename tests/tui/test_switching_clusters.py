"""The dashboard goes on with another cluster, once that has answered; else nothing changes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from encrypted_key import PASSWORD, properties_with_key
from hands import operated, rested
from pictures import LOAD, STATE, a_plan, button, footer, label, pressed
from simulated import small_spec
from textual.events import Paste
from textual.pilot import Pilot

from core import passwords, paths
from core.cli.common.context import Context, Target
from core.cluster.connect import Address
from core.cluster.simulation.cluster import SimulatedCluster
from core.cluster.simulation.server import SimulatorServer
from core.errors import TrimtabError
from core.plan.plan import Plan
from core.settings import load_settings
from tui.app import FeedMessage, TrimtabApp
from tui.dashboard import ConfiguredClusters, make_session
from tui.dialogs.password import PasswordDialog
from tui.feed.events import PictureChanged
from tui.feed.feed import Feed
from tui.global_actions.clusters_dialog import ClustersDialog
from tui.global_actions.leave import read_saved_plan, save_plan
from tui.screen.header import HeaderLine
from tui.session import MARKED

PLAN = replace(a_plan(), cluster_id=STATE.cluster_id)
PICTURE = PictureChanged(STATE, LOAD, None, None, None)
IDS = {"prod": "simulated-prod-00000000", "staging": "simulated-staging-00000"}


class FirstFeed:
    """What reads the cluster that the dashboard was opened with; only notes that it is stopped."""

    stopped = False

    def attach(self, deliver: Any) -> None: ...

    def painted(self) -> None: ...

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Run two clusters, and name them: prod, red and read-only, and staging; `gone` is no more."""
    servers = [
        SimulatorServer(
            SimulatedCluster(small_spec({f"of-{name}": [(1, 2)]}, cluster_id=id)), tmp_path / name
        )
        for name, id in IDS.items()
    ]
    paths.config_dir().mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text(
        f'[clusters.prod]\nbootstrap = "sim:{tmp_path}/prod"\nread_only = true\ncolor = "red"\n'
        f'[clusters.staging]\nbootstrap = "sim:{tmp_path}/staging"\n'
        f'[clusters.gone]\nbootstrap = "sim:{tmp_path}/gone"\n'
    )
    for server in servers:
        server.start()
    yield tmp_path
    for server in servers:
        server.stop()


def opened(first: FirstFeed, plan: Plan | None = None) -> TrimtabApp:
    """Open a writable dashboard on a cluster without a name, known by its address."""
    target = Target(Address("broker:9092"))
    context = Context(target, True, True, None, False, False, lambda _: None)
    session = make_session(context)
    session.state, session.load, session.runs_known = STATE, LOAD, True
    session.cluster_name = "first"
    if plan is not None:
        session.edit(plan)
    clusters = ConfiguredClusters(context, load_settings())
    return TrimtabApp(session, feed=cast(Feed, first), clusters=clusters, monotonic=lambda: 0.0)


def shown(pilot: Pilot[int]) -> str:
    return pilot.app.screen.query_one(HeaderLine).text


async def until_shown(pilot: Pilot[int], words: str) -> None:
    """Wait for what a thread brings about."""
    while not (pilot.app.screen.query(HeaderLine) and words in shown(pilot)):
        await pilot.pause(0.01)


async def until_answered(pilot: Pilot[int]) -> ClustersDialog:
    dialog = pilot.app.screen
    assert isinstance(dialog, ClustersDialog)
    while dialog._doing:
        await pilot.pause(0.01)
    return dialog


@pytest.mark.parametrize(
    "keys",
    [
        ("K", "j", "j", "enter"),
        (":", *"cluster prod", "enter"),
    ],
)
@pytest.mark.usefixtures("home")
async def test_another_cluster_is_shown_by_its_name_colour_and_rights(
    keys: tuple[str, ...],
) -> None:
    first = FirstFeed()
    app = opened(first)
    async with operated(app, (80, 24)) as pilot:
        assert " EDIT " in shown(pilot)
        for screen in ("plan", "map"):
            app.action_show_screen(screen)
            await rested(pilot)
        app._open_screen("moves")  # it is there, and was never shown
        former = app.session
        await pilot.press(*("space" if key == " " else key for key in keys[:-1]))
        await pressed(pilot, keys[-1])
        await until_shown(pilot, "prod  2 brokers")
        assert " READ " in shown(pilot)
        session = app.session
        assert (session.cluster_color, session.read_only_reason) == ("red", MARKED)
        assert session.state is not None
        assert session.state.cluster_id == IDS["prod"]
        assert session is not former
        assert first.stopped
        assert app.is_screen_installed("map")
        assert not app.is_screen_installed("plan"), "it shows what was of another cluster"


@pytest.mark.usefixtures("home")
async def test_clusters_can_be_switched_back_and_forth_without_leftover_screens() -> None:
    app = opened(FirstFeed())
    async with operated(app) as pilot:
        for name in ("prod", "staging", "prod"):
            app.action_open_cluster(name)
            await until_shown(pilot, f"{name}  2 brokers")
            assert " EDIT " in shown(pilot) if name == "staging" else " READ " in shown(pilot)
            await pressed(pilot, "2", "3", "1")
            assert len(app.screen_stack) == 2


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("known", "name", "words"),
    [
        ("{}", "gone", "gone"),
        ('{"staging": "another"}', "staging", "staging was cluster another"),
    ],
)
async def test_switch_to_an_unreachable_or_mismatched_cluster_changes_nothing(
    known: str, name: str, words: str
) -> None:
    paths.data_dir().mkdir(parents=True, exist_ok=True)
    paths.known_names_file().write_text(known)
    first = FirstFeed()
    app = opened(first, PLAN)
    async with operated(app) as pilot:
        session, screen = app.session, app.screen
        app.action_open_cluster(name)
        await rested(pilot)
        await until_answered(pilot)
        assert words in label(pilot, "table")
        assert not button(pilot, "yes").disabled, "another can be chosen"
        await pressed(pilot, "escape")
        assert (app.session, app.screen) == (session, screen)
        assert not first.stopped
        assert session.plan == PLAN


async def test_esc_while_another_cluster_is_queried_stays_on_the_current_one(home: Path) -> None:
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(str(home / "gone"))
    silent.listen()
    app = opened(FirstFeed())
    async with operated(app) as pilot:
        session = app.session
        app.action_open_cluster("gone")
        while not (isinstance(app.screen, ClustersDialog) and app.screen.opened is not None):
            await pilot.pause(0.01)
        feed = app.screen.opened.feed
        assert "asking gone" in label(pilot, "table")
        await pilot.press("enter", "escape")
        assert app.session is session
        assert feed._stopped.is_set()
        silent.close()


async def test_missing_password_is_requested_before_a_cluster_is_opened(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "_known", {})
    properties = properties_with_key(tmp_path)
    paths.config_file().write_text(
        f'[clusters.locked]\nbootstrap = "127.0.0.1:1"\ncommand_config = "{properties}"\n'
    )
    app = opened(FirstFeed())
    async with operated(app) as pilot:
        session = app.session
        app.action_open_cluster("locked")
        while not isinstance(app.screen, PasswordDialog):
            await pilot.pause(0.01)
        await pressed(pilot, "escape")
        dialog = await until_answered(pilot)
        assert dialog.opened is None
        await pressed(pilot, "enter")
        while not isinstance(app.screen, PasswordDialog):
            await pilot.pause(0.01)
        app.post_message(Paste(PASSWORD))
        await pilot.press("enter")
        while app.screen is not dialog:
            await pilot.pause(0.01)
        await until_answered(pilot)
        assert "127.0.0.1:1" in label(pilot, "table")
        assert app.session is session


@pytest.mark.usefixtures("home")
async def test_plan_is_saved_for_its_cluster_when_another_is_opened() -> None:
    app = opened(FirstFeed(), PLAN)
    staging = Plan(IDS["staging"])
    async with operated(app) as pilot:
        app.action_open_cluster("staging")
        await until_shown(pilot, "staging  2 brokers")
        assert read_saved_plan(STATE.cluster_id) == PLAN
        assert "plan of 3 moves for first is kept" in footer(pilot)
        assert app.session.plan.moves == staging.moves
        assert app.unsaved_plan_message() == ""


@pytest.mark.usefixtures("home")
async def test_failure_to_save_the_plan_keeps_the_dashboard_on_its_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(plan: Plan) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tui.global_actions.leave.save_plan", full)
    app = opened(FirstFeed(), PLAN)
    async with operated(app) as pilot:
        session = app.session
        app.action_open_cluster("staging")
        await rested(pilot)
        await until_answered(pilot)
        assert "No space left" in label(pilot, "table")
        await pressed(pilot, "escape")
        assert app.session is session
        assert session.plan == PLAN


@pytest.mark.usefixtures("home")
async def test_late_results_of_the_former_cluster_are_dropped_but_failures_are_reported() -> None:
    save_plan(PLAN)
    first, go = FirstFeed(), threading.Event()
    app = opened(first)
    taken: list[object] = []

    def fail() -> None:
        go.wait()
        raise TrimtabError("It was not written.")

    async with operated(app) as pilot:
        app.run_in_background("kept", go.wait, taken.append)
        app.run_in_background("export", fail, taken.append)
        app.action_open_cluster("staging")
        await until_shown(pilot, "staging  2 brokers")
        app.post_message(FeedMessage(PICTURE, cast(Feed, first)))
        go.set()
        await rested(pilot)
        assert not taken
        assert app.session.problems[0].title == "first: It was not written.", "a failure is told"
        assert app.session.state is not None
        assert app.session.state.cluster_id == IDS["staging"]


async def test_demo_refuses_to_switch_to_another_cluster() -> None:
    context = Context(Target(Address("sim:x")), True, True, None, False, False, lambda _: None)
    app = TrimtabApp(make_session(context))
    async with operated(app) as pilot:
        await pressed(pilot, "K")
        assert "shows no other" in footer(pilot)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_cluster_list_marks_the_current_one_and_shows_edit_rights(
    size: tuple[int, int],
) -> None:
    app = opened(FirstFeed())
    async with operated(app, size) as pilot:
        await pressed(pilot, "K")
        rows = {
            name: next(line for line in lines_of(pilot) if f" {name} " in line)
            for name in ("broker:9092", "prod", "staging")
        }
        assert "EDIT  here" in rows["broker:9092"]
        assert "READ" in rows["prod"]
        assert "EDIT" in rows["staging"]
        assert "sim:" in rows["prod"]


def lines_of(pilot: Pilot[int]) -> list[str]:
    canvas = pilot.app.screen._compositor.render_strips()
    return [strip.text for strip in canvas]
