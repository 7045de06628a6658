"""Partitions' first and last offsets, as their leaders tell them."""

from __future__ import annotations

from collections.abc import Collection

from core.cluster.client import Fault, OffsetAt
from core.cluster.kafka.admin import SECONDS, Admin, settled
from core.cluster.state import TopicPartition


def offsets(
    admin: Admin, partitions: Collection[TopicPartition], at: OffsetAt
) -> dict[TopicPartition, int]:
    """Return the offsets of those whose leaders answer; see ClusterClient."""
    from confluent_kafka import TopicPartition as TheirPartition
    from confluent_kafka.admin import OffsetSpec

    if not partitions:
        return {}
    spec = OffsetSpec.earliest() if at is OffsetAt.EARLIEST else OffsetSpec.latest()
    futures = admin.client().list_offsets(
        {TheirPartition(tp.topic, tp.partition): spec for tp in partitions},
        request_timeout=SECONDS,
    )
    answers = {
        TopicPartition(tp.topic, tp.partition): settled(future) for tp, future in futures.items()
    }
    admin.forget_if_in_vain(answers.values())
    admin.raise_if_nothing(answers.values())
    return {tp: a.offset for tp, a in answers.items() if not isinstance(a, Fault)}
