"""Topic health: missing leaders, too few replicas, ISRs below min.insync.replicas.

Pure. A partition is under-replicated as Kafka's TopicCommand says: fewer in sync than replicas,
those left out that a reassignment is adding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.cluster.metadata import NO_LEADER
from core.cluster.state import Bool, ClusterState, Int64

PROBE_TOPIC = "__trimtab_probe"
"""What clients feel is measured on it; on those that begin so, what producers wait beside a run."""
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Topics that brokers themselves keep their state in."""

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_legal_name(topic: str) -> bool:
    """Return whether Kafka takes it for a topic's name (internals/Topic.java)."""
    return _NAME.fullmatch(topic) is not None and topic not in (".", "..")


@dataclass(frozen=True, slots=True)
class TopicHealth:
    """One topic in numbers; `replicas` are the replication factors that its partitions have."""

    name: str
    id: str | None
    partitions: int
    replicas: tuple[int, ...]
    under_replicated: int
    offline: int
    """Partitions without a leader."""
    moving: int | None
    """Partitions of which replicas are being added or removed; None where that is not known."""


def topic_health(state: ClusterState, topics: Sequence[str]) -> tuple[TopicHealth, ...]:
    """Return these topics in numbers, in the order that they are named."""
    under, offline, factor = (
        under_replicated(state),
        state.leader == NO_LEADER,
        _replication_factors(state),
    )
    in_flight = state.reassigning
    healths = []
    for name in topics:
        rows = state.partitions_of(name)
        at = slice(rows.start, rows.stop)
        topic = state.topic(name)
        healths.append(
            TopicHealth(
                name,
                topic.id if topic else None,
                len(rows),
                tuple(np.unique(factor[at]).tolist()),
                int(under[at].sum()),
                int(offline[at].sum()),
                None if state.moves_unknown else int(in_flight[at].sum()),
            )
        )
    return tuple(healths)


def has_leaders(state: ClusterState, topic: str, partitions: int) -> bool:
    """Return whether a topic has so many partitions at least, and each has a leader."""
    rows = state.partitions_of(topic)
    return len(rows) >= partitions and bool((state.leader[rows.start : rows.stop] >= 0).all())


def under_replicated(state: ClusterState) -> Bool:
    """Return which partitions have fewer replicas in sync than they should, shape [P]."""
    return _replica_counts(state, state.in_sync) < _replication_factors(state)


def _replication_factors(state: ClusterState) -> Int64:
    return np.diff(state.replica_start) - _replica_counts(state, state.adding)


def _replica_counts(state: ClusterState, of: Bool) -> Int64:
    return np.bincount(state.partition_of_replica[of], minlength=state.partition_count)
