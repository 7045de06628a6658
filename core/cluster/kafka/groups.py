"""Groups: listed by every broker, described by their coordinators, and what they have committed.

Whoever lists a group coordinates it. Members of share and streams groups take requests of their
own, which are not made here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from core.cluster.groups import (
    CONSUMERS,
    GROUPS_HIDDEN,
    SHARE,
    UNDESCRIBABLE,
    ActiveGroups,
    Group,
    Member,
)
from core.cluster.kafka.wire import LEFT_OUT, Wire, fault_from_code, fault_from_silence
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.patterns import is_whole

_SECONDS, _ACTIVE_SECONDS = 4.0, 3.0
"""How long a broker may take to list its groups."""
_CONSUMER_PROTOCOLS = ("consumer", "")
"""The protocol types of consumers; "" is of groups that only commit offsets."""
EMPTY, DEAD = "empty", "dead"
_STATES = {
    "PreparingRebalance": "preparing_rebalancing",
    "CompletingRebalance": "completing_rebalancing",
}
"""Where our words for Kafka's states are not the same in lower case."""
_MAX_GROUPS = 500
"""In one request to a coordinator: what it answers has to come in time."""
_DESCRIBE = 8
"""AclOperation.DESCRIBE, among authorized operations (KIP-430)."""


def describe_groups(
    wire: Wire, matching: str | None, lost: Callable[[Fault], None]
) -> tuple[Group, ...]:
    """Return groups by id; see ClusterClient."""
    listed = [g for g in _list_groups(wire, lost, _SECONDS) if is_whole(matching, g.id)]
    consumers = [group for group in listed if group.protocol in CONSUMERS]
    described = {group.id: group for group in _describe_consumers(wire, consumers, _SECONDS)}
    candidates = [described.get(g.id) if g.protocol in CONSUMERS else g for g in listed]
    groups = [group for group in candidates if group is not None]
    coordinators = {  # of share groups, which commit no offsets, nobody is asked
        group.id: group.coordinator
        for group in groups
        if group.coordinator is not None and group.protocol != SHARE
    }
    offsets = fetch_committed(wire, coordinators)
    return tuple(_with_committed(group, offsets.get(group.id)) for group in groups)


def describe_active_groups(wire: Wire, limit: int) -> ActiveGroups:
    """Return groups with members, at most so many that are consumers'; see ClusterClient."""
    lost: list[Fault] = []
    every = _list_groups(wire, lost.append, _ACTIVE_SECONDS)
    listed = [group for group in every if group.state not in (EMPTY, DEAD)]
    consumers = [group for group in listed if group.protocol in CONSUMERS]
    described = _describe_consumers(wire, consumers[:limit], _ACTIVE_SECONDS)
    return ActiveGroups(
        tuple(group for group in described if group.state not in (EMPTY, DEAD)),
        max(0, len(consumers) - limit),
        is_complete=all(fault == GROUPS_HIDDEN for fault in lost),
        other_groups=tuple(group for group in listed if group.protocol not in CONSUMERS),
    )


def _list_groups(wire: Wire, lost: Callable[[Fault], None], seconds: float) -> list[Group]:
    """Return what brokers list, by id; `lost` hears of those that do not, and of GROUPS_HIDDEN."""
    from kafka.protocol.admin import DescribeClusterRequest, ListGroupsRequest

    cluster = wire.send_to_any(DescribeClusterRequest(include_cluster_authorized_operations=True))
    operations = cluster.authorized_operations
    if operations is not None and _DESCRIBE not in operations:  # older brokers tell of none
        lost(GROUPS_HIDDEN)
    brokers = [broker.broker_id for broker in cluster.brokers]
    requests = {b: ListGroupsRequest(states_filter=[], types_filter=[]) for b in brokers}
    groups: dict[str, Group] = {}
    faults: list[Fault] = []
    for broker, answer in wire.ask_each(requests, seconds).items():
        if isinstance(answer, Exception):
            faults.append(fault_from_silence(answer))
        elif failed := fault_from_code(answer.error_code):
            faults.append(failed)
        else:
            groups |= {group.group_id: _parse_listing(broker, group) for group in answer.groups}
    if len(faults) == len(brokers):
        raise wire.explain(TimeoutError(), str(faults[0]) if faults else "it names no brokers")
    for fault in faults:
        lost(fault)
    return sorted(groups.values(), key=lambda group: group.id)


