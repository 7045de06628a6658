"""Kafka's errors for single partitions and resources, and what they mean: gone, or transient."""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import AccessDeniedError, rights_advice

_UNANSWERED = frozenset(
    ("REQUEST_TIMED_OUT", "TIMED_OUT", "NETWORK_EXCEPTION", "TRANSPORT", "UNKNOWN_SERVER_ERROR")
)
_TRANSIENT = _UNANSWERED | {
    *("NOT_CONTROLLER", "COORDINATOR_NOT_AVAILABLE", "THROTTLING_QUOTA_EXCEEDED"),
    *("NOT_LEADER_OR_FOLLOWER", "BROKER_NOT_AVAILABLE"),
}
_INVALID_VALUE = frozenset(("INVALID_CONFIG", "INVALID_REQUEST", "POLICY_VIOLATION"))


@dataclass(frozen=True, slots=True)
class Fault:
    """Kafka's error for one partition or resource: its name (`UNKNOWN_TOPIC_OR_PARTITION`)."""

    name: str
    message: str = ""

    def __str__(self) -> str:
        """Return it as a clause: some of Kafka's messages end with a full stop."""
        message = self.message.rstrip(".")
        return f"{self.name}: {message}" if message else self.name

    @property
    def is_denial(self) -> bool:
        """Return whether a right is missing."""
        return "AUTHORIZATION" in self.name


_RESOURCES = {"CLUSTER": "the cluster", "TOPIC": "topics", "GROUP": "groups"}
"""What a right is on, by how the fault of who has not got it begins."""


class AllDeniedError(AccessDeniedError):
    """A cluster that answers denies all that one call asks for: every one has this `fault`.

    `operation` is the one that the call takes, by Kafka's name.
    """

    def __init__(self, fault: Fault, operation: str) -> None:
        resource = _RESOURCES.get(fault.name.partition("_")[0])
        takes = f"{operation} on {resource}" if resource else ""
        super().__init__(f"The cluster says no: {fault}.", next=rights_advice(takes), takes=takes)
        self.fault = fault


def access_denied(title: str, takes: str = "") -> AccessDeniedError:
    """Return a refusal; `takes` is the right that is missing, where that is known."""
    return AccessDeniedError(title, next=rights_advice(takes), takes=takes)


def advice_for(fault: Fault, operation: str, resource: str) -> str:
    """Return which right is missing where a fault says that one is; "" for any other."""
    return rights_advice(f"{operation} on {resource}") if fault.is_denial else ""


def is_leader_elected(answer: Fault | None) -> bool:
    """Return whether an election has come to what was wanted, or had before."""
    return answer is None or answer.name == "ELECTION_NOT_NEEDED"


def is_missing(answer: object) -> bool:
    """Return whether an answer says that the topic or partition asked for does not exist."""
    return isinstance(answer, Fault) and answer.name == "UNKNOWN_TOPIC_OR_PARTITION"


def is_transient(fault: Fault) -> bool:
    """Return whether the same request is worth making again."""
    return fault.name in _TRANSIENT


def is_unanswered(fault: Fault) -> bool:
    """Return whether a request may have been taken, or may be yet."""
    return fault.name in _UNANSWERED


def is_settled(fault: Fault) -> bool:
    """Return whether a fault says that there is nothing to do any more."""
    return fault.name == "NO_REASSIGNMENT_IN_PROGRESS" or is_missing(fault)


def is_invalid_value(fault: Fault) -> bool:
    """Return whether it is the value that is refused: the same will be, another may not."""
    return fault.name in _INVALID_VALUE
