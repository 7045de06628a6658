"""Consumer groups and groups of other protocols, and what of them is not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition

SHARE, STREAMS = "share", "streams"
UNDESCRIBABLE = (SHARE, STREAMS)
"""Types of groups that read, and of which nobody tells us what."""
CONSUMERS = ("classic", "consumer")
GROUPS_HIDDEN = Fault(
    "CLUSTER_AUTHORIZATION_FAILED",
    "without DESCRIBE on the cluster brokers list only groups that this user may describe",
)
"""Why it is never wholly known who reads, though every broker has answered."""
_NO_MEMBERS = ("empty", "dead")


@dataclass(frozen=True, slots=True)
class Member:
    """One consumer of a group and what it was given to read."""

    id: str
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    instance_id: str | None = None
    """Of a static member (KIP-345): its assignment waits for it while it restarts."""


@dataclass(frozen=True, slots=True)
class Group:
    """One group; `committed` holds the offsets it has committed."""

    id: str
    state: str
    assignor: str
    coordinator: int | None
    members: tuple[Member, ...]
    committed: Mapping[TopicPartition, int]
    protocol: str = "classic"
    """How members are assigned: `classic`, by one of themselves, or `consumer`, by the
    coordinator (KIP-848). Of groups of no consumers: `share` (KIP-932), `streams` (KIP-1071), or
    what else their members speak, like `connect`."""
    fault: Fault | None = None
    """Why nothing but its id is known, members least of all."""
    committed_fault: Fault | None = None
    """Why nothing is known of what it has committed."""

    @property
    def has_unknown_reads(self) -> bool:
        """Return whether it may read what neither its members nor its committed offsets tell."""
        if self.committed_fault is not None or self.protocol in UNDESCRIBABLE:
            return True
        return self.fault is not None and self.protocol in CONSUMERS

    @property
    def trouble(self) -> str:
        """Return what of it is not known, in a clause; "" where all is."""
        if self.protocol in UNDESCRIBABLE:
            return f"members and lag are not known for {self.protocol} groups"
        if self.fault is not None and self.protocol not in CONSUMERS:
            return f"members are not known for {self.protocol} groups"
        if self.fault is not None:
            return f"may not be looked at: {self.fault}"
        if self.committed_fault is not None:
            return f"its offsets are not known: {self.committed_fault}"
        return ""


@dataclass(frozen=True, slots=True)
class ActiveGroups:
    """Groups that have members, by id, without what they have committed."""

    groups: tuple[Group, ...]
    omitted_count: int = 0
    """So many more there are."""
    is_complete: bool = True
    """False when a coordinator did not tell of its groups: one that is missing may be there.

    Groups that this user is never told of (GROUPS_HIDDEN) are none of those.
    """
    other_groups: tuple[Group, ...] = ()
    """Groups with members that are none of consumers: share, streams and the like."""

    @property
    def last_id(self) -> str | None:
        """The last id that is told of, where some are left out; they come after it."""
        if not self.omitted_count:
            return None
        return self.groups[-1].id if self.groups else ""

    @classmethod
    def from_groups(cls, groups: Iterable[Group], limit: int) -> ActiveGroups:
        """Return the first `limit` of those that have members."""
        all_groups = list(groups)
        active = [group for group in all_groups if group.members]
        others = (
            g for g in all_groups if g.protocol not in CONSUMERS and g.state not in _NO_MEMBERS
        )
        return cls(tuple(active[:limit]), max(0, len(active) - limit), other_groups=tuple(others))
