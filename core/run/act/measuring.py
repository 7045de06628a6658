"""Measuring beside a run with an adaptive rate: a probe for as long as it is needed, and no longer.

What producers waited before the run is journalled, because it cannot be measured any more once the
run has begun; all else is seen again by whichever process carries the run on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from core.clock import Clock
from core.cluster.state import ClusterState
from core.plan.copying import alive_ids
from core.run.act import senses
from core.run.act.senses import Senses
from core.run.limits.strain import Measured

if TYPE_CHECKING:
    from core.run.decide.steps import Observed
    from core.run.record.history import History

MEASURE_SECONDS = 45.0
"""How long a run waits for what producers wait before it; then what is known must do."""


class Probe(senses.Probe, Protocol):
    """A probe that can be closed; see core.cluster.probe.produce_latency."""

    @property
    def left(self) -> str: ...

    def close(self) -> None: ...


OpenProbe = Callable[[Sequence[int]], Probe | None]
"""Opens a probe of these brokers; None where nothing can be probed."""


class Measuring:
    """The senses of one process; they open with the first look at a run that adapts its rate."""

    def __init__(self, open_probe: OpenProbe, clock: Clock) -> None:
        self._open_probe, self._clock = open_probe, clock
        self._probe: Probe | None = None
        self._senses: Senses | None = None
        self._since = 0.0
        self._cleared = False
        self.left = ""
        """What a probe could not take away again, in words."""

    def look(self, history: History, observed: Observed, state: ClusterState) -> Observed:
        """Return what is observed with how brokers fare, if this run adapts its rate."""
        if not history.preflight or not history.adapts_rate:
            if history.preflight and history.pace.adapted and not self._cleared:
                self._opened(history, state)  # closing it takes away what another process left
            self.close()
            return observed
        found = self._opened(history, state)
        before = history.measured.before if history.measured else {}
        return replace(
            observed,
            measured=self._measured(found) if history.measured is None else None,
            seen=found.sides(history, state, before, history.pace.rates),
        )

    def _measured(self, found: Senses) -> Measured | None:
        late = self._clock.monotonic() - self._since >= MEASURE_SECONDS
        if not found.ready and not late:
            return None
        return Measured(found.before(), found.trouble)

    def take_sample(self, at: datetime, sample: Mapping[str, Any]) -> None:
        if self._senses is not None:
            self._senses.take_sample(at, sample)

    def close(self) -> None:
        if self._probe is not None:
            self._probe.close()
            self.left = self._probe.left
        self._cleared |= self._senses is not None
        self._probe = self._senses = None

    def _opened(self, history: History, state: ClusterState) -> Senses:
        if self._senses is None:
            involved = {b for m in history.moves for b in (*m.move.before, *m.move.after)}
            self._probe = self._open_probe(sorted(involved & alive_ids(state)))
            self._senses = Senses(self._probe)
            self._since = self._clock.monotonic()
        return self._senses
