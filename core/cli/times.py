"""How long a plan takes, in words: the same wherever a command says it."""

from __future__ import annotations

from core.plan.estimate import Estimate
from core.units import format_duration


def time_range(answer: Estimate) -> str:
    """Return `about 44 s (41 s to 48 s)`."""
    if answer.range_seconds is None:
        return "time unknown"
    low, high = answer.range_seconds
    return (
        f"about {format_duration(answer.seconds)} "
        f"({format_duration(low)} to {format_duration(high)})"
    )
