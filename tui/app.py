"""The dashboard: one session, the screens that draw it, and what the feed tells of the cluster."""

from __future__ import annotations

import asyncio
import importlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from textual import events
from textual.actions import ActionParseResult
from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver
from textual.filter import LineFilter
from textual.message import Message
from textual.screen import Screen

from core.cluster.connect import try_password
from core.cluster.known_names import display_name
from core.errors import TrimtabError
from core.run.external.moves import ForeignWatch
from core.settings import NotifyBy
from core.text.terminal import notice_sequence
from tui import terminal
from tui.actions.action import GLOBAL, MAP, SCREENS
from tui.actions.table import bindings_of
from tui.drawing.compositor import AsciiOnly
from tui.driver import TerminalDriver
from tui.feed.events import (
    AutopilotChanged,
    CalibrationChanged,
    ClientsChanged,
    ClusterLost,
    Connected,
    DrillTargetDetected,
    GroupsChanged,
    PictureChanged,
    RunChanged,
    Trouble,
)
from tui.feed.events import Event as FeedEvent
from tui.feed.feed import Feed
from tui.global_actions.clusters import SwitchClusters
from tui.global_actions.display import GlobalActions
from tui.global_actions.probe import ProbeSwitch
from tui.key_queue import KeyQueue
from tui.screen.base import DashboardScreen
from tui.screen.services import Clusters, Dashboard, ShowInFlight
from tui.session import MARKED, Session
from tui.theming import ASCII, UNICODE, Glyphs, choose_palette, load_palettes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from core.passwords import MissingPassword
    from core.run.reporting.alerts import NoticeTracker
    from core.run.reporting.views import RunView
    from tui.shutdown import Shutdown


class FeedMessage(Message):
    """Something the feed saw, on its way from a reading thread to the event loop."""

    def __init__(self, event: FeedEvent, feed: Feed | None = None) -> None:
        super().__init__()
        self.event, self.feed = event, feed

    def can_replace(self, message: Message) -> bool:
        """A newer picture makes one that nobody has looked at yet superfluous."""
        return (
            isinstance(message, FeedMessage)
            and message.feed is self.feed
            and all(isinstance(update.event, PictureChanged) for update in (self, message))
        )


SCREEN_CLASSES = {
    "map": ("tui.map.screen", "MapScreen"),
    "plan": ("tui.plan.screen", "PlanScreen"),
    "moves": ("tui.moves.screen", "MovesScreen"),
    "load": ("tui.load.screen", "LoadScreen"),
    "timeline": ("tui.timeline.screen", "TimelineScreen"),
    "groups": ("tui.groups.screen", "GroupsScreen"),
}


