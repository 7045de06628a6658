"""The cluster document: a cluster with its load as JSON; absent or null is unknown, never 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from core.cluster.access import hidden_topics as hidden
from core.cluster.client import ClusterClient, OffsetAt
from core.cluster.groups import GROUPS_HIDDEN, Group, Member
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import UNKNOWN, Broker, TopicPartition
from core.cluster.state import ClusterState
from core.units import format_time

FORMAT = "trimtab.cluster/1"

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ClusterDocument:
    """A state, its rates (bytes/s by partition row, NaN unknown), its groups or None unknown."""

    state: ClusterState
    in_bytes_per_s: Float64
    out_bytes_per_s: Float64
    groups: tuple[DocumentGroup, ...] | None = None


@dataclass(frozen=True, slots=True)
class DocumentGroup:
    """A consumer group and how far behind it is on each partition; None is not known."""

    id: str
    state: str
    members: tuple[Member, ...]
    lag: Mapping[TopicPartition, int | None]
    unknown: bool = False
    """Whether nothing is known of what it has committed; `lag` is empty then."""
    type: str = ""
    """As `Group.protocol`; "" is not known."""

    @classmethod
    def of(cls, group: Group, ends: Mapping[TopicPartition, int]) -> DocumentGroup:
        """Return a group with its lag behind these log end offsets."""
        return cls(
            group.id,
            group.state,
            group.members,
            {}
            if group.has_unknown_reads
            else {
                tp: max(0, ends[tp] - at) if tp in ends else None
                for tp, at in group.committed.items()
            },
            unknown=group.has_unknown_reads,
            type=group.protocol,
        )

    @property
    def reads(self) -> dict[TopicPartition, int | None]:
        """Return its lag on all that it reads: unknown where a member has not committed yet."""
        given = {tp: None for member in self.members for tp in member.assignment}
        return {**given, **self.lag}


def fetch_document_groups(
    client: ClusterClient, before: Sequence[DocumentGroup] | None = None
) -> tuple[DocumentGroup, ...] | None:
    """Return the groups that `client` lists, with their lags. Raises what its calls raise.

    Where a coordinator does not list its groups, they are those of `before` that are missing.
    None is returned where it is not known which groups there are, and some may well read what
    nobody else does: without such a list, where none of it is missing, and where this user is not
    told of all.
    """
    lost: list[Fault] = []
    groups = client.describe_groups(lost=lost.append)
    listed = {group.id for group in groups}
    missing = [group for group in before or () if group.id not in listed]
    if lost and (GROUPS_HIDDEN in lost or not missing):
        return None
    read: set[TopicPartition] = {tp for group in groups for tp in group.committed}
    ends = client.fetch_offsets(read, OffsetAt.LATEST) if read else {}
    document_groups = [DocumentGroup.of(group, ends) for group in groups]
    if lost:
        document_groups += (
            DocumentGroup(group.id, "unknown", (), {}, unknown=True) for group in missing
        )
    return tuple(sorted(document_groups, key=lambda group: group.id))


def document_to_json(document: ClusterDocument) -> dict[str, Any]:
    """Return the document as plain JSON values."""
    header = header_to_json(document)
    groups = header.pop("groups")
    rows = range(document.state.partition_count)
    partitions = [_partition_json(document, row) for row in rows]
    return header | {"partitions": partitions, "groups": groups}


def header_to_json(document: ClusterDocument) -> dict[str, Any]:
    """Return all of the document but its partitions."""
    state, groups = document.state, document.groups
    return {
        "format": FORMAT,
        "cluster_id": state.cluster_id,
        "fetched_at": format_time(state.fetched_at),
        "controller": state.controller,
        **({"moves_unknown": state.moves_unknown} if state.moves_unknown else {}),
        **(
            {}
            if state.hidden is None
            else {"hidden_topics": hidden.hidden_topics_to_json(state.hidden)}
        ),
        "brokers": [_broker_json(broker) for broker in state.brokers],
        "topics": [asdict(topic) for topic in state.topics],
        "groups": None if groups is None else [_group_json(group) for group in groups],
    }


def _broker_json(broker: Broker) -> dict[str, Any]:
    return {
        "id": broker.id,
        "rack": broker.rack,
        "host": broker.host,
        "port": broker.port,
        "alive": broker.alive,
        "log_dirs": [
            {"path": d.path, "total_bytes": d.total_bytes, "usable_bytes": d.usable_bytes}
            | ({"error": d.error} if d.error else {})
            for d in broker.log_dirs
        ],
        "in_capacity_bytes_per_s": broker.in_capacity_bytes_per_s,
        "out_capacity_bytes_per_s": broker.out_capacity_bytes_per_s,
    }


def _partition_json(document: ClusterDocument, index: int) -> dict[str, Any]:
    state = document.state
    row, at = state.row(index), state.replica_slice(index)
    detail = [
        {
            "broker": broker,
            "size_bytes": _known_or_none(size),
            "log_dir": state.log_dir_paths[place] if place >= 0 else None,
            "lag": _known_or_none(lag),
        }
        for broker, size, place, lag in zip(
            row.replicas,
            state.size_bytes[at].tolist(),
            state.log_dir[at].tolist(),
            state.lag[at].tolist(),
            strict=True,
        )
    ]
    return {
        "topic": row.topic,
        "partition": row.partition,
        "leader": row.leader,
        "leader_epoch": _known_or_none(row.leader_epoch),
        "replicas": list(row.replicas),
        "isr": list(row.isr),
        "adding": list(row.adding),
        "removing": list(row.removing),
        "size_bytes": _known_or_none(int(state.partition_size_bytes[index])),
        "in_bytes_per_s": _finite_or_none(float(document.in_bytes_per_s[index])),
        "out_bytes_per_s": _finite_or_none(float(document.out_bytes_per_s[index])),
        "replica_detail": detail,
    }


def _group_json(group: DocumentGroup) -> dict[str, Any]:
    return {
        "id": group.id,
        "state": group.state,
        "type": group.type or None,
        "members": [
            {
                "id": member.id,
                "client_id": member.client_id,
                "host": member.host,
                "assignment": [tp._asdict() for tp in member.assignment],
            }
            for member in group.members
        ],
        "lag": None
        if group.unknown
        else [tp._asdict() | {"lag": lag} for tp, lag in sorted(group.lag.items())],
    }


def _known_or_none(value: int) -> int | None:
    return None if value == UNKNOWN else value


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
