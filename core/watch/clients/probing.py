"""Probing: sends at a steady pace, follows brokers that come and go, reports once a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Protocol

from core.clock import Clock
from core.cluster.probe.round_trip import Heard, Layout
from core.errors import AccessDeniedError, IncompleteError
from core.watch.clients.eye import Eye
from core.watch.clients.places import RATE, places
from core.watch.clients.report import Report, Said

REPORT_SECONDS = 1.0
ABSENT_SECONDS = 10.0
"""For how long a topic may seem to be gone: a broker that has just begun knows of none."""
_LEAST_SECONDS = 0.001
_MOST_BEHIND_SECONDS = 1.0
"""What was not sent for longer than this (the machine slept) stays unsent."""


class Pings(Protocol):
    """What sends and hears; see core.cluster.probe.round_trip."""

    def aim(self, partitions: Mapping[int, int]) -> None: ...

    def send(self, broker: int) -> None: ...

    def hear(self, seconds: float) -> list[Heard]: ...


class Probing:
    """One probe of one cluster, for one thread; `layout` tells how its topic lies, if it is new."""

    def __init__(
        self,
        pings: Pings,
        layout: Callable[[], Layout | None],
        cluster_id: str,
        clock: Clock,
    ) -> None:
        self._pings, self._layout = pings, layout
        self._cluster_id, self._clock = cluster_id, clock
        self._eye = Eye()
        self._order: list[int] = []
        self._absent_since: float | None = None
        self._sent = 0
        self._next_send = self._next_report = clock.monotonic()

    def run(self, keep_on: Callable[[], bool], report: Callable[[Report], None]) -> None:
        """Probe until `keep_on` says no, reporting once a second.

        Raises IncompleteError when the topic is deleted, AccessDeniedError when rights are missing.
        """
        while keep_on():
            self._follow()
            now = self._clock.monotonic()
            if now - self._next_send > _MOST_BEHIND_SECONDS:
                self._next_send = now
            while self._order and self._next_send <= now:
                self._pings.send(self._order[self._sent % len(self._order)])
                self._sent += 1
                self._next_send += 1 / (RATE * len(self._order))
            due = min(self._next_send if self._order else now + REPORT_SECONDS, self._next_report)
            for heard in self._pings.hear(max(_LEAST_SECONDS, due - now)):
                self._eye.hear(heard)
            now = self._clock.monotonic()
            if now >= self._next_report:
                self._next_report = max(self._next_report + REPORT_SECONDS, now)
                report(self._reported(now))
                self._refuse_denied()

    def _follow(self) -> None:
        layout = self._layout()
        if layout is None:
            return
        now = self._clock.monotonic()
        if layout.partitions is None:
            self._eye.forget_unread()
            if self._absent_since is None:
                self._absent_since = now
            if now - self._absent_since < ABSENT_SECONDS:
                return
            raise IncompleteError(
                "The topic of the probe is gone: somebody has deleted it.",
                next="Begin again: trimtab probe makes it anew.",
            )
        self._absent_since = None
        found = places(layout.partitions)
        self._eye.follow(found.keys() | layout.brokers, layout.brokers)
        self._order = sorted(found)
        self._pings.aim(found)

    def _reported(self, now: float) -> Report:
        at = self._clock.now()
        told = tuple(
            Said(at - timedelta(seconds=now - one.at), one.text, one.brokers)
            for one in self._eye.look(now)
        )
        return Report(at, self._cluster_id, self._eye.seen(), told)

    def _refuse_denied(self) -> None:
        if self._eye.denied:
            verb = "read" if self._eye.denied == "fetch" else "write to"
            raise AccessDeniedError(
                f"The probe may not {verb} its topic.",
                next="It needs the rights to describe, write to and read that topic.",
            )
