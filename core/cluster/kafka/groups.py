"""Consumer groups, listed by every broker and described by their coordinators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from core.cluster.client import ActiveGroups, Fault, Group
from core.cluster.kafka.admin import Admin, fault_of, settled
from core.cluster.kafka.group_answers import group_of, is_elsewhere
from core.cluster.state import TopicPartition
from core.patterns import is_whole

CommittedBy: TypeAlias = Callable[
    [Mapping[str, int]], Mapping[str, Mapping[TopicPartition, int] | Fault]
]
_UNCOORDINATED = Fault("COORDINATOR_NOT_AVAILABLE", "no broker coordinates it")
_WATCH_SECONDS = 3.0
_WITHOUT_MEMBERS = ("EMPTY", "DEAD")


def groups(
    admin: Admin,
    matching: str | None,
    committed: CommittedBy,
    lost: Callable[[Fault], None] | None = None,
) -> tuple[Group, ...]:
    """Return groups; `committed` tells their offsets, given which broker coordinates which."""
    listed = _listed(admin, admin.seconds)
    if lost is not None:
        for failure in listed.errors:
            lost(fault_of(failure))
    ids = [group.group_id for group in listed.valid if is_whole(matching, group.group_id)]
    if not ids:
        return ()
    described = _described(admin, ids, admin.seconds)
    offsets = committed(
        {
            id: told.coordinator.id
            for id, told in described.items()
            if not isinstance(told, Fault) and told.coordinator is not None
        }
    )
    found = (group_of(id, described[id], offsets.get(id, _UNCOORDINATED)) for id in sorted(ids))
    return tuple(group for group in found if group is not None)


def active_groups(admin: Admin, most: int) -> ActiveGroups:
    """Return groups with members, at most so many of them; see ClusterClient."""
    listed = _listed(admin, _WATCH_SECONDS)
    ids = sorted(g.group_id for g in listed.valid if g.state.name not in _WITHOUT_MEMBERS)
    asked = ids[:most]
    described = _described(admin, asked, _WATCH_SECONDS)
    found = [group_of(id, described[id]) for id in asked]
    active = tuple(g for g in found if g is not None and g.state != "empty")
    return ActiveGroups(active, len(ids) - len(asked), complete=not listed.errors)


def _listed(admin: Admin, seconds: float) -> Any:
    """Return what brokers list, as long as one of them does; each lists those it coordinates."""
    from confluent_kafka import KafkaException

    try:
        client = admin.client()  # held until all is answered: let go of, it is destroyed
        listed = client.list_consumer_groups(request_timeout=seconds).result()
    except KafkaException as error:
        raise admin.explained(error) from error
    silent = [fault_of(error) for error in listed.errors]
    admin.forget_if_in_vain(silent)
    if listed.valid or len(silent) < admin.known:  # who has no group lists none
        admin.hear()
    else:
        admin.hear_any(silent)
    if listed.errors and not listed.valid and len(listed.errors) >= admin.known:
        raise admin.explained(listed.errors[0])
    return listed


def _described(admin: Admin, ids: Sequence[str], seconds: float) -> dict[str, Any]:
    """Return what each group's coordinator tells of it, or the fault that came instead."""

    def ask(some: Sequence[str]) -> dict[str, Any]:
        if not some:
            return {}
        client = admin.client()  # held, as above
        asked = client.describe_consumer_groups(some, request_timeout=seconds)
        answers = {id: settled(future) for id, future in asked.items()}
        admin.hear_any(answers.values())
        return answers

    found = ask(ids)
    moved = [id for id, answer in found.items() if is_elsewhere(answer)]
    if moved:
        admin.forget()  # it remembers coordinators for minutes, whatever they answer
        found |= ask(moved)
    admin.forget_if_in_vain(found.values())
    return found
