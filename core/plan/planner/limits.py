"""Limits: what a plan may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.cluster.state import Bool
from core.plan.planner.fields import Field

if TYPE_CHECKING:
    from core.plan.planner.placement import Placement

INF = float("inf")
TOLD_SECONDS = 60e-6
"""How long it takes at most to check a change, to find its reason, and to write it down.

Measured 53 µs of processor time on 200 brokers, closed form of the time and JSON among it."""
ENDED_SECONDS = 0.2
"""How long it takes to end a command, however short its plan is."""
COMPARED_SECONDS = 1.5e-6
"""How long it takes at most to find out whether a partition has changed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan may cost; inf is no limit."""

    most_bytes: float = INF
    most_moves: float = INF
    most_per_broker: float = INF
    """Replicas that any one broker gives away and takes, together."""
    stop: Callable[[], bool] = lambda: False
    """Asked now and then whether to end; the best so far is then the plan."""
    seconds_left: Callable[[], float] = lambda: INF
    """Asked now and then for the time until the plan should have been told, to work with."""

    @property
    def are_set(self) -> bool:
        """Return whether an operator gave any, be it of time."""
        return (
            min(self.most_bytes, self.most_moves, self.most_per_broker) < INF
            or self.seconds_left() < INF
        )

    def allow(self, on: Placement, size_bytes: float, *brokers: int) -> bool:
        """Return whether one more replica of this size may be copied, from and to these brokers."""
        return (
            on.moved < self.most_moves
            and on.moved_bytes + size_bytes <= self.most_bytes
            and all(on.part_in[broker] < self.most_per_broker for broker in brokers)
            and not self.time_is_up(on)
        )

    def time_is_up(self, on: Placement) -> bool:
        """Return whether to end now, so that there is time to tell what has been planned."""
        changes = TOLD_SECONDS * (on.moved + on.led) + COMPARED_SECONDS * len(on.at)
        needed = ENDED_SECONDS + changes
        return self.stop() or self.seconds_left() < needed

    def keeping(self, part: float) -> Limits:
        """Return these limits with a part of the time that is left kept for what comes after."""
        kept = part * self.seconds_left()
        if kept == INF:
            return self
        return replace(self, seconds_left=lambda: self.seconds_left() - kept)

    def ready(self, on: Placement) -> Bool:
        """Return which brokers may still give or take a replica, shape [B]."""
        return on.part_in < self.most_per_broker

    def reached(self, on: Placement, size_bytes: float, *brokers: int) -> Field | None:
        """Return the limit that keeps one more replica of this size from being copied."""
        if on.moved >= self.most_moves:
            return Field.MAX_MOVES
        if on.moved_bytes + size_bytes > self.most_bytes:
            return Field.MAX_BYTES
        if any(on.part_in[broker] >= self.most_per_broker for broker in brokers):
            return Field.MAX_PER_BROKER
        return Field.TIME_BUDGET if self.time_is_up(on) else None


NO_LIMITS = Limits()
