"""The troubles in the map's first line: which there are, and which one is looked at."""

from __future__ import annotations

import numpy as np

from core.load.view.verdicts import Verdict, Weight, verdicts
from tui.map.drawing.clients import client_verdicts
from tui.map.view import Model, next_trouble
from tui.session import Session


class MapVerdicts:
    """Holds what is wrong; `selected` is the id of the one that the user went to."""

    def __init__(self) -> None:
        self.selected: str | None = None
        self._known: tuple[Verdict, ...] = ()
        self._key: object = None

    def of(self, session: Session, model: Model) -> tuple[Verdict, ...]:
        """Return all verdicts, worst first; worked out anew when what they come from changed."""
        left: float | None = None
        halted: tuple[Weight, str] | None = None
        if (run := session.run) is not None:
            from core.run.reporting.views import RunStatus

            left = run.left_seconds if run.state is RunStatus.RUNNING else None
            # It does not go on until somebody has it.
            paused, died = (Weight.LOOK, "run paused"), (Weight.ACT, "run died")
            halted = {RunStatus.PAUSED: paused, RunStatus.DIED: died}.get(run.state)
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

    def next(self, step: int) -> Verdict | None:
        """Return the trouble after, or before, the one that was gone to; None without any."""
        return next_trouble(self._known, self.selected, step)


def nothing_wrong(session: Session) -> tuple[str, str]:
    """Say that nothing is wrong, as far as that is known; return words and their role."""
    state, load = session.state, session.load
    if state is None or load is None or np.isnan(load.in_bytes_per_s).all():
        words = "Nothing is wrong as far as is known; what brokers carry is not known yet."
        return words, "text"
    if np.isnan(load.in_bytes_per_s).any() or (state.partition_size_bytes < 0).any():
        return "Nothing is wrong as far as is known.", "text"
    return "Nothing is wrong here.", "fine"
