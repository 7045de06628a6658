"""Limits: what a plan may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.cluster.state import Bool
from core.plan.planner.fields import Field

if TYPE_CHECKING:
    from core.plan.planner.placement import Placement

INF = float("inf")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan may cost; inf is no limit."""

    most_bytes: float = INF
    most_moves: float = INF
    most_per_broker: float = INF
    """Replicas that any one broker gives away and takes, together."""
    stop: Callable[[], bool] = lambda: False
    """Asked now and then whether the time is up; the best so far is then the plan."""

    def allow(self, on: Placement, size_bytes: float, *brokers: int) -> bool:
        """Return whether one more replica of this size may be copied, from and to these brokers."""
        return (
            on.moved < self.most_moves
            and on.moved_bytes + size_bytes <= self.most_bytes
            and all(on.part_in[broker] < self.most_per_broker for broker in brokers)
            and not self.stop()
        )

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
        return Field.TIME_BUDGET if self.stop() else None


NO_LIMITS = Limits()
