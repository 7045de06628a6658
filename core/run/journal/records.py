"""What a journal holds: records of what was asked, found, intended and done; samples; requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any


class Kind(Enum):
    """What a record tells. `…ING` and `…INTENT` are written before the cluster is changed."""

    CREATED = "created"
    STARTED = "started"
    PREFLIGHT = "preflight"
    MEASURED = "measured"
    THROTTLE_INTENT = "throttle_intent"
    THROTTLE_SET = "throttle_set"
    THROTTLE_FAILED = "throttle_failed"
    RATE_INTENT = "rate_intent"
    RATE_SET = "rate_set"
    POSTPONED = "postponed"
    SUBMITTING = "submitting"
    SUBMITTED = "submitted"
    DIRS_MOVING = "dirs_moving"
    DIRS_MOVED = "dirs_moved"
    MOVED = "moved"
    PAIRS_REMOVING = "pairs_removing"
    PAIRS_REMOVED = "pairs_removed"
    RATE_RESTORING = "rate_restoring"
    RATE_RESTORED = "rate_restored"
    REQUEST = "request"
    CANCELLING = "cancelling"
    CANCEL_SENT = "cancel_sent"
    REORDERING = "reordering"
    REORDERED = "reordered"
    RATES_CHANGING = "rates_changing"
    RATES_CHANGED = "rates_changed"
    DISTURBED = "disturbed"
    PAIRS_PUTTING = "pairs_putting"
    PAIRS_PUT = "pairs_put"
    PAIRS_TAKING = "pairs_taking"
    PAIRS_TAKEN = "pairs_taken"
    MOVES_ADDED = "moves_added"
    RETENTION_LOWERING = "retention_lowering"
    RETENTION_LOWERED = "retention_lowered"
    RETENTION_AWAITED = "retention_awaited"
    RETENTION_RESTORING = "retention_restoring"
    RETENTION_RESTORED = "retention_restored"
    ELECTING = "electing"
    ELECTED = "elected"
    WAITING = "waiting"
    NOTIFIED = "notified"
    CRASHED = "crashed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Record:
    seq: int
    at: datetime
    kind: Kind
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """Bytes seen at one moment; only the newest ones are kept."""

    at: datetime
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    seq: int
    at: datetime
    kind: str
    payload: Mapping[str, Any]
