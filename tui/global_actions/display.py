"""What works on every screen: pause, help, the palette of commands, copying, theme and mouse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual.drivers.linux_driver import LinuxDriver

from tui import terminal
from tui.actions.action import GLOBAL, SCREENS, Action
from tui.actions.table import actions_of
from tui.global_actions.probe import ProbeSwitch
from tui.screen.app_base import AppBase
from tui.screen.base import DashboardScreen
from tui.screen.command_palette import CommandScreen
from tui.screen.help import HelpScreen
from tui.theming import Glyphs, Palette


class GlobalActions(AppBase):
    """The part of the dashboard that does them; nothing here reads a cluster."""

    user_keys: Mapping[str, str]
    glyphs: Glyphs
    _palettes: Mapping[str, Palette]
    _palette: Palette
    _plain: bool
    _mouse_on: bool
    probe_switch: ProbeSwitch

    if TYPE_CHECKING:  # SwitchClusters does it

        def cluster_actions(self) -> list[Action]:
            """Return what opens another cluster."""

    @property
    def palette(self) -> Palette:
        """Return the theme's palette; without colours for NO_COLOR."""
        return replace(self._palette, plain=True) if self._plain else self._palette

    def action_pause(self) -> None:
        self.session.paused = not self.session.paused
        if not self.session.paused:
            self.session.expect_answer(self.monotonic())
        if self.feed is not None:
            self.feed.pause(self.session.paused)
        self.draw()

    def action_refresh_now(self) -> None:
        if self.feed is not None:
            self.feed.refresh()
        if isinstance(self.screen, DashboardScreen):
            self.screen.refetch()
        driver = self._driver
        if self._mouse_on and isinstance(driver, LinuxDriver):
            # A multiplexer that was attached anew may have forgotten that we want the mouse.
            driver._enable_mouse_support()
        self.screen.refresh()
        self.draw()

    def action_help(self) -> None:
        if isinstance(self.screen, DashboardScreen):
            self.push_screen(HelpScreen(self.screen.PLACE))

    def action_show_problems(self) -> None:
        screen = self.screen
        if not isinstance(screen, DashboardScreen):
            return
        if not self.session.problems:
            screen.say("Nothing went wrong so far.", "fine")
            return
        from tui.dialogs.base import ProblemDialog

        self.session.has_new_trouble = False
        screen.clear_message()
        self.push_screen(ProblemDialog(self.session.problems))

    def action_commands(self) -> None:
        screen = self.screen
        if not isinstance(screen, DashboardScreen):
            return
        drills = self.session.ground is not None
        actions = [*actions_of(screen.place), *actions_of(GLOBAL, drills=drills)]
        offered = [action for action in actions if "{key}" not in action.call]
        offered += self.cluster_actions()

        async def perform(action: Action | None) -> None:
            if action is not None:
                here = action in actions_of(screen.place)
                await self.run_action(action.call or action.id, screen if here else self)

        elsewhere = {
            title: actions_of(name) for name, title in SCREENS.items() if name != screen.PLACE
        }
        self.push_screen(CommandScreen(offered, elsewhere), perform)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "drill":  # where there is no ground for it, its key does nothing
            return self.session.ground is not None
        return super().check_action(action, parameters)

    def action_drill(self) -> None:
        from tui.global_actions.drills import open_drills

        open_drills(self)

    def action_probe(self) -> None:
        if not self._refuses_in_past():
            self.probe_switch.toggle()

    def action_autopilot(self) -> None:
        if self._refuses_in_past():
            return
        from tui.global_actions.autopilot import choose_mode

        choose_mode(self)

    def _refuses_in_past(self) -> bool:
        """Return whether the screen shows the past: what acts upon the present is refused there."""
        screen = self.screen
        is_past = isinstance(screen, DashboardScreen) and screen.session is not self.session
        if is_past:
            self.say("That is for the cluster of now: 0 goes back to it.", "look")
        return is_past

    def action_copy(self) -> None:
        """Copy what the screen offers; over ssh and tmux too, as far as the terminal allows."""
        screen = self.screen
        if not isinstance(screen, DashboardScreen):
            return
        text = screen.copy_text()
        if text is None:
            screen.say("Nothing here to copy.")
            return
        sequence = terminal.clipboard_sequence(text)
        if sequence is None:
            screen.say("Too long for the terminal's clipboard: e exports it to a file.", "look")
            return
        if self._driver is not None:
            self._driver.write(sequence)
        lines = text.count("\n") + 1
        screen.say(f"Copied {lines} lines." if lines > 1 else f"Copied: {text}", "fine")

    def action_next_theme(self) -> None:
        names = sorted(self._palettes)
        name = names[(names.index(self._palette.name) + 1) % len(names)]
        self._palette = self._palettes[name]
        if not self._plain:
            self.theme = name
        for installed in filter(self.is_screen_installed, SCREENS):
            screen = cast(DashboardScreen, self.get_screen(installed))
            screen.show(screen.session)

    def action_toggle_mouse(self) -> None:
        """Give the mouse back to the terminal (to select text), or take it again."""
        self._mouse_on = not self._mouse_on
        driver = self._driver
        if isinstance(driver, LinuxDriver):
            driver._mouse = True
            if self._mouse_on:
                driver._enable_mouse_support()
            else:
                driver._disable_mouse_support()
        if isinstance(self.screen, DashboardScreen):
            self.screen.say("The mouse is ours." if self._mouse_on else "The mouse is yours.")

    def action_save_screenshot(self) -> None:
        screen = self.screen
        if not isinstance(screen, DashboardScreen):
            return
        path = Path(f"trimtab-{screen.PLACE}-{datetime.now():%Y%m%d-%H%M%S}.svg")
        try:
            path.write_text(self.export_screenshot(title="trimtab"), encoding="utf-8")
        except OSError as error:
            screen.say(f"Cannot write {path}: {error.strerror}.", "act")
            return
        screen.say(f"{path} written.", "fine")
