"""Groups: listed by every broker, described by their coordinators, and what they have committed.

librdkafka describes consumer groups. It drops all others from what brokers list (share, streams,
and other protocols'), so kafka-python lists; members of those take requests that neither has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from core.cluster.groups import GROUPS_HIDDEN, SHARE, UNDESCRIBABLE, ActiveGroups, Group, Member
from core.cluster.kafka.admin import Admin
from core.cluster.kafka.wire import Wire, fault_from_code, fault_from_silence
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.patterns import is_whole

_UNCOORDINATED = Fault("COORDINATOR_NOT_AVAILABLE", "no broker coordinates it")
_SECONDS, _ACTIVE_SECONDS = 4.0, 3.0
"""How long a broker may take to list its groups."""
_CONSUMERS = ("consumer", "")
"""The protocol types of consumers; "" is of groups that only commit offsets."""
_WITHOUT_MEMBERS = ("empty", "dead")
_DESCRIBE = 8
"""AclOperation.DESCRIBE, among authorized operations (KIP-430)."""


def describe_groups(
    admin: Admin, wire: Wire, matching: str | None, lost: Callable[[Fault], None]
) -> tuple[Group, ...]:
    """Return groups by id; see ClusterClient."""
    listed = [g for g in _list_groups(wire, lost, _SECONDS) if is_whole(matching, g.id)]
    consumers = [group.id for group in listed if group.protocol in _CONSUMERS]
    described = _describe_consumers(admin, consumers, admin.seconds)
    coordinators: dict[str, int] = {}
    for group in listed:
        if group.protocol in _CONSUMERS:
            if (coordinator := getattr(described[group.id], "coordinator", None)) is not None:
                coordinators[group.id] = coordinator.id
        elif group.protocol != SHARE and group.coordinator is not None:  # these commit no offsets
            coordinators[group.id] = group.coordinator
    offsets = fetch_committed(wire, coordinators)
    groups = (
        build_group(group.id, described[group.id], offsets.get(group.id, _UNCOORDINATED))
        if group.protocol in _CONSUMERS
        else _with_committed(group, offsets.get(group.id))
        for group in listed
    )
    return tuple(group for group in groups if group is not None)


def describe_active_groups(admin: Admin, wire: Wire, limit: int) -> ActiveGroups:
    """Return groups with members, at most so many that are consumers'; see ClusterClient."""
    lost: list[Fault] = []
    every = _list_groups(wire, lost.append, _ACTIVE_SECONDS)
    listed = [group for group in every if group.state not in _WITHOUT_MEMBERS]
    ids = [group.id for group in listed if group.protocol in _CONSUMERS]
    described = _describe_consumers(admin, ids[:limit], _ACTIVE_SECONDS)
    groups = (build_group(id, described[id]) for id in ids[:limit])
    return ActiveGroups(
        tuple(group for group in groups if group is not None and group.state != "empty"),
        max(0, len(ids) - limit),
        is_complete=all(fault == GROUPS_HIDDEN for fault in lost),
        other_groups=tuple(group for group in listed if group.protocol not in _CONSUMERS),
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
    found: dict[str, Group] = {}
    faults: list[Fault] = []
    for broker, answer in wire.ask_each(requests, seconds).items():
        if isinstance(answer, Exception):
            faults.append(fault_from_silence(answer))
        elif failed := fault_from_code(answer.error_code):
            faults.append(failed)
        else:
            found |= {group.group_id: _parse_listed(broker, group) for group in answer.groups}
    if len(faults) == len(brokers):
        raise wire.explain(TimeoutError(), str(faults[0]) if faults else "it names no brokers")
    for fault in faults:
        lost(fault)
    return sorted(found.values(), key=lambda group: group.id)


def _parse_listed(broker: int, group: Any) -> Group:
    """Return a group as the broker lists it that coordinates it; older brokers tell no state."""
    type = (group.group_type or "").lower()
    protocol = type if type in UNDESCRIBABLE else group.protocol_type
    why = Fault("UNSUPPORTED_GROUP_TYPE", f"members of {protocol} groups are not told")
    return Group(
        id=group.group_id,
        state=(group.group_state or "unknown").lower(),
        assignor="",
        coordinator=broker,
        members=(),
        committed={},
        protocol=protocol,
        fault=None if protocol in _CONSUMERS else why,
    )


def _describe_consumers(admin: Admin, ids: Sequence[str], seconds: float) -> dict[str, Any]:
    """Return what each group's coordinator tells of it, or the fault that came instead."""

    def ask(some: Sequence[str]) -> dict[str, Any]:
        return admin.ask(
            lambda client: client.describe_consumer_groups(some, request_timeout=seconds)
        )

    found = ask(ids) if ids else {}
    moved = [id for id, a in found.items() if isinstance(a, Fault) and a.name == "NOT_COORDINATOR"]
    if moved:
        admin.reopen()  # it remembers coordinators for minutes, whatever they answer
        found |= ask(moved)
    return found


def build_group(
    id: str, description: Any, offsets: Mapping[TopicPartition, int] | Fault | None = None
) -> Group | None:
    """Return a group from both answers, `offsets` None unless asked for; None if it is gone."""
    if isinstance(description, Fault):
        if description.name == "GROUP_ID_NOT_FOUND":
            return None
        return Group(id, "unknown", "", None, (), {}, fault=description)
    if description.state.name == "DEAD":
        return None
    coordinator = description.coordinator.id if description.coordinator is not None else None
    group = Group(
        id=id,
        state=description.state.name.lower(),
        assignor=description.partition_assignor or "",
        coordinator=coordinator,
        members=tuple(_build_member(member) for member in description.members),
        committed={},
        protocol="consumer" if description.type.name == "CONSUMER" else "classic",
    )
    return _with_committed(group, offsets)


def _build_member(member: Any) -> Member:
    assigned = member.assignment.topic_partitions if member.assignment is not None else ()
    return Member(
        member.member_id,
        member.client_id,
        member.host,
        tuple(TopicPartition(tp.topic, tp.partition) for tp in assigned),
        member.group_instance_id or None,
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

    By kafka-python: librdkafka's call ends the whole process (it follows a null pointer, in 2.16)
    when the coordinator that it remembers has handed the group on, as with every election.
    All coordinators are asked side by side; partitions without a committed offset are left out.
    """
    from kafka.protocol.consumer import OffsetFetchRequest

    group_of = OffsetFetchRequest.OffsetFetchRequestGroup
    found: dict[str, Committed | Fault] = {}
    version = wire.manager().broker_version_data.api_version(OffsetFetchRequest)
    for ids_by_broker in _split_requests(coordinators, several=version >= _SEVERAL_GROUPS_VERSION):
        requests = {
            broker: OffsetFetchRequest(
                groups=[group_of(group_id=id, topics=None) for id in ids],
                min_version=_SEVERAL_GROUPS_VERSION,
                max_version=_LAST_VERSION_WITH_NAMES,
            )
            if version >= _SEVERAL_GROUPS_VERSION
            else OffsetFetchRequest(
                group_id=ids[0], topics=None, min_version=2, max_version=_LAST_VERSION_WITH_NAMES
            )
            for broker, ids in ids_by_broker.items()
        }
        for broker, answer in wire.ask_each(requests).items():
            ids = ids_by_broker[broker]
            if isinstance(answer, Exception):
                found |= dict.fromkeys(ids, fault_from_silence(answer))
                continue
            groups = {group.group_id: group for group in answer.groups or ()}
            found |= {id: _parse_offsets(groups.get(id, answer)) for id in ids}
    return found


def _split_requests(
    coordinators: Mapping[str, int], *, several: bool
) -> Iterator[dict[int, list[str]]]:
    waiting: dict[int, list[str]] = defaultdict(list)
    for id, broker in coordinators.items():
        waiting[broker].append(id)
    if several:
        yield waiting
        return
    for n in range(max(map(len, waiting.values()), default=0)):
        yield {broker: [ids[n]] for broker, ids in waiting.items() if n < len(ids)}


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
