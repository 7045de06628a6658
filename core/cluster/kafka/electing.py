"""Elections of leaders on the wire: preferred ones, and unclean ones (KIP-460)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from core.cluster.client import Fault
from core.cluster.kafka.wire import CONTROLLER_SECONDS, Wire, fault, refuse
from core.cluster.state import TopicPartition
from core.errors import TrimtabError

_PREFERRED, _UNCLEAN = 0, 1


_AT_ONCE = 1000
"""Partitions in one request: KRaft's controller refuses more than 10,000 as a whole, and while it
elects it does nothing else."""


def elect_leaders(
    wire: Wire, partitions: Collection[TopicPartition], *, unclean: bool
) -> dict[TopicPartition, Fault | None]:
    """Elect leaders; see ClusterClient."""
    asked = list(partitions)
    answers: dict[TopicPartition, Fault | None] = {}
    for first in range(0, len(asked), _AT_ONCE):
        some = asked[first : first + _AT_ONCE]
        try:
            answers |= _elect(wire, some, unclean)
        except TrimtabError as error:
            if not answers:
                raise
            # What was elected before is not to be lost.
            answers |= dict.fromkeys(some, Fault("UNKNOWN_SERVER_ERROR", error.title))
    return answers


def _elect(
    wire: Wire, partitions: Collection[TopicPartition], unclean: bool
) -> dict[TopicPartition, Fault | None]:
    from kafka.protocol.admin import ElectLeadersRequest

    topic_type = ElectLeadersRequest.TopicPartitions
    by_topic: dict[str, list[int]] = defaultdict(list)
    for tp in partitions:
        by_topic[tp.topic].append(tp.partition)
    answer: Any = wire.controlled(
        ElectLeadersRequest(
            election_type=_UNCLEAN if unclean else _PREFERRED,
            topic_partitions=[topic_type(topic=t, partitions=p) for t, p in by_topic.items()],
            timeout_ms=int(CONTROLLER_SECONDS * 1000),
        )
    )
    refuse(answer, "elect leaders")
    return {
        TopicPartition(result.topic, one.partition_id): fault(one.error_code, one.error_message)
        for result in answer.replica_election_results
        for one in result.partition_result
    }
