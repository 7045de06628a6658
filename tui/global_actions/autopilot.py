"""The autopilot's switch in the dashboard: asks for a mode and sets it in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from textual.widget import Widget
from textual.widgets import Input, Label

from core.autopilot.settings import AutopilotSettings, Mode, limits_in_one_line
from core.clock import SystemClock
from core.errors import TrimtabError
from core.run.audit import user
from tui.dialogs.base import Question
from tui.dialogs.inputs import NamedAnswerDialog
from tui.screen.app_base import AppBase
from tui.screen.base import DashboardScreen

if TYPE_CHECKING:
    from core.autopilot.daemon import AutopilotStatus
    from tui.session import Session


def choose_mode(app: AppBase) -> None:
    """Ask for a mode, and set it; the autopilot runs without the dashboard."""
    session, screen = app.session, app.screen
    if not isinstance(screen, DashboardScreen):
        return
    if session.address is None or session.state is None:
        screen.say("An autopilot needs a living cluster.", "look")
        return

    def answered(mode: Mode | None) -> None:
        if mode is not None:
            app.run_in_background("autopilot", _build_switch_setter(session, mode), app.report)

    app.push_screen(AutopilotDialog(session), answered)


def _build_switch_setter(session: Session, mode: Mode) -> Callable[[], tuple[str, str]]:
    """Return what sets the switch of this session's cluster, and says what holds then."""
    address, state, name = session.address, session.state, session.cluster_name
    snapshots, starts_load = session.snapshots, session.load_enabled
    settings = _settings(session.autopilot)
    assert address is not None
    assert state is not None

    def work() -> tuple[str, str]:
        # Here: it takes long to import, and no key is to wait for it.
        from core.autopilot.daemon import set_switch, start_autopilot, switch_on
        from core.autopilot.switch import Switch

        switch = Switch(
            state.cluster_id,
            name,
            address,
            settings,
            datetime.now(UTC),
            user(),
            snapshots,
            starts_load,
        ).turned(mode, at=datetime.now(UTC), who=user())
        try:
            if mode is Mode.OFF:
                set_switch(switch)
                return "The autopilot is off; a run that it began goes on.", "fine"
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
        return f"The autopilot runs, mode {mode.value}; it goes on without the dashboard.", "fine"

    return work


def _settings(status: AutopilotStatus | None) -> AutopilotSettings:
    return status.switch.settings if status is not None else AutopilotSettings()


class AutopilotDialog(NamedAnswerDialog[Mode | None]):
    """Says how the autopilot stands, and asks for a mode; `act` takes the cluster's name."""

    def __init__(self, session: Session) -> None:
        super().__init__(
            f"Autopilot of {session.cluster_name}",
            _question,
            session.cluster_name,
            ("back", "Back", None),
            ("off", "Off", Mode.OFF),
            ("suggest", "Suggest", Mode.SUGGEST),
            ("act", "Act", Mode.ACT),
        )

    def fields(self) -> Iterable[Widget]:
        yield Label("", classes="dim", markup=False, id="how")
        yield Input(compact=True, select_on_focus=False, id="name")

    def follow(self, session: Session) -> None:
        """Say how it stands now, and offer what may be set now."""
        how = self.query_one("#how", Label)
        text = f"To let it act, type {self.cluster_name}: {session.read_only_words}".rstrip()
        if how.content != text:
            how.update(text)
        name = self.query_one("#name", Input)
        if not session.writable and name.has_focus:
            self.query_one("#back").focus()
        name.disabled = not session.writable
        super().follow(session)


def _question(session: Session) -> Question:
    settings = _settings(session.autopilot)
    words = (
        *_status_lines(session.autopilot),
        f"Its limits: {limits_in_one_line(settings)}.",
        "Suggest writes down what act would do; neither needs the dashboard.",
    )
    refused = {} if session.writable else {"suggest": "", "act": ""}
    return Question(words, refused | ({"off": ""} if settings.mode is Mode.OFF else {}))


def _status_lines(status: AutopilotStatus | None) -> list[str]:
    if status is None:
        return ["It is off, and never was on."]
    switch = status.switch
    gone = "" if status.process is not None or switch.mode is Mode.OFF else ", process gone"
    words = [f"Mode {switch.mode.value}{gone}, set by {switch.who}."]
    if status.last is not None:
        at = status.last.at.astimezone()
        words.append(f"{at:%H:%M:%S} {status.last.what.value}: {status.last.text}")
    return words