class TrimtabApp(SwitchClusters, GlobalActions):
    """One dashboard on one session. `failure` is why it ended before it showed anything.

    It is `aborted` where a password was asked for, and not given. Where one is missing, the feed is
    to be started by the dashboard.
    """

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    BINDINGS = bindings_of(GLOBAL)
    CSS = """
    DashboardScreen { background: $background; color: $foreground; layers: default above; }
    """
    _notices: NoticeTracker | None

    def __init__(
        self,
        session: Session,
        *,
        feed: Feed | None = None,
        theme: str | None = None,
        ascii_only: bool = False,
        user_keys: Mapping[str, str] | None = None,
        few_colors: bool = False,
        mouse: bool = True,
        notify_by: NotifyBy | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        ending: Shutdown | None = None,
        missing: MissingPassword | None = None,
        clusters: Clusters | None = None,
    ) -> None:
        self._plain = terminal.no_color()
        super().__init__(ansi_color=self._plain, driver_class=TerminalDriver)
        self.clusters = clusters
        self.user_keys: Mapping[str, str] = user_keys or {}
        self.failure: TrimtabError | None = None
        self.aborted = False
        self.monotonic = monotonic
        self.ending = ending
        self._missing = missing
        self.ascii_only = ascii_only
        self.glyphs: Glyphs = ASCII if ascii_only else UNICODE
        self._drawn_with = [AsciiOnly()] if ascii_only else []
        self.few_colors = self._plain or few_colors
        self._palettes = load_palettes()
        self._palette = choose_palette(self._palettes, theme)
        for palette in self._palettes.values():
            self.register_theme(palette.theme())
        if not self._plain:
            # Before anything is drawn: a change of theme draws everything anew.
            self.set_reactive(App.theme, self._palette.name)
            self.stylesheet.set_variables(self.get_css_variables())
        self._mouse_on = mouse
        self.notify_by = notify_by or NotifyBy()
        self._importing = False
        self.key_queue = KeyQueue(self, super().on_event)
        self.begin(session, feed)

    def begin(self, session: Session, feed: Feed | None) -> None:
        self.session, self.feed = session, feed
        self._foreign, self._notices = ForeignWatch(), None
        self.probe_switch = ProbeSwitch(self)

    def follow_feed(self) -> None:
        if (feed := self.feed) is not None:
            feed.attach(lambda event: self.post_message(FeedMessage(event, feed)))

    # -- life ------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.animation_level = "none"
        self.set_keymap(self.user_keys)
        if self.ending is not None:
            loop = asyncio.get_running_loop()

            def leave() -> None:
                # Whatever the event loop hangs in, and whatever the disk does.
                threading.Thread(target=self.save_plan_on_exit, name="keep", daemon=True).start()
                loop.call_soon_threadsafe(self.exit)

            self.ending.attach(leave, self.unsaved_plan_message)
        self.push_screen(self._open_screen(MAP))
        self.follow_feed()
        if self._missing is not None:
            self._ask_password(self._missing)

    def _ask_password(self, missing: MissingPassword) -> None:
        from tui.dialogs.password import PasswordDialog

        self.session.awaits_password = True

        def answered(known: bool | None) -> None:
            self.session.awaits_password = False
            if not known:
                self.aborted = True
                self.exit()
            elif self.feed is not None:
                self.feed.start(fork=False)

        assert self.session.address is not None
        enter = partial(try_password, self.session.address)
        self.push_screen(PasswordDialog(missing, enter), answered)

    def on_unmount(self) -> None:
        self.probe_switch.leave()
        if self.feed is not None:
            self.feed.stop()

    def _build_driver(
        self, headless: bool, inline: bool, mouse: bool, size: tuple[int, int] | None
    ) -> Driver:
        driver = super()._build_driver(headless, inline, mouse, size)
        if isinstance(driver, TerminalDriver):
            loop = asyncio.get_running_loop()
            driver.ending = self.ending
            driver.caught_up = lambda: loop.call_soon_threadsafe(self.screen.refresh)
        return driver

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Leave pictures out while the terminal does not take what it was given before."""
        if not (isinstance(self._driver, TerminalDriver) and self._driver.skip_frame()):
            super()._display(screen, renderable)

    def exit(
        self,
        result: int | None = None,
        return_code: int = 0,
        message: RenderableType | None = None,
    ) -> None:
        """Leave; from now on it has to be quick."""
        if self.ending is not None:
            self.ending.begin(failed=self.failure is not None)
        super().exit(result, return_code, message)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do nothing more once it is ending: a dialog opened then would have no content."""
        return not self._exit and await super().run_action(action, default_namespace, namespaces)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self.key_queue.add(event)
        else:
            await super().on_event(event)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return what goes over each line before it is shown; Textual asks for it."""
        return [*super().get_line_filters(), *self._drawn_with]

    def painted(self) -> None:
        """Have the other screens imported meanwhile: the first key to one would wait for that."""
        super().painted()
        if not self._importing:
            self._importing = True
            # No worker: who leaves at once need not wait for it.
            threading.Thread(target=_import_screens, name="import screens", daemon=True).start()

    def make_screen(self, name: str) -> Screen[None]:
        module, attribute = SCREEN_CLASSES[name]
        screen: Screen[None] = getattr(importlib.import_module(module), attribute)()
        return screen

    def _open_screen(self, name: str) -> Screen[None]:
        if not self.is_screen_installed(name):
            self.install_screen(self.make_screen(name), name)
        return self.get_screen(name)

    # -- what the feed saw -----------------------------------------------------------------------

    def on_feed_message(self, message: FeedMessage) -> None:
        if message.feed not in (self.feed, None):
            return  # it read a cluster that is not shown any more
        match message.event:
            case Connected(connection):
                self.session.connection = connection
                return
            case DrillTargetDetected(ground):
                self.session.ground = ground
            case PictureChanged() as picture:
                self._apply_picture(picture)
            case ClusterLost(error):
                if self.session.state is None:
                    self.failure = error
                    self.exit(return_code=error.exit_code)
                    return
                self.session.problem = error
            case RunChanged(run):
                first, self.session.runs_known = self.session.run is None, True
                if self.session.take_run(run) and run is not None:
                    why = f"Run {run.run} changed nothing: {run.why or run.state.value}"
                    remedy = "The plan is as it was: 2 shows what speaks against it now."
                    self.report_error(TrimtabError(why, next=remedy))
                if run is not None:
                    self._notify_user(run)
                self._update_external_moves()
                if first and run is not None and not run.state.ended:
                    self.action_show_screen("moves")
            case CalibrationChanged(calibration):
                self.session.calibration = calibration
            case GroupsChanged(groups):
                self.session.groups = groups
            case AutopilotChanged(status):
                self.session.autopilot = status
            case ClientsChanged(report):
                self.session.clients = report
            case Trouble(error):
                self.report_error(error)
        self.draw()

    def _apply_picture(self, picture: PictureChanged) -> None:
        session = self.session
        session.state, session.load = picture.state, picture.load
        session.snapshot = picture.snapshot
        session.metadata_age, session.load_age = picture.metadata_age, picture.load_age
        session.problem = None
        if any(broker.server in session.read_only_servers for broker in picture.state.brokers):
            session.writable, session.read_only_reason = False, MARKED
        self._update_external_moves()
        if session.address is not None and session.cluster_name == session.address.bootstrap:
            session.cluster_name = display_name(picture.state.cluster_id)
        if session.plan.cluster_id is None:
            plan = replace(session.plan, cluster_id=picture.state.cluster_id)
            session.history = replace(session.history, plan=plan)
        self.restore_saved_plan()

    def _update_external_moves(self) -> None:
        """Find the moves in flight that are not of the run on the screen."""
        session = self.session
        if session.state is not None:
            session.external_moves = self._foreign.look(session.state, session.run_partitions)

    def _notify_user(self, run: RunView) -> None:
        """Ring, and have the terminal tell the desktop, as far as the user wants it."""
        from core.run.reporting.alerts import NoticeTracker

        self._notices = self._notices or NoticeTracker()
        notice = self._notices.update(run)
        if notice is None or self._driver is None:
            return
        if self.notify_by.bell:
            self._driver.write("\a")
        if self.notify_by.desktop:
            self._driver.write(notice_sequence(notice.title, notice.text))

    # -- what is done beside the screens ---------------------------------------------------------

    def action_show_screen(self, name: str) -> None:
        if isinstance(self.screen, DashboardScreen) and name != self.screen.PLACE:
            self.switch_screen(self._open_screen(name))

    def show_moves(self, started: str | None = None) -> None:
        """Show the run that was just started, or what is in flight, whatever was open there."""
        self.action_show_screen("moves")
        self._open_screen("moves").post_message(ShowInFlight(started))

    def _fatal_error(self) -> None:
        """End with one sentence instead of Textual's traceback, which goes to the log."""
        from core.bug_log import log_bug

        self.failure = TrimtabError(
            "This is a bug in trimtab: the dashboard has ended; runs go on without it.",
            detail=log_bug(),
        )
        if self.ending is not None:
            self.ending.begin(failed=True)
        self._close_messages_no_wait()


def _import_screens() -> None:
    for module, _ in SCREEN_CLASSES.values():
        with suppress(Exception):  # it is raised again, to be seen, when the screen is opened
            importlib.import_module(module)


assert set(SCREEN_CLASSES) == set(SCREENS)


def _check_dashboard_type(app: TrimtabApp) -> Dashboard:
    """Have the type checker hold what screens rely on against the dashboard itself."""
    return app
