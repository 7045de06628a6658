"""Writes a run's journal and keeps the replayed state in step: first on disk, then in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.clock import Clock
from core.run.journal.journal import Journal
from core.run.journal.records import Kind
from core.run.journal.replay import fold, fold_record
from core.run.journal.requests import refusal

FREE = 3
"""So many times the same reason to wait is written as often as it comes."""
FORGOTTEN_SECONDS = 600.0
"""A reason that has not come for so long is a new one."""
LASTING_SECONDS = 60.0
"""A reason that has come for so long, with no other in between, is written whatever was before."""


@dataclass(slots=True)
class _Reason:
    """A reason to wait: how often it was written, when last, and when it last came."""

    times: int
    written: float
    came: float


class RunRecorder:
    """The one writer of a journal's records; `run` is what all of them come to."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self.journal, self._clock = journal, clock
        self.state = fold(journal.records())
        self.newest_sample: dict[str, Any] | None = None
        self._reasons: dict[str, _Reason] = {}
        self._present = "", 0.0
        self._intended: dict[Kind, object] = {}

    def now(self) -> datetime:
        return self._clock.now()

    def write(self, what: Kind, /, **payload: Any) -> None:
        """Write a record, on disk as this returns, and fold it in."""
        fold_record(self.state, self.journal.write(self._clock.now(), what, payload))

    def intend_once(self, kind: Kind, **payload: Any) -> None:
        """Write an intent, unless it is the last of its kind over again and came to nothing."""
        if self._intended.get(kind) != payload:
            self.write(kind, **payload)
        self._intended[kind] = payload

    def record_outcome(self, kind: Kind, **payload: Any) -> None:
        """Write what came of an intent, or what makes a new one of it."""
        self.write(kind, **payload)
        self._intended.clear()

    def note_waiting(self, why: str) -> None:
        """Write for what the run waits, "" for nothing, unless the last such record says so.

        Reasons that come and go by turns are written ever more seldom, twice as long apart each
        time: whatever lasts, the journal does not grow with it. That nothing is waited for any
        more is written at once, and so is what has been waited for a while.
        """
        now = self._clock.monotonic()
        if why != self._present[0]:
            self._present = why, now
        lasting = now - self._present[1] >= LASTING_SECONDS
        of = self._reasons.items()
        self._reasons = {t: r for t, r in of if now - r.came < FORGOTTEN_SECONDS}
        known = self._reasons.get(why)
        if known is not None:
            known.came = now
        if why == self.state.waiting:
            return
        if not why:
            pass  # no more often than reasons are
        elif known is None:
            self._reasons[why] = _Reason(1, now, now)
        elif lasting or known.times < FREE or now - known.written >= 2.0**known.times:
            known.times, known.written = known.times + 1, now
        else:
            return
        self.write(Kind.WAITING, why=why)

    def take_requests(self, against: Callable[[str, Mapping[str, Any]], str]) -> None:
        """Write down what has been asked of the run since it last looked.

        `against` says why the cluster speaks against a request that can be read, or "".
        """
        for request in self.journal.requests(self.state.last_request):
            p = request.payload
            why = p.get("refused") or refusal(self.state, request.kind, p)
            why = why or against(request.kind, p)
            payload = {"who": "?", "host": "?", **p, "seq": request.seq, "kind": request.kind}
            self.write(Kind.REQUEST, **payload | ({"refused": why} if why else {}))

    def sample(self, payload: dict[str, Any]) -> None:
        self.journal.sample(self._clock.now(), payload)
        self.newest_sample = payload