def _parse_listing(broker: int, group: Any) -> Group:
    """Return a group as the broker lists it that coordinates it; older brokers tell no state."""
    type = (group.group_type or "").lower()
    protocol = type if type in UNDESCRIBABLE else group.protocol_type
    if protocol in _CONSUMER_PROTOCOLS:
        protocol = "consumer" if type == "consumer" else "classic"
    fault = Fault("UNSUPPORTED_GROUP_TYPE", f"members of {protocol} groups are not told")
    return Group(
        id=group.group_id,
        state=_parse_state(group.group_state or "unknown"),
        assignor="",
        coordinator=broker,
        members=(),
        committed={},
        protocol=protocol,
        fault=None if protocol in CONSUMERS else fault,
    )


def _parse_state(state: str) -> str:
    return _STATES.get(state, state.lower())


def _describe_consumers(wire: Wire, listed: Sequence[Group], seconds: float) -> list[Group]:
    """Return these consumer groups with their members, or with why they are not told.

    Those that have gone meanwhile are left out.
    """
    groups = _describe_by_coordinators(wire, listed, seconds)
    moved = {id for id, a in groups.items() if isinstance(a, Fault) and a.name == "NOT_COORDINATOR"}
    if moved:
        moved_groups = [g for g in _list_groups(wire, lambda fault: None, seconds) if g.id in moved]
        groups |= _describe_by_coordinators(wire, moved_groups, seconds)
    return [
        Group(id, "unknown", "", None, (), {}, fault=group) if isinstance(group, Fault) else group
        for id, group in groups.items()
        if (group.name != "GROUP_ID_NOT_FOUND" if isinstance(group, Fault) else group.state != DEAD)
    ]


def _describe_by_coordinators(
    wire: Wire, listed: Sequence[Group], seconds: float
) -> dict[str, Group | Fault]:
    """Return what each group's coordinator tells of it, in the order in which they are listed."""
    from kafka.protocol.admin import DescribeGroupsRequest

    from core.cluster.kafka.messages import ConsumerGroupDescribeRequest

    kinds: dict[str, tuple[Callable[[list[str]], Any], Callable[[int, Any], Group]]] = {
        "classic": (lambda ids: DescribeGroupsRequest(groups=ids), _parse_classic),
        "consumer": (lambda ids: ConsumerGroupDescribeRequest(group_ids=ids), _parse_consumer),
    }
    groups: dict[str, Group | Fault] = {group.id: LEFT_OUT for group in listed}
    for protocol, (request, parse) in kinds.items():
        coordinators = {
            group.id: group.coordinator
            for group in listed
            if group.protocol == protocol and group.coordinator is not None
        }
        for ids_by_broker in _batch_group_ids(coordinators, _MAX_GROUPS):
            requests = {broker: request(ids) for broker, ids in ids_by_broker.items()}
            for broker, answer in wire.ask_each(requests, seconds).items():
                if isinstance(answer, Exception):
                    groups |= dict.fromkeys(ids_by_broker[broker], fault_from_silence(answer))
                    continue
                for group in answer.groups:
                    failed = fault_from_code(group.error_code, group.error_message)
                    groups[group.group_id] = failed or parse(broker, group)
    return groups


def _parse_classic(coordinator: int, group: Any) -> Group:
    """Return a group whose members assign its partitions; they speak a format of their own."""
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

    def parse_member(member: Any) -> Member:
        data = member.member_assignment
        given = ConsumerProtocolAssignment.decode(data).assigned_partitions if data else ()
        return Member(
            member.member_id,
            member.client_id,
            member.client_host,
            tuple(TopicPartition(topic.topic, p) for topic in given for p in topic.partitions),
            member.group_instance_id or None,
        )

    return Group(
        id=group.group_id,
        state=_parse_state(group.group_state),
        assignor=group.protocol_data or "",
        coordinator=coordinator,
        members=tuple(parse_member(member) for member in group.members),
        committed={},
    )


