"""Groups that librdkafka drops from what brokers list: share, streams, and other protocols'.

Their members take requests that neither library has. What groups of another protocol have
committed is told as for any; share groups commit no offsets in that sense.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from core.cluster.client import GROUPS_HIDDEN, SHARE, UNDESCRIBED, Fault, Group
from core.cluster.kafka.groups import CommittedBy
from core.cluster.kafka.wire import Wire, fault
from core.patterns import is_whole

_CONSUMERS = ("consumer", "")
"""The protocol types that librdkafka lists; "" is of groups that only commit offsets."""
_SECONDS = 4.0
_DESCRIBE = 8
"""AclOperation.DESCRIBE, among authorized operations (KIP-430)."""


def may_describe(operations: Collection[int] | None) -> bool:
    """Return whether DESCRIBE is among authorized operations; None of them were told."""
    return operations is None or _DESCRIBE in operations


def other_groups(
    wire: Wire,
    matching: str | None,
    committed: CommittedBy,
    lost: Callable[[Fault], None],
) -> tuple[Group, ...]:
    """Return these groups by id; `lost` hears of each broker that did not list its own.

    It hears of GROUPS_HIDDEN, too.
    """
    listed = [g for g in _listed(wire, lost) if is_whole(matching, g.id)]
    coordinators = {g.id: g.coordinator for g in listed if g.protocol != SHARE}
    offsets = committed({id: b for id, b in coordinators.items() if b is not None})
    return tuple(sorted((_with(group, offsets.get(group.id)) for group in listed), key=_id))


def other_active_groups(wire: Wire, lost: Callable[[Fault], None]) -> tuple[Group, ...]:
    """Return those of these groups that have members, by id."""
    active = (g for g in _listed(wire, lost) if g.state not in ("empty", "dead"))
    return tuple(sorted(active, key=_id))


def _id(group: Group) -> str:
    return group.id


def _with(group: Group, offsets: Any) -> Group:
    if isinstance(offsets, Fault):
        return replace(group, committed_fault=offsets)
    return replace(group, committed=offsets or {})


def _listed(wire: Wire, lost: Callable[[Fault], None]) -> list[Group]:
    from kafka.protocol.admin import DescribeClusterRequest, ListGroupsRequest

    async def ask(manager: Any, node: int) -> Any:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        return await manager.send(request, node_id=node)

    cluster = wire.read(ask)
    if not may_describe(cluster.authorized_operations):
        lost(GROUPS_HIDDEN)
    brokers = [broker.broker_id for broker in cluster.brokers]
    asked = {b: ListGroupsRequest(states_filter=[], types_filter=[]) for b in brokers}
    found: dict[str, Group] = {}
    for broker, answer in wire.each(asked, _SECONDS).items():
        if isinstance(answer, Exception):
            lost(Fault("REQUEST_TIMED_OUT", str(answer) or type(answer).__name__))
        elif failed := fault(answer.error_code):
            lost(failed)
        else:
            for group in answer.groups:
                if group.protocol_type not in _CONSUMERS:
                    found[group.group_id] = _group(broker, group)
    return list(found.values())


def _group(broker: int, listed: Any) -> Group:
    """Return a group as it is listed, by its own coordinator; older brokers tell no state."""
    state = (listed.group_state or "unknown").lower()
    type = (listed.group_type or "").lower()
    protocol = type if type in UNDESCRIBED else listed.protocol_type
    return Group(
        id=listed.group_id,
        state=state,
        assignor="",
        coordinator=broker,
        members=(),
        committed={},
        protocol=protocol,
        fault=Fault("UNSUPPORTED_GROUP_TYPE", f"members of {protocol} groups are not told"),
    )
