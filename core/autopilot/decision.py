"""The decisions of an autopilot: act, elect, wait or off, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from core.cluster.leaders import Election
from core.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Reason:
    """Why, in one sentence; `id` stays the same while its numbers change."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Off:
    """Nothing is looked for."""

    reasons: tuple[Reason, ...] = (Reason("off", "The autopilot is off."),)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is done now; everything that speaks against it, what weighs most first."""

    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Act:
    """A plan that every rule lets pass; in mode `suggest` it is only written down."""

    plan: Plan
    reasons: tuple[Reason, ...]
    copies: int
    """Partitions that get a new replica."""
    leaders: int
    """Partitions that get another preferred leader."""
    bytes: float


@dataclass(frozen=True, slots=True)
class Elect:
    """Preferred leaders to elect, that every rule lets pass; in mode `suggest` only written down.

    No replica moves for it, nor does the order of any.
    """

    elections: tuple[Election, ...]
    reasons: tuple[Reason, ...]


Decision = Off | Wait | Act | Elect
