"""MoveState: one move's status and requests; how a run ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from core.cluster.metadata import TopicPartition
from core.plan.plan import Move


def move_to_json(move: Move) -> dict[str, Any]:
    """Return a move as journals keep it."""
    named = {"log_dirs": move.log_dirs, "log_dirs_before": move.log_dirs_before}
    return {
        "topic": move.tp.topic,
        "partition": move.tp.partition,
        "before": list(move.before),
        "after": list(move.after),
        "topic_id": move.topic_id,
    } | {name: list(paths) for name, paths in named.items() if paths is not None}


def move_from_json(p: Mapping[str, Any]) -> Move:
    dirs_before, named = p.get("log_dirs_before"), p.get("log_dirs")
    return Move(
        TopicPartition(p["topic"], p["partition"]),
        tuple(p["before"]),
        tuple(p["after"]),
        p["topic_id"],
        None if named is None else tuple(named),
        None if dirs_before is None else tuple(dirs_before),
    )


class Phase(Enum):
    """How far one move has come. SUBMITTING is intended, the answer not known."""

    QUEUED = "queued"
    SUBMITTING = "submitting"
    SUBMITTED = "submitted"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"

    @property
    def ended(self) -> bool:
        return self in (Phase.DONE, Phase.FAILED, Phase.CANCELLED, Phase.SKIPPED)

    @property
    def in_flight(self) -> bool:
        return self in (Phase.SUBMITTING, Phase.SUBMITTED)


class Outcome(Enum):
    """How a run ended; the values are what `apply --json` prints."""

    DONE = "done"
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


class Role(Enum):
    """Why a move is in the run: planned, in place of another, or back to where it was."""

    PLAN = "plan"
    RETARGET = "retarget"
    ROLLBACK = "rollback"


class MoveRequest(Enum):
    """What is asked of a move that has not ended: to go on, to be taken back, or not to begin."""

    CONTINUE = "go on"
    CANCEL = "cancel"
    SKIP = "skip"


NOT_STARTED = "not started"
"""Why a move was cancelled that had not been submitted."""
TAKEN_BACK = "cancelled, order as before"
"""Why a move was cancelled that had been."""
DIRS_AS_BEFORE = "cancelled, log dirs as before"
"""Why one was that only copied between log dirs."""


@dataclass(slots=True)
class RunMove:
    """What became of one move so far."""

    move: Move
    batch: int
    long: bool = False
    """It takes longer than its batch: the next one does not wait for it."""
    limited: bool = False
    """Its throttles have been intended: its pairs are listed, or about to be."""
    role: Role = Role.PLAN
    instead_of: int | None = None
    """The index of the move that this one stands in for, or takes back."""
    size_bytes: int | None = None
    """The leader's size at preflight."""
    produced_bytes_per_s: float = 0.0
    """What was produced to it when the run was made, as far as that was known."""
    phase: Phase = Phase.QUEUED
    why: str = ""
    submitted_at: datetime | None = None
    ended_at: datetime | None = None
    tries: int = 0
    """How often it has been submitted."""
    put_off: str = ""
    """Why the cluster did not take it, in its own words, though it may take it yet."""
    refused: str = ""
    """Why a later try was refused, in words, while an earlier one without an answer may act."""
    dirs_refused: dict[int, str] = field(default_factory=dict)
    """Brokers that will not have its replica in the log dir asked for, and why, in words."""
    request: MoveRequest = MoveRequest.CONTINUE
    cancel_intended: bool = False
    """It has been cancelled, whether or not the cluster's answer ever came."""
    cancel_sent: bool = False
    retarget: tuple[int, ...] | None = None
    """Where it is to go instead, once it is taken back."""
    allowed: frozenset[str] = frozenset()
    """Checks that may speak against that, by id, beside those that the run was allowed."""
    replaced: bool = False
    """A later move of this run stands in for it, or takes it back."""
    elections: int = 0
    """How often its preferred leader has been elected in vain."""
    elected: bool = False
    leader: int | None = None
    """Who led it when it was submitted or ended."""

    def requeue(self, batch: int) -> None:
        """Forget what became of it: it begins anew in another batch."""
        self.batch, self.phase, self.request = batch, Phase.QUEUED, MoveRequest.CONTINUE
        self.why = self.put_off = self.refused = ""
        self.submitted_at = self.ended_at = self.retarget = None
        self.tries = 0
        self.limited = self.cancel_intended = self.cancel_sent = False
        self.dirs_refused = {}