def _parse_consumer(coordinator: int, group: Any) -> Group:
    """Return a group whose coordinator assigns its partitions (KIP-848)."""
    return Group(
        id=group.group_id,
        state=_parse_state(group.group_state),
        assignor=group.assignor_name or "",
        coordinator=coordinator,
        members=tuple(
            Member(
                member.member_id,
                member.client_id,
                member.client_host,
                tuple(
                    TopicPartition(topic.topic_name, p)
                    for topic in member.assignment.topic_partitions
                    for p in topic.partitions
                ),
                member.instance_id or None,
            )
            for member in group.members
        ),
        committed={},
        protocol="consumer",
    )


def _with_committed(group: Group, offsets: Mapping[TopicPartition, int] | Fault | None) -> Group:
    if isinstance(offsets, Fault):
        return replace(group, committed_fault=offsets)
    return replace(group, committed=offsets or {})


Committed: TypeAlias = dict[TopicPartition, int]
_SEVERAL_GROUPS_VERSION = 8
"""From this version on one request takes several groups."""
_LAST_VERSION_WITH_NAMES = 9
"""The last version that names topics; those after it have ids."""


def fetch_committed(wire: Wire, coordinators: Mapping[str, int]) -> dict[str, Committed | Fault]:
    """Return each group's committed offsets, or why they are not known.

    All coordinators are asked side by side; partitions without a committed offset are left out.
    """
    from kafka.protocol.consumer import OffsetFetchRequest

    group_of = OffsetFetchRequest.OffsetFetchRequestGroup
    offsets: dict[str, Committed | Fault] = {}
    version = wire.manager().broker_version_data.api_version(OffsetFetchRequest)
    several = version >= _SEVERAL_GROUPS_VERSION
    for ids_by_broker in _batch_group_ids(coordinators, _MAX_GROUPS if several else 1):
        requests = {
            broker: OffsetFetchRequest(
                groups=[group_of(group_id=id, topics=None) for id in ids],
                min_version=_SEVERAL_GROUPS_VERSION,
                max_version=_LAST_VERSION_WITH_NAMES,
            )
            if several
            else OffsetFetchRequest(
                group_id=ids[0], topics=None, min_version=2, max_version=_LAST_VERSION_WITH_NAMES
            )
            for broker, ids in ids_by_broker.items()
        }
        for broker, answer in wire.ask_each(requests).items():
            ids = ids_by_broker[broker]
            if isinstance(answer, Exception):
                offsets |= dict.fromkeys(ids, fault_from_silence(answer))
                continue
            groups = {group.group_id: group for group in answer.groups or ()}
            offsets |= {id: _parse_offsets(groups.get(id, answer)) for id in ids}
    return offsets


def _batch_group_ids(coordinators: Mapping[str, int], size: int) -> Iterator[dict[int, list[str]]]:
    """Yield, by broker, the ids of at most `size` groups at a time, until all have been yielded."""
    ids_by_broker: dict[int, list[str]] = defaultdict(list)
    for id, broker in coordinators.items():
        ids_by_broker[broker].append(id)
    for n in range(0, max(map(len, ids_by_broker.values()), default=0), size):
        yield {broker: part for broker, ids in ids_by_broker.items() if (part := ids[n : n + size])}


def _parse_offsets(group: Any) -> Committed | Fault:
    failed = fault_from_code(group.error_code or 0)
    if failed is not None:
        return failed
    partitions = [(t.name, p) for t in group.topics or () for p in t.partitions]
    for _, partition in partitions:  # what is not told of one is not that there is none
        failed = fault_from_code(partition.error_code or 0)
        if failed is not None:
            return failed
    return {
        TopicPartition(topic, partition.partition_index): partition.committed_offset
        for topic, partition in partitions
        if partition.committed_offset >= 0
    }
