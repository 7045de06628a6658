"""Groups: listed by every broker, described by their coordinators, and what they have committed.

librdkafka lists and describes consumer groups. It drops all others from what brokers list (share,
streams, and other protocols'), whose members take requests that neither library has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from core.cluster.groups import GROUPS_HIDDEN, SHARE, UNDESCRIBABLE, ActiveGroups, Group, Member
from core.cluster.kafka.admin import Admin, result_or_fault, to_fault
from core.cluster.kafka.wire import Wire, fault_from_code
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.patterns import is_whole

FetchCommitted: TypeAlias = Callable[
    [Mapping[str, int]], Mapping[str, Mapping[TopicPartition, int] | Fault]
]
_UNCOORDINATED = Fault("COORDINATOR_NOT_AVAILABLE", "no broker coordinates it")
_ACTIVE_SECONDS = 3.0
_WITHOUT_MEMBERS = ("EMPTY", "DEAD")


def describe_consumer_groups(
    admin: Admin,
    matching: str | None,
    committed: FetchCommitted,
    lost: Callable[[Fault], None] | None = None,
) -> tuple[Group, ...]:
    """Return groups; `fetch_committed` fetches offsets, given each group's coordinator."""
    listed = _list_consumer_groups(admin, admin.seconds)
    if lost is not None:
        for failure in listed.errors:
            lost(to_fault(failure))
    ids = [group.group_id for group in listed.valid if is_whole(matching, group.group_id)]
    if not ids:
        return ()
    described = _describe_groups(admin, ids, admin.seconds)
    offsets = committed(
        {
            id: told.coordinator.id
            for id, told in described.items()
            if not isinstance(told, Fault) and told.coordinator is not None
        }
    )
    found = (build_group(id, described[id], offsets.get(id, _UNCOORDINATED)) for id in sorted(ids))
    return tuple(group for group in found if group is not None)


def describe_active_consumer_groups(admin: Admin, limit: int) -> ActiveGroups:
    """Return groups with members, at most so many of them; see ClusterClient."""
    listed = _list_consumer_groups(admin, _ACTIVE_SECONDS)
    ids = sorted(g.group_id for g in listed.valid if g.state.name not in _WITHOUT_MEMBERS)
    asked = ids[:limit]
    described = _describe_groups(admin, asked, _ACTIVE_SECONDS)
    found = [build_group(id, described[id]) for id in asked]
    active = tuple(g for g in found if g is not None and g.state != "empty")
    return ActiveGroups(active, len(ids) - len(asked), is_complete=not listed.errors)


def _list_consumer_groups(admin: Admin, seconds: float) -> Any:
    """Return what brokers list, as long as one of them does; each lists those it coordinates."""
    from confluent_kafka import KafkaException

    try:
        client = admin.client()  # held until all is answered: let go of, it is destroyed
        listed = client.list_consumer_groups(request_timeout=seconds).result()
    except KafkaException as error:
        raise admin.explain(error) from error
    silent = [to_fault(error) for error in listed.errors]
    admin.reopen_after_timeout(silent)
    if listed.valid or len(silent) < admin.known_broker_count:  # who has no group lists none
        admin.record_answer()
    else:
        admin.record_answers(silent)
    if listed.errors and not listed.valid and len(listed.errors) >= admin.known_broker_count:
        raise admin.explain(listed.errors[0])
    return listed


def _describe_groups(admin: Admin, ids: Sequence[str], seconds: float) -> dict[str, Any]:
    """Return what each group's coordinator tells of it, or the fault that came instead."""

    def ask(some: Sequence[str]) -> dict[str, Any]:
        if not some:
            return {}
        client = admin.client()  # held, as above
        asked = client.describe_consumer_groups(some, request_timeout=seconds)
        answers = {id: result_or_fault(future) for id, future in asked.items()}
        admin.record_answers(answers.values())
        return answers

    found = ask(ids)
    moved = [id for id, answer in found.items() if has_moved(answer)]
    if moved:
        admin.reopen()  # it remembers coordinators for minutes, whatever they answer
        found |= ask(moved)
    admin.reopen_after_timeout(found.values())
    return found


def has_moved(answer: object) -> bool:
    """Return whether the broker that was asked coordinates the group no more."""
    return isinstance(answer, Fault) and answer.name == "NOT_COORDINATOR"


def build_group(
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
        members=tuple(_build_member(member) for member in description.members),
        committed=offsets if offsets is not None and not isinstance(offsets, Fault) else {},
        protocol="consumer" if description.type.name == "CONSUMER" else "classic",
        committed_fault=offsets if isinstance(offsets, Fault) else None,
    )


