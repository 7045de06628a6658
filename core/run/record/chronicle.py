"""A run's journal and the history that is its fold, kept together: first written, then known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from core.clock import Clock
from core.run.record.asked import refusal
from core.run.record.history import History
from core.run.record.journal import Journal
from core.run.record.records import Kind


class Chronicle:
    """The one writer of a journal's records; `history` is what all of them come to."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self.journal, self._clock = journal, clock
        self.history = History.fold(journal.records())
        self.newest_sample: dict[str, Any] | None = None

    def now(self) -> datetime:
        return self._clock.now()

    def write(self, what: Kind, /, **payload: Any) -> None:
        """Write a record, on disk as this returns, and fold it in."""
        self.history.apply(self.journal.write(self._clock.now(), what, payload))

    def note_waiting(self, why: str) -> None:
        """Write for what the run waits, "" for nothing, unless the last such record says so."""
        if why != self.history.waiting:
            self.write(Kind.WAITING, why=why)

    def take_requests(self, against: Callable[[str, Mapping[str, Any]], str]) -> None:
        """Write down what has been asked of the run since it last looked.

        `against` says why the cluster speaks against a request that can be read, or "".
        """
        for request in self.journal.requests(self.history.requests_seen):
            p = request.payload
            why = p.get("refused") or refusal(self.history, request.kind, p)
            why = why or against(request.kind, p)
            payload = {"who": "?", "host": "?", **p, "seq": request.seq, "kind": request.kind}
            self.write(Kind.REQUEST, **payload | ({"refused": why} if why else {}))

    def sample(self, payload: dict[str, Any]) -> None:
        self.journal.sample(self._clock.now(), payload)
        self.newest_sample = payload
