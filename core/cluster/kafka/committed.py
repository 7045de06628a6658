"""What consumer groups have committed: their coordinators are asked over the wire.

librdkafka has a call for it, which ends the whole process (it follows a null pointer, in 2.16) when
the coordinator that it remembers has handed the group on, as happens with every election.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from core.cluster.client import Fault
from core.cluster.kafka.wire import Wire, fault
from core.cluster.state import TopicPartition

Committed: TypeAlias = dict[TopicPartition, int]
_SEVERAL = 8
"""From this version on one request takes several groups."""
_NAMES = 9
"""The last version that names topics; those after it have ids."""


def committed(wire: Wire, coordinators: Mapping[str, int]) -> dict[str, Committed | Fault]:
    """Return each group's committed offsets, or why they are not known.

    All coordinators are asked side by side; partitions without a committed offset are left out.
    """
    from kafka.protocol.consumer import OffsetFetchRequest

    group_of = OffsetFetchRequest.OffsetFetchRequestGroup
    found: dict[str, Committed | Fault] = {}
    version = wire.manager().broker_version_data.api_version(OffsetFetchRequest)
    for asked in _rounds(coordinators, several=version >= _SEVERAL):
        requests = {
            broker: OffsetFetchRequest(
                groups=[group_of(group_id=id, topics=None) for id in ids],
                min_version=_SEVERAL,
                max_version=_NAMES,
            )
            if version >= _SEVERAL
            else OffsetFetchRequest(group_id=ids[0], topics=None, min_version=2, max_version=_NAMES)
            for broker, ids in asked.items()
        }
        for broker, answer in wire.each(requests).items():
            found |= _answered(asked[broker], answer)
    return found


def _rounds(coordinators: Mapping[str, int], *, several: bool) -> Iterator[dict[int, list[str]]]:
    """Return which groups each coordinator is asked for at once."""
    waiting: dict[int, list[str]] = defaultdict(list)
    for id, broker in coordinators.items():
        waiting[broker].append(id)
    if several:
        yield waiting
        return
    for n in range(max(map(len, waiting.values()), default=0)):
        yield {broker: [ids[n]] for broker, ids in waiting.items() if n < len(ids)}


def _answered(ids: Iterable[str], answer: Any) -> dict[str, Committed | Fault]:
    if isinstance(answer, Exception):
        failed = Fault("REQUEST_TIMED_OUT", str(answer) or type(answer).__name__)
        return dict.fromkeys(ids, failed)
    groups = {group.group_id: group for group in answer.groups or ()}
    return {id: _offsets(groups.get(id, answer)) for id in ids}


def _offsets(group: Any) -> Committed | Fault:
    failed = fault(group.error_code or 0)
    if failed is not None:
        return failed
    partitions = [(t.name, p) for t in group.topics or () for p in t.partitions]
    for _, partition in partitions:  # what is not told of one is not that there is none
        failed = fault(partition.error_code or 0)
        if failed is not None:
            return failed
    return {
        TopicPartition(topic, partition.partition_index): partition.committed_offset
        for topic, partition in partitions
        if partition.committed_offset >= 0
    }