def _build_member(member: Any) -> Member:
    assigned = member.assignment.topic_partitions if member.assignment is not None else ()
    return Member(
        member.member_id,
        member.client_id,
        member.host,
        tuple(TopicPartition(tp.topic, tp.partition) for tp in assigned),
        member.group_instance_id or None,
    )


_CONSUMERS = ("consumer", "")
"""The protocol types that librdkafka lists; "" is of groups that only commit offsets."""
_SECONDS = 4.0
_DESCRIBE = 8
"""AclOperation.DESCRIBE, among authorized operations (KIP-430)."""


def may_describe(operations: Collection[int] | None) -> bool:
    """Return whether DESCRIBE is among authorized operations; None of them were told."""
    return operations is None or _DESCRIBE in operations


def describe_other_groups(
    wire: Wire,
    matching: str | None,
    committed: FetchCommitted,
    lost: Callable[[Fault], None],
) -> tuple[Group, ...]:
    """Return groups of other protocols by id; `lost` hears of brokers that did not list theirs.

    It hears of GROUPS_HIDDEN, too. Share groups commit no offsets.
    """
    listed = [g for g in _list_other_groups(wire, lost) if is_whole(matching, g.id)]
    coordinators = {g.id: g.coordinator for g in listed if g.protocol != SHARE}
    offsets = committed({id: b for id, b in coordinators.items() if b is not None})
    return tuple(
        sorted((_with_offsets(group, offsets.get(group.id)) for group in listed), key=_group_id)
    )


def describe_other_active_groups(wire: Wire, lost: Callable[[Fault], None]) -> tuple[Group, ...]:
    """Return those of these groups that have members, by id."""
    active = (g for g in _list_other_groups(wire, lost) if g.state not in ("empty", "dead"))
    return tuple(sorted(active, key=_group_id))


def _group_id(group: Group) -> str:
    return group.id


def _with_offsets(group: Group, offsets: Any) -> Group:
    if isinstance(offsets, Fault):
        return replace(group, committed_fault=offsets)
    return replace(group, committed=offsets or {})


def _list_other_groups(wire: Wire, lost: Callable[[Fault], None]) -> list[Group]:
    from kafka.protocol.admin import DescribeClusterRequest, ListGroupsRequest

    async def ask(manager: Any, node: int) -> Any:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        return await manager.send(request, node_id=node)

    cluster = wire.ask_any(ask)
    if not may_describe(cluster.authorized_operations):
        lost(GROUPS_HIDDEN)
    brokers = [broker.broker_id for broker in cluster.brokers]
    asked = {b: ListGroupsRequest(states_filter=[], types_filter=[]) for b in brokers}
    found: dict[str, Group] = {}
    for broker, answer in wire.ask_each(asked, _SECONDS).items():
        if isinstance(answer, Exception):
            lost(Fault("REQUEST_TIMED_OUT", str(answer) or type(answer).__name__))
        elif failed := fault_from_code(answer.error_code):
            lost(failed)
        else:
            for group in answer.groups:
                if group.protocol_type not in _CONSUMERS:
                    found[group.group_id] = _build_other_group(broker, group)
    return list(found.values())


def _build_other_group(broker: int, listed: Any) -> Group:
    """Return a group as it is listed, by its own coordinator; older brokers tell no state."""
    state = (listed.group_state or "unknown").lower()
    type = (listed.group_type or "").lower()
    protocol = type if type in UNDESCRIBABLE else listed.protocol_type
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
    for asked in _split_requests(coordinators, several=version >= _SEVERAL_GROUPS_VERSION):
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
            for broker, ids in asked.items()
        }
        for broker, answer in wire.ask_each(requests).items():
            found |= _parse_committed(asked[broker], answer)
    return found


def _split_requests(
    coordinators: Mapping[str, int], *, several: bool
) -> Iterator[dict[int, list[str]]]:
    """Return which groups each coordinator is asked for at once."""
    waiting: dict[int, list[str]] = defaultdict(list)
    for id, broker in coordinators.items():
        waiting[broker].append(id)
    if several:
        yield waiting
        return
    for n in range(max(map(len, waiting.values()), default=0)):
        yield {broker: [ids[n]] for broker, ids in waiting.items() if n < len(ids)}


def _parse_committed(ids: Iterable[str], answer: Any) -> dict[str, Committed | Fault]:
    if isinstance(answer, Exception):
        failed = Fault("REQUEST_TIMED_OUT", str(answer) or type(answer).__name__)
        return dict.fromkeys(ids, failed)
    groups = {group.group_id: group for group in answer.groups or ()}
    return {id: _parse_offsets(groups.get(id, answer)) for id in ids}


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
