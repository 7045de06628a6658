"""Limits: what a plan may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.plan.planner.fields import Field

if TYPE_CHECKING:
    from core.plan.planner.placement import Placement

INF = float("inf")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan may cost; inf is no limit."""

    most_bytes: float = INF
    most_moves: float = INF
    stop: Callable[[], bool] = lambda: False
    """Asked now and then whether the time is up; the best so far is then the plan."""

    def allow(self, on: Placement, size_bytes: float) -> bool:
        """Return whether one more replica of this size may be copied."""
        return (
            on.moved < self.most_moves
            and on.moved_bytes + size_bytes <= self.most_bytes
            and not self.stop()
        )

    def reached(self, on: Placement, size_bytes: float) -> Field | None:
        """Return the limit that keeps one more replica of this size from being copied."""
        if on.moved >= self.most_moves:
            return Field.MAX_MOVES
        if on.moved_bytes + size_bytes > self.most_bytes:
            return Field.MAX_BYTES
        return Field.TIME_BUDGET if self.stop() else None


NO_LIMITS = Limits()
