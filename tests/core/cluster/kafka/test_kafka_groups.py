"""Groups as brokers list them, each its own: what one of them does not tell is not lost."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from fake_wire import FakeWire, listed
from kafka.errors import KafkaTimeoutError
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from core.cluster.groups import GROUPS_HIDDEN, ActiveGroups, Group, Member
from core.cluster.kafka import groups
from core.cluster.kafka.groups import describe_active_groups, describe_groups
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.errors import UnreachableError

OFFSETS = {TopicPartition("t", 0): 5}
ASSIGNED = (TopicPartition("t", 0), TopicPartition("t", 2))
LOADING, NOT_COORDINATOR, DENIED, NOT_FOUND = 14, 16, 30, 69
BUSY = "COORDINATOR_LOAD_IN_PROGRESS"


@pytest.fixture(autouse=True)
def _committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups have committed OFFSETS."""

    def fetch_committed(_: object, coordinators: Mapping[str, int]) -> Any:
        return dict.fromkeys(coordinators, OFFSETS)

    monkeypatch.setattr(groups, "fetch_committed", fetch_committed)


def describe_classic(broker: int | None, request: Any, **changes: Any) -> Any:
    """Return what a coordinator tells of groups whose one member has ASSIGNED."""
    assigned = ConsumerProtocolAssignment(
        version=1,
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0, 2])
        ],
        user_data=None,
    )
    member = SimpleNamespace(
        member_id="m",
        client_id="c",
        client_host="/10.0.0.1",
        group_instance_id="static",
        member_assignment=assigned.encode(),
    )
    return _describe(request.groups, protocol_data="range", members=[member], **changes)


def describe_consumer(broker: int | None, request: Any, **changes: Any) -> Any:
    """Return the same of groups by KIP-848."""
    assigned = SimpleNamespace(
        topic_partitions=[SimpleNamespace(topic_name="t", partitions=[0, 2])]
    )
    member = SimpleNamespace(
        member_id="m",
        client_id="c",
        client_host="/10.0.0.1",
        instance_id=None,
        assignment=assigned,
    )
    return _describe(request.group_ids, assignor_name="uniform", members=[member], **changes)


def _describe(ids: list[str], **changes: Any) -> Any:
    attrs = {"error_code": 0, "error_message": None, "group_state": "Stable"}
    return SimpleNamespace(groups=[SimpleNamespace(group_id=id, **(attrs | changes)) for id in ids])


def cluster(*brokers: Any, **options: Any) -> Any:
    answers = {"DescribeGroups": describe_classic, "ConsumerGroupDescribe": describe_consumer}
    return FakeWire(*brokers, **(answers | options))


def described(wire: Any, matching: str | None = None) -> tuple[dict[str, Group], Any]:
    lost: list[Fault] = []
    descriptions = describe_groups(wire, matching, lost.append)
    return {group.id: group for group in descriptions}, lost


def test_groups_of_every_type_are_described() -> None:
    wire = cluster(
        [
            listed("c", "consumer", "classic"),
            listed("kip-848", "consumer", "consumer"),
            listed("old", "", "classic"),
        ],
        [
            listed("work", "share", "share"),
            listed("wordcount", "streams", "streams", "Empty"),
            listed("workers", "connect", "classic"),
            listed("older", "connect", None),
        ],
    )
    groups_by_id, lost = described(wire)
    assert lost == []
    assert {
        id: (g.protocol, g.state, g.coordinator, g.has_unknown_reads, dict(g.committed))
        for id, g in groups_by_id.items()
    } == {
        "c": ("classic", "stable", 1, False, OFFSETS),
        "kip-848": ("consumer", "stable", 1, False, OFFSETS),
        "old": ("classic", "stable", 1, False, OFFSETS),
        "work": ("share", "stable", 2, True, {}),
        "wordcount": ("streams", "empty", 2, True, OFFSETS),
        "workers": ("connect", "stable", 2, False, OFFSETS),
        "older": ("connect", "stable", 2, False, OFFSETS),
    }
    assert list(groups_by_id) == sorted(groups_by_id)
    assert list(described(wire, "w.*k")[0]) == ["work"]


ORDERS = [listed("orders", "consumer", "classic")]


