"""What confluent-kafka's answers about one consumer group mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.cluster.client import Fault, Group, Member
from core.cluster.state import TopicPartition


def is_elsewhere(answer: object) -> bool:
    """Return whether the broker that was asked coordinates the group no more."""
    return isinstance(answer, Fault) and answer.name == "NOT_COORDINATOR"


def group_of(
    id: str, description: Any, offsets: Mapping[TopicPartition, int] | Fault | None = None
) -> Group | None:
    """Return a group from both answers about it; None when it has vanished since it was listed.

    Without `offsets` nobody asked for them: none are known, and nothing is wrong with that.
    """
    if isinstance(description, Fault):
        if description.name == "GROUP_ID_NOT_FOUND":
            return None
        return Group(id, "unknown", "", None, (), {}, fault=description)
    if description.state.name == "DEAD":
        return None
    coordinator = description.coordinator.id if description.coordinator is not None else None
    return Group(
        id=id,
        state=description.state.name.lower(),
        assignor=description.partition_assignor or "",
        coordinator=coordinator,
        members=tuple(_member(member) for member in description.members),
        committed=offsets if offsets is not None and not isinstance(offsets, Fault) else {},
        protocol="consumer" if description.type.name == "CONSUMER" else "classic",
        committed_fault=offsets if isinstance(offsets, Fault) else None,
    )


def _member(member: Any) -> Member:
    assigned = member.assignment.topic_partitions if member.assignment is not None else ()
    return Member(
        member.member_id,
        member.client_id,
        member.host,
        tuple(TopicPartition(tp.topic, tp.partition) for tp in assigned),
        member.group_instance_id or None,
    )
