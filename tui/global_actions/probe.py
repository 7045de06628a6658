"""The probe's switch: confirms, starts or stops the probe in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from core.errors import TrimtabError
from tui.screen.app_base import AppBase
from tui.screen.base import DashboardScreen

if TYPE_CHECKING:
    from core.watch.client_health.daemon import Probe
    from tui.dialogs.base import Question
    from tui.session import Session


class ProbeSwitch:
    """Begins and ends probes for the dashboard; one that it began ends with it."""

    def __init__(self, app: AppBase) -> None:
        self._app = app
        self.begun: Probe | None = None
        self._switching = False
        """Whether a thread is at it."""
        self._has_left = False

    def toggle(self) -> None:
        session, screen = self._app.session, self._app.screen
        if session.state is None or not isinstance(screen, DashboardScreen):
            return
        if not session.writable or session.address is None:
            screen.say(f"Read-only: {session.read_only_reason}.", "look")
            return
        if session.address.is_simulated:
            screen.say("A simulated cluster has no clients to probe it.")
            return
        if self._switching:
            return
        if session.clients is not None or self.begun is not None:
            self._end_probe()
            return
        from tui.dialogs.base import ConfirmDialog

        dialog = ConfirmDialog("Feel what clients feel?", _question, no="Leave it", yes="Begin")
        self._app.push_screen(dialog, lambda yes: self._begin_probe() if yes else None)

    def _begin_probe(self) -> None:
        address, state = self._app.session.address, self._app.session.state
        assert address is not None
        assert state is not None

        def work() -> Probe:
            from core.watch.client_health.daemon import start_probe

            probe = start_probe(address, state.cluster_id)
            if not self._has_left:
                probe.wait()
            if self._has_left:
                probe.close()
            return probe

        self._app.say("The probe begins; its first numbers come in a moment.", "text")
        self._switch(work)

    def _end_probe(self) -> None:
        state, begun = self._app.session.state, self.begun
        assert state is not None
        self.begun = None

        def work() -> None:
            from core.watch.client_health.daemon import stop_probe

            if begun is not None:
                begun.close()
            stop_probe(state.cluster_id)

        self._switch(work)

    def _switch(self, work: Callable[[], Probe | None]) -> None:
        self._switching = True
        self._app.run_in_background("probe", work, self._finish_switch)

    def _finish_switch(self, outcome: Probe | TrimtabError | None) -> None:
        self._switching = False
        match outcome:
            case TrimtabError() as error:
                self._app.report_error(error)
            case None:
                self._app.session.clients = None
                self._app.say(
                    "The probe has ended. Its topic stays: trimtab probe --remove.", "fine"
                )
            case probe:
                self.begun = probe

    def leave(self) -> None:
        """End the probe that was begun here; nobody waits for it."""
        self._has_left = True
        if self.begun is not None:
            self.begun.close()


def _question(session: Session) -> Question:
    """Return what to ask before a probe begins: what it does and costs on the cluster as it is."""
    from core.watch.client_health.probe_loop import describe_probe
    from tui.dialogs.base import Question

    assert session.state is not None
    words = [*describe_probe(session.state).splitlines(), "W ends it again, and so does leaving."]
    if why := session.read_only_words:
        return Question(words, {"yes": why})
    if session.clients is not None:
        return Question(words, {"yes": "A probe of this machine is at work by now: W ends it."})
    return Question(words)
