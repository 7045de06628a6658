"""Groups as brokers list them, each its own: what one of them does not tell is not lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from core.cluster.client import OffsetAt
from core.cluster.groups import GROUPS_HIDDEN, ActiveGroups, Group
from core.cluster.kafka import client as kafka
from core.cluster.kafka.admin import Admin
from core.cluster.kafka.connection.settings import ConnectionSettings
from core.cluster.kafka.groups import (
    describe_active_consumer_groups,
    describe_consumer_groups,
    describe_other_active_groups,
    describe_other_groups,
)
from core.cluster.kafka.offsets import fetch_offsets
from core.cluster.kafka.wire import Wire
from core.cluster.kafka_errors import Fault
from core.cluster.metadata import TopicPartition
from core.errors import UnreachableError


class Listing:
    """A confluent-kafka admin of which one broker lists no group, and one `listed` or none."""

    def __init__(self, *listed: str) -> None:
        self._listed = listed

    def list_consumer_groups(self, request_timeout: float) -> Any:
        loading = KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "broker 2"))
        valid = [SimpleNamespace(group_id=id) for id in self._listed]
        return SimpleNamespace(result=lambda: SimpleNamespace(valid=valid, errors=[loading]))


def admin(listing: Listing, monkeypatch: pytest.MonkeyPatch) -> Admin:
    found = Admin(ConnectionSettings("h:1"))
    monkeypatch.setattr(found, "client", lambda: listing)
    return found


def nobody(coordinators: Mapping[str, int]) -> dict[str, Fault]:
    raise AssertionError(f"{coordinators} are asked for offsets")


def test_who_does_not_list_its_groups_is_told_and_the_others_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost: list[Fault] = []
    asked = admin(Listing("orders"), monkeypatch)
    assert describe_consumer_groups(asked, "payments", nobody, lost.append) == ()
    assert lost == [Fault("COORDINATOR_LOAD_IN_PROGRESS", "broker 2")]


def test_a_cluster_in_which_nobody_lists_groups_tells_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreachableError):
        describe_consumer_groups(admin(Listing(), monkeypatch), None, nobody)


class Waiting:
    """A confluent-kafka admin that knows a broker that died, and waits for it in vain."""

    def list_consumer_groups(self, request_timeout: float) -> Any:
        return SimpleNamespace(result=lambda: SimpleNamespace(valid=[], errors=[self._in_vain()]))

    def list_offsets(self, asked: Mapping[Any, Any], request_timeout: float) -> Any:
        def answer(partition: int) -> Any:
            if partition == 0:
                raise self._in_vain()
            return SimpleNamespace(offset=7)

        return {tp: SimpleNamespace(result=partial(answer, tp.partition)) for tp in asked}

    def _in_vain(self) -> KafkaException:
        return KafkaException(KafkaError(KafkaError._TIMED_OUT, "broker 3"))


ASKED = (TopicPartition("t", 0), TopicPartition("t", 1))


@pytest.mark.parametrize(
    "ask",
    [
        lambda found: fetch_offsets(found, ASKED, OffsetAt.LATEST),
        lambda found: describe_consumer_groups(found, None, nobody),
        lambda found: describe_active_consumer_groups(found, 9),
    ],
    ids=["offsets", "groups", "active groups"],
)
def test_a_broker_that_was_waited_for_in_vain_is_not_waited_for_again_once_it_is_gone(
    ask: Callable[[Admin], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Admin(ConnectionSettings("h:1"))
    opened: list[Waiting | None] = [Waiting()]
    monkeypatch.setattr(found, "client", lambda: opened[-1])
    monkeypatch.setattr(found, "reopen", lambda: opened.append(None))
    with suppress(UnreachableError):  # nobody else lists groups
        ask(found)
    assert opened[1:] == [None]


class Remembering:
    """A confluent-kafka admin that remembers who coordinates a group, whatever that one answers."""

    def __init__(self, coordinator: int, now: int) -> None:
        self._coordinator, self._now = coordinator, now

    def list_consumer_groups(self, request_timeout: float) -> Any:
        valid = [SimpleNamespace(group_id="orders")]
        return SimpleNamespace(result=lambda: SimpleNamespace(valid=valid, errors=[]))

    def describe_consumer_groups(self, ids: list[str], request_timeout: float) -> Any:
        def answer() -> Any:
            if self._coordinator != self._now:
                raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR, "moved"))
            return SimpleNamespace(
                state=SimpleNamespace(name="STABLE"),
                type=SimpleNamespace(name="CLASSIC"),
                coordinator=SimpleNamespace(id=self._coordinator),
                partition_assignor="range",
                members=[],
            )

        return {id: SimpleNamespace(result=answer) for id in ids}


def test_a_coordinator_that_has_moved_is_found_by_a_client_that_remembers_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Admin(ConnectionSettings("h:1"))
    opened: list[Remembering] = []

    def open_anew() -> None:
        opened.append(Remembering(2, 2))

    opened.append(Remembering(1, 2))
    monkeypatch.setattr(found, "client", lambda: opened[-1])
    monkeypatch.setattr(found, "reopen", open_anew)
    committed = {TopicPartition("t", 0): 7}
    (group,) = describe_consumer_groups(found, None, lambda asked: dict.fromkeys(asked, committed))
    assert (group.coordinator, group.committed, group.fault) == (2, committed, None)
    assert len(opened) == 2


# -- groups of other types -------------------------------------------------------------------------


def listed(id: str, protocol_type: str, type: str | None, state: str = "Stable") -> Any:
    return SimpleNamespace(
        group_id=id, protocol_type=protocol_type, group_type=type, group_state=state
    )


class Brokers:
    """Brokers 1 and 2 that answer DescribeCluster and ListGroups over the wire."""

    def __init__(self, *groups: Any, operations: Any = None, silent: bool = False) -> None:
        brokers = [SimpleNamespace(broker_id=1), SimpleNamespace(broker_id=2)]
        self._cluster = SimpleNamespace(authorized_operations=operations, brokers=brokers)
        self._groups, self._silent = groups, silent

    def ask_any(self, ask: Any) -> Any:
        return self._cluster

    def ask_each(self, requests: Mapping[int, Any], seconds: float) -> dict[int, Any]:
        none = SimpleNamespace(error_code=0, groups=[])
        told = SimpleNamespace(error_code=0, groups=self._groups)
        return {1: told, 2: TimeoutError("no answer") if self._silent else none}


OFFSETS = {TopicPartition("t", 0): 5}


def others(wire: Brokers) -> tuple[dict[str, Any], list[Fault]]:
    lost: list[Fault] = []
    found = describe_other_groups(
        cast("Any", wire), None, lambda ids: dict.fromkeys(ids, OFFSETS), lost.append
    )
    return {group.id: group for group in found}, lost


def test_groups_that_the_driver_drops_are_told_with_their_type() -> None:
    found, lost = others(
        Brokers(
            *(listed("c", "consumer", "classic"), listed("old", "", "classic")),
            listed("work", "share", "share"),
            listed("wordcount", "streams", "streams", "Empty"),
            listed("workers", "connect", "classic"),
            listed("older", "connect", None),
        )
    )
    assert {id: (g.protocol, g.state, g.has_unknown_reads) for id, g in found.items()} == {
        "work": ("share", "stable", True),
        "wordcount": ("streams", "empty", True),
        "workers": ("connect", "stable", False),
        "older": ("connect", "stable", False),
    }
    assert {id: dict(g.committed) for id, g in found.items()} == {
        "work": {},
        "wordcount": OFFSETS,
        "workers": OFFSETS,
        "older": OFFSETS,
    }
    assert lost == []


@pytest.mark.parametrize(
    ("wire", "fault"),
    [
        (Brokers(silent=True), "REQUEST_TIMED_OUT"),
        (Brokers(operations=set()), "CLUSTER_AUTHORIZATION_FAILED"),
        (Brokers(operations={5, 8}), None),
    ],
)
def test_a_list_that_may_not_be_whole_is_told(wire: Brokers, fault: str | None) -> None:
    assert [told.name for told in others(wire)[1]] == ([fault] if fault else [])


BUSY = Fault("COORDINATOR_LOAD_IN_PROGRESS")


@pytest.mark.parametrize(
    ("silent", "silent_again", "complete"),
    [
        ([], [], True),
        ([], [GROUPS_HIDDEN], True),
        ([], [GROUPS_HIDDEN, BUSY], False),
        ([BUSY], [GROUPS_HIDDEN], False),
    ],
)
def test_what_is_hidden_for_good_is_told_beside_who_is_silent_and_is_not_missing(
    monkeypatch: pytest.MonkeyPatch,
    silent: list[Fault],
    silent_again: list[Fault],
    complete: bool,
) -> None:
    def tells(faults: list[Fault]) -> Any:
        def told(*asked: Any) -> tuple[()]:
            for fault in faults:
                asked[-1](fault)
            return ()

        return told

    monkeypatch.setattr(kafka, "describe_consumer_groups", tells(silent))
    monkeypatch.setattr(kafka, "describe_other_groups", tells(silent_again))
    monkeypatch.setattr(kafka, "describe_other_active_groups", tells(silent_again))
    active = ActiveGroups((), is_complete=not silent)
    monkeypatch.setattr(kafka, "describe_active_consumer_groups", lambda *_: active)
    monkeypatch.setattr(Wire, "manager", lambda _: None)
    client = kafka.KafkaClient(ConnectionSettings("h:1"))
    lost: list[Fault] = []
    client.describe_groups(lost=lost.append)
    assert set(lost) == {*silent, *silent_again}
    assert client.describe_active_groups(200).is_complete is complete
    client.close()


@pytest.mark.parametrize("error", [None, UnreachableError("Nobody answers.")])
def test_active_groups_of_every_type_are_asked_for_side_by_side(
    error: UnreachableError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for a broker that hangs."""
    met = threading.Barrier(2, timeout=30)
    work = Group("work", "stable", "", 1, (), {}, protocol="share")

    def tell_others(*_: Any) -> tuple[Group, ...]:
        met.wait()
        if error is not None:
            raise error
        return (work,)

    def tell(*_: Any) -> ActiveGroups:
        met.wait()
        return ActiveGroups(())

    monkeypatch.setattr(kafka, "describe_other_active_groups", tell_others)
    monkeypatch.setattr(kafka, "describe_active_consumer_groups", tell)
    monkeypatch.setattr(Wire, "manager", lambda _: None)
    client = kafka.KafkaClient(ConnectionSettings("h:1"))
    if error is None:
        assert client.describe_active_groups(9) == ActiveGroups((), other_groups=(work,))
    else:
        with pytest.raises(UnreachableError, match=error.title):
            client.describe_active_groups(9)
    client.close()


def test_only_those_with_members_are_active() -> None:
    wire = Brokers(listed("work", "share", "share"), listed("gone", "share", "share", "Empty"))
    assert [g.id for g in describe_other_active_groups(cast("Any", wire), lambda fault: None)] == [
        "work"
    ]
