"""The troubles in the map's first line: which there are, which one is looked at, going to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from core.load.view.verdicts import Verdict, Weight, verdicts
from tui.map.drawing.clients import client_verdicts
from tui.map.view import Model, at_verdict, at_worst, build_model, next_trouble
from tui.session import Session

if TYPE_CHECKING:
    from core.run.reporting.views import RunView
    from tui.map.screen_protocol import MapScreenProtocol


def run_summary(run: RunView | None) -> tuple[float | None, tuple[Weight, str] | None]:
    """Return how many seconds a run has left, or why it does not go on until somebody has it."""
    if run is None:
        return None, None
    from core.run.reporting.views import RunStatus

    halted = {
        RunStatus.PAUSED: (Weight.LOOK, "run paused"),
        RunStatus.DIED: (Weight.ACT, "run died"),
    }
    left = run.left_seconds if run.state is RunStatus.RUNNING else None
    return left, halted.get(run.state)


class MapVerdicts:
    """Hold what is wrong; `selected` is the id of the one that the user went to."""

    def __init__(self, screen: MapScreenProtocol) -> None:
        self._screen = screen
        self.selected: str | None = None
        self._known: tuple[Verdict, ...] = ()
        self._key: object = None

    def of(self, session: Session, model: Model) -> tuple[Verdict, ...]:
        """Return all verdicts, worst first; worked out anew when what they come from changed."""
        left, halted = run_summary(session.run)
        felt = client_verdicts(session.clients, model.state) if session.clients is not None else ()
        key = (model.state, model.load, round(left) if left is not None else None, halted, felt)
        if key != self._key:
            self._key = key
            known = verdicts(model.state, model.load, model.totals, left, halted)
            self._known = tuple(sorted((*felt, *known), key=lambda verdict: verdict.weight))
        if session.problem is not None:
            words = session.problem.title
        elif session.lost_since is not None:
            words = "the cluster does not answer"
        else:
            return self._known
        lost = Verdict("lost", Weight.ACT, words, words)
        return (lost, *self._known)

    def go_on(self, step: int) -> None:
        """Go to the trouble after, or before, the one that is looked at."""
        found = next_trouble(self._known, self.selected, step)
        if found is None:
            state, load = self._screen.session.state, self._screen.session.load
            if state is None or load is None or np.isnan(load.in_bytes_per_s).all():
                known = "Nothing is wrong as far as is known; what brokers carry is not known yet."
                self._screen.say(known)
            elif np.isnan(load.in_bytes_per_s).any() or (state.partition_size_bytes < 0).any():
                self._screen.say("Nothing is wrong as far as is known.")
            else:
                self._screen.say("Nothing is wrong here.", "fine")
        else:
            self.go_to(found)

    def go_to(self, verdict: Verdict) -> None:
        """Show where a verdict comes from."""
        screen, session = self._screen, self._screen.session
        if verdict.id == "moving":
            screen.dashboard.show_moves()
        elif session.state is not None and session.load is not None:
            view = at_verdict(screen.view, verdict)
            if verdict.broker is not None and verdict.topic is None:
                # Kept, so that drawing it does not build it once more.
                model = build_model(session.state, session.load, view, screen.model)
                screen.model, view = model, at_worst(view, model)
            screen.view = view
            self.selected = verdict.id
            screen.show(session)
            if verdict.id == "hidden" and session.state.hidden is not None:
                screen.say(session.state.hidden.advice)
