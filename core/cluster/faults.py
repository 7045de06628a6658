"""What a run takes Kafka's errors for: a topic that is gone, or something that passes by itself."""

from __future__ import annotations

from core.cluster.client import Fault

_PASSING = frozenset(
    (
        *("NOT_CONTROLLER", "REQUEST_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE", "NETWORK_EXCEPTION"),
        *("TIMED_OUT", "TRANSPORT", "THROTTLING_QUOTA_EXCEEDED", "UNKNOWN_SERVER_ERROR"),
    )
)


def is_missing(answer: object) -> bool:
    """Return whether an answer says that the topic or partition asked for does not exist."""
    return isinstance(answer, Fault) and answer.name == "UNKNOWN_TOPIC_OR_PARTITION"


def passes(fault: Fault) -> bool:
    """Return whether the same request is worth making again."""
    return fault.name in _PASSING


def is_settled(fault: Fault) -> bool:
    """Return whether a fault says that there is nothing to do any more."""
    return fault.name == "NO_REASSIGNMENT_IN_PROGRESS" or is_missing(fault)
