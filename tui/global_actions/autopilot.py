"""The autopilot's switch in the dashboard: asks for a mode and sets it in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from core.errors import TrimtabError
from tui.screen.app_base import AppBase
from tui.screen.base import DashboardScreen

if TYPE_CHECKING:
    from core.autopilot.daemon import AutopilotStatus
    from core.autopilot.settings import Mode
    from tui.session import Session


class AutopilotSwitch:
    """Sets the autopilot's mode; the autopilot runs without the dashboard."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

    def open(self) -> None:
        """Ask for a mode."""
        session, screen = self._app.session, self._app.screen
        if not isinstance(screen, DashboardScreen):
            return
        if session.address is None or session.state is None:
            screen.say("An autopilot needs a living cluster.", "look")
            return
        from tui.global_actions.autopilot_dialog import AutopilotDialog

        def answered(mode: Mode | None) -> None:
            if mode is not None:
                self._app.run_in_background("autopilot", _setting(session, mode), self._take)

        self._app.push_screen(AutopilotDialog(session), answered)

    def _take(self, done: str | TrimtabError) -> None:
        if isinstance(done, TrimtabError):
            self._app.report_error(done)
        else:
            self._app.say(done, "fine")


def _setting(session: Session, mode: Mode) -> Callable[[], str]:
    """Return what sets the switch of this session's cluster, and says what holds then."""
    address, state, name = session.address, session.state, session.cluster_name
    snapshots, starts_load = session.snapshots, session.load_enabled
    before: AutopilotStatus | None = session.autopilot
    assert address is not None
    assert state is not None

    def work() -> str:
        from datetime import UTC, datetime

        from core.autopilot.daemon import set_switch, start_autopilot, switch_on
        from core.autopilot.settings import AutopilotSettings, Mode
        from core.autopilot.switch import Switch
        from core.clock import SystemClock
        from core.run.audit import user

        switch = Switch(
            state.cluster_id,
            name,
            address,
            before.switch.settings if before is not None else AutopilotSettings(),
            datetime.now(UTC),
            user(),
            snapshots,
            starts_load,
        ).turned(mode, at=datetime.now(UTC), who=user())
        try:
            if mode is Mode.OFF:
                set_switch(switch)
                return "The autopilot is off; a run that it began goes on."
            is_running = switch_on(switch, SystemClock())
        except OSError as error:
            raise TrimtabError(f"The switch cannot be set: {error.strerror}.") from error
        if not is_running:
            try:
                start_autopilot(switch)
            except OSError as error:
                raise TrimtabError(
                    f"The switch is set; the autopilot cannot be started: {error.strerror}.",
                    next="Set the mode again once that is mended.",
                ) from error
        return f"The autopilot runs, mode {mode.value}; it goes on without the dashboard."

    return work
