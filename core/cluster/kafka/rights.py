"""What a user may do, asked without trying: authorized operations (KIP-430)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from core.cluster.access.rights import GrantedRights
from core.cluster.kafka.wire import Wire

_OPERATIONS = {
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
}
"""Kafka's AclOperation, by its code."""
_UNTOLD = 31
"""The only bit of a field that a broker has not filled."""
_GROUP_DENIED = 30
_MAX_GROUPS = 200
"""Of one coordinator: any group tells it, and there may be tens of thousands."""


def fetch_rights(wire: Wire, principal: str) -> GrantedRights:
    """Return what this user may do on the cluster, and on each topic and group that it sees."""
    from kafka.protocol.admin import DescribeClusterRequest
    from kafka.protocol.metadata import MetadataRequest

    cluster = wire.send_to_any(DescribeClusterRequest(include_cluster_authorized_operations=True))
    every_topic = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
    )
    metadata = wire.send_to_any(every_topic, wire.metadata_timeout)
    topics = {
        topic.name: _names(topic.authorized_operations)
        for topic in metadata.topics
        if topic.error_code == 0
    }
    known = {name: operations for name, operations in topics.items() if operations is not None}
    return GrantedRights(
        principal,
        _names(cluster.authorized_operations),
        known if len(known) == len(topics) else None,
        _fetch_group_operations(wire, [broker.broker_id for broker in cluster.brokers]),
    )


def _fetch_group_operations(wire: Wire, brokers: Iterable[int]) -> dict[str, frozenset[str]] | None:
    from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest

    coordinated: dict[int, list[str]] = defaultdict(list)
    lists = {broker: ListGroupsRequest(states_filter=[], types_filter=[]) for broker in brokers}
    for broker, answer in wire.ask_each(lists).items():
        if not isinstance(answer, Exception) and answer.error_code == 0:
            coordinated[broker] += [group.group_id for group in answer.groups][:_MAX_GROUPS]
    requests = {
        broker: DescribeGroupsRequest(groups=ids, include_authorized_operations=True)
        for broker, ids in coordinated.items()
        if ids
    }
    operations: dict[str, frozenset[str]] = {}
    for answer in wire.ask_each(requests).values():
        if isinstance(answer, Exception):
            continue
        for group in answer.groups:
            if group.error_code == _GROUP_DENIED:
                operations[group.group_id] = frozenset()
                continue
            if (names := _names(group.authorized_operations)) is None:
                return None
            operations[group.group_id] = names
    return operations


def _names(operations: Any) -> frozenset[str] | None:
    """Return operations by name; None of brokers that do not tell any."""
    codes = {int(code) for code in operations or ()}
    if operations is None or codes == {_UNTOLD}:
        return None
    return frozenset(_OPERATIONS[code] for code in codes if code in _OPERATIONS)