@pytest.mark.parametrize(
    ("wire", "lost"),
    [
        (cluster(ORDERS, []), []),
        (cluster(ORDERS, LOADING), [BUSY]),
        (cluster(ORDERS, TimeoutError("no answer")), ["REQUEST_TIMED_OUT"]),
        (cluster(ORDERS, operations=set()), [GROUPS_HIDDEN.name]),
        (cluster(ORDERS, operations={5, 8}), []),
        (cluster(ORDERS, LOADING, operations=set()), [GROUPS_HIDDEN.name, BUSY]),
    ],
)
def test_missing_part_of_group_list_is_reported_and_remaining_groups_are_read(
    wire: Any, lost: list[str]
) -> None:
    groups_by_id, faults = described(wire)
    assert (list(groups_by_id), [fault.name for fault in faults]) == (["orders"], lost)
    # What is hidden for good is missing at no time.
    active = describe_active_groups(wire, 9)
    assert active.is_complete is (set(lost) <= {GROUPS_HIDDEN.name})


@pytest.mark.parametrize("wire", [cluster(LOADING, TimeoutError("no answer")), cluster()])
def test_unreachable_error_is_raised_when_no_broker_lists_groups(wire: Any) -> None:
    with pytest.raises(UnreachableError):
        described(wire)
    with pytest.raises(UnreachableError):
        describe_active_groups(wire, 9)


def test_active_groups_are_those_with_members_up_to_the_limit() -> None:
    wire = cluster(
        [listed(id, "consumer", "classic") for id in "cab"],
        [listed("e", "consumer", "classic", "Empty")],
        [listed("work", "share", "share"), listed("gone", "share", "share", "Empty")],
    )
    active_groups = describe_active_groups(wire, 2)
    assert [group.id for group in active_groups.groups] == ["a", "b"]
    assert [group.id for group in active_groups.other_groups] == ["work"]
    assert (active_groups.omitted_count, active_groups.is_complete) == (1, True)
    assert describe_active_groups(cluster([]), 2) == ActiveGroups(())


@pytest.mark.parametrize(
    ("type", "member", "assignor"),
    [
        ("classic", Member("m", "c", "/10.0.0.1", ASSIGNED, "static"), "range"),
        ("consumer", Member("m", "c", "/10.0.0.1", ASSIGNED, None), "uniform"),
    ],
)
def test_members_and_assignments_are_described_for_either_protocol(
    type: str, member: Member, assignor: str
) -> None:
    groups_by_id, _ = described(cluster([listed("orders", "consumer", type)]))
    group = groups_by_id["orders"]
    assert (group.members, group.assignor, group.protocol) == ((member,), assignor, type)


def test_many_groups_are_described_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_MAX_GROUPS", 2)
    wire = cluster([listed(id, "consumer", "classic") for id in "abc"])
    assert list(described(wire)[0]) == ["a", "b", "c"]
    parts = [r.groups for _, r in wire.requests if type(r).__name__ == "DescribeGroupsRequest"]
    assert parts == [["a", "b"], ["c"]]


def test_group_that_moves_while_listed_is_described_by_its_new_coordinator() -> None:
    lists = iter(([ORDERS, []], [[], ORDERS]))

    def list_groups(broker: int | None, request: Any) -> Any:
        assert broker is not None
        if broker == 1:
            wire.lists = next(lists)
        return SimpleNamespace(error_code=0, groups=wire.lists[broker - 1])

    def describe(broker: int | None, request: Any) -> Any:
        code = NOT_COORDINATOR if broker == 1 else 0
        return describe_classic(broker, request, error_code=code)

    wire = cluster([], [], ListGroups=list_groups, DescribeGroups=describe)
    groups_by_id, _ = described(wire)
    group = groups_by_id["orders"]
    assert (group.coordinator, group.committed, group.fault) == (2, OFFSETS, None)


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({"error_code": NOT_FOUND}, None),
        ({"group_state": "Dead"}, None),
        ({"error_code": DENIED}, "GROUP_AUTHORIZATION_FAILED"),
        ({"error_code": NOT_COORDINATOR}, "NOT_COORDINATOR"),
        (KafkaTimeoutError("no answer"), "REQUEST_TIMED_OUT"),
    ],
    ids=["vanished", "dead", "denied", "moves on and on", "silent"],
)
def test_listed_group_that_is_not_described_is_omitted_or_shown_with_its_fault(
    answer: Any, shown: str | None
) -> None:
    def describe(broker: int | None, request: Any) -> Any:
        if isinstance(answer, Exception):
            return answer
        return describe_classic(broker, request, **answer)

    groups_by_id, _ = described(cluster(ORDERS, DescribeGroups=describe))
    assert [group.fault and group.fault.name for group in groups_by_id.values()] == [shown] * bool(
        shown
    )
