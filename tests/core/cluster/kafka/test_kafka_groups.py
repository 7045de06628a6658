"""Groups as brokers list them, each its own: what one of them does not tell is not lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError
from fake_admin import FakeAdminClient, FakeWire, group_description, listed, raises

from core.cluster.groups import GROUPS_HIDDEN, ActiveGroups, Group
from core.cluster.kafka import groups
from core.cluster.kafka.admin import Admin
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.groups import describe_active_groups, describe_groups
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.errors import UnreachableError

OFFSETS = {TopicPartition("t", 0): 5}
LOADING = 14
BUSY = "COORDINATOR_LOAD_IN_PROGRESS"


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    """A client that describes every group that it is asked for; all have committed OFFSETS."""

    def committed(_: object, coordinators: Mapping[str, int]) -> Any:
        return dict.fromkeys(coordinators, OFFSETS)

    monkeypatch.setattr(groups, "fetch_committed", committed)
    found = Admin(ConnectionSettings("h:1"))
    client = FakeAdminClient(describe_consumer_groups=lambda id: group_description(1))
    monkeypatch.setattr(found, "client", lambda: client)
    return found


def described(admin: Admin, wire: Any, matching: str | None = None) -> tuple[dict[str, Group], Any]:
    lost: list[Fault] = []
    found = describe_groups(admin, wire, matching, lost.append)
    return {group.id: group for group in found}, lost


def test_groups_of_every_type_are_told(admin: Admin) -> None:
    wire = FakeWire(
        [listed("c", "consumer", "classic"), listed("old", "", "classic")],
        [
            listed("work", "share", "share"),
            listed("wordcount", "streams", "streams", "Empty"),
            listed("workers", "connect", "classic"),
            listed("older", "connect", None),
        ],
    )
    found, lost = described(admin, wire)
    assert lost == []
    assert {
        id: (g.protocol, g.state, g.coordinator, g.has_unknown_reads, dict(g.committed))
        for id, g in found.items()
    } == {
        "c": ("classic", "stable", 1, False, OFFSETS),
        "old": ("classic", "stable", 1, False, OFFSETS),
        "work": ("share", "stable", 2, True, {}),
        "wordcount": ("streams", "empty", 2, True, OFFSETS),
        "workers": ("connect", "stable", 2, False, OFFSETS),
        "older": ("connect", "stable", 2, False, OFFSETS),
    }
    assert list(found) == sorted(found)
    assert list(described(admin, wire, "w.*k")[0]) == ["work"]


ORDERS = [listed("orders", "consumer", "classic")]


@pytest.mark.parametrize(
    ("wire", "lost"),
    [
        (FakeWire(ORDERS, []), []),
        (FakeWire(ORDERS, LOADING), [BUSY]),
        (FakeWire(ORDERS, TimeoutError("no answer")), ["REQUEST_TIMED_OUT"]),
        (FakeWire(ORDERS, operations=set()), [GROUPS_HIDDEN.name]),
        (FakeWire(ORDERS, operations={5, 8}), []),
        (FakeWire(ORDERS, LOADING, operations=set()), [GROUPS_HIDDEN.name, BUSY]),
    ],
)
def test_what_of_a_list_is_missing_is_told_and_the_others_are_read(
    admin: Admin, wire: Any, lost: list[str]
) -> None:
    found, faults = described(admin, wire)
    assert (list(found), [fault.name for fault in faults]) == (["orders"], lost)
    # What is hidden for good is missing at no time.
    active = describe_active_groups(admin, wire, 9)
    assert active.is_complete is (set(lost) <= {GROUPS_HIDDEN.name})


@pytest.mark.parametrize("wire", [FakeWire(LOADING, TimeoutError("no answer")), FakeWire()])
def test_a_cluster_in_which_nobody_lists_groups_tells_none(admin: Admin, wire: Any) -> None:
    with pytest.raises(UnreachableError):
        described(admin, wire)
    with pytest.raises(UnreachableError):
        describe_active_groups(admin, wire, 9)


def test_only_those_with_members_are_active_and_so_many(admin: Admin) -> None:
    wire: Any = FakeWire(
        [listed(id, "consumer", "classic") for id in "cab"],
        [listed("e", "consumer", "classic", "Empty")],
        [listed("work", "share", "share"), listed("gone", "share", "share", "Empty")],
    )
    found = describe_active_groups(admin, wire, 2)
    assert [group.id for group in found.groups] == ["a", "b"]
    assert [group.id for group in found.other_groups] == ["work"]
    assert (found.omitted_count, found.is_complete) == (1, True)
    assert describe_active_groups(admin, FakeWire([]), 2) == ActiveGroups(())  # type: ignore[arg-type]


def test_a_coordinator_that_has_moved_is_found_by_a_client_that_remembers_none(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = FakeAdminClient(describe_consumer_groups=raises(KafkaError.NOT_COORDINATOR))
    clients = [moved, FakeAdminClient(describe_consumer_groups=lambda id: group_description(2))]
    monkeypatch.setattr(admin, "client", lambda: clients[0])
    monkeypatch.setattr(admin, "reopen", lambda: clients.pop(0))
    found, _ = described(admin, FakeWire(ORDERS))
    group = found["orders"]
    assert (group.coordinator, group.committed, group.fault) == (2, OFFSETS, None)


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (raises(KafkaError.GROUP_ID_NOT_FOUND), None),
        (lambda id: group_description(1, "DEAD"), None),
        (raises(KafkaError.GROUP_AUTHORIZATION_FAILED), "GROUP_AUTHORIZATION_FAILED"),
    ],
    ids=["vanished", "dead", "denied"],
)
def test_a_group_that_is_listed_and_not_described(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, answer: Any, shown: str | None
) -> None:
    client = FakeAdminClient(describe_consumer_groups=answer)
    monkeypatch.setattr(admin, "client", lambda: client)
    found, _ = described(admin, FakeWire(ORDERS))
    assert [group.fault and group.fault.name for group in found.values()] == [shown] * bool(shown)
