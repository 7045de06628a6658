"""Partitions' first and last offsets, as their leaders tell them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from core.cluster.client import Fault, OffsetAt
from core.cluster.kafka.admin import Admin, settled
from core.cluster.state import TopicPartition

ELSEWHERE = (
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
)
"""What comes of asking who led a partition once, or as of an election that is past."""


def offsets(
    admin: Admin, partitions: Collection[TopicPartition], at: OffsetAt
) -> dict[TopicPartition, int]:
    """Return the offsets of those whose leaders answer; see ClusterClient."""
    from confluent_kafka import TopicPartition as TheirPartition
    from confluent_kafka.admin import OffsetSpec

    if not partitions:
        return {}
    spec = OffsetSpec.earliest() if at is OffsetAt.EARLIEST else OffsetSpec.latest()

    def ask(some: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
        client = admin.client()  # held until all is answered: let go of, it is destroyed
        futures = client.list_offsets(
            {TheirPartition(tp.topic, tp.partition): spec for tp in some},
            request_timeout=admin.seconds,
        )
        answers = {TopicPartition(tp.topic, tp.partition): settled(f) for tp, f in futures.items()}
        admin.hear_any(answers.values())
        return answers

    answers = ask(partitions)
    elsewhere = [tp for tp, a in answers.items() if isinstance(a, Fault) and a.name in ELSEWHERE]
    if elsewhere and admin.forget_leaders():
        answers |= ask(elsewhere)
    admin.forget_if_in_vain(answers.values())
    admin.raise_if_nothing(answers.values())
    return {tp: a.offset for tp, a in answers.items() if not isinstance(a, Fault)}
